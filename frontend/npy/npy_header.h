// The header of a .npy file: magic, version, length, and a Python dict literal. Internal to this
// folder.
#pragma once

#include "frontend/npy/npy.h"

namespace driftc::frontend::npy {

// Magic (6), version (2), length (2 or 4): what must be read to know how long the header is.
constexpr std::size_t kPreambleBytes = 12;

// Bytes before the first element, from the first kPreambleBytes (fewer in a shorter file).
// `file_size` bounds it: a length that points beyond the file is an error, not an allocation.
Result<std::size_t> header_size(std::string_view preamble, std::uint64_t file_size,
                                std::string_view file);
// `head` holds exactly the header. Checks that the elements fill the rest of the file exactly.
Result<Header> parse_header(std::string_view head, std::uint64_t file_size, std::string_view file);

}  // namespace driftc::frontend::npy
