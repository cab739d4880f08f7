// Reads machine code as far as a test needs it: which instructions there are, not what they do.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace driftc::test {

// Follows the code from its first byte, over branches and calls. "" when every instruction that can
// be reached is one of AVX2, FMA, F16C or of the plain 64-bit set; else what is not, and where.
// `instructions`: how many were read.
std::string beyond_avx2(std::span<const std::uint8_t> code, std::size_t& instructions);

}  // namespace driftc::test
