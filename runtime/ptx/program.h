// The executor's form of a kernel. Private to runtime/ptx.
#pragma once

#include <cstdint>
#include <string>

namespace driftc::runtime::ptx {

struct ProgramCode {
  std::string name;
  std::size_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t max_threads = 0;
  bool has_global_atomics = false;
  std::size_t instruction_count = 0;
};

}  // namespace driftc::runtime::ptx
