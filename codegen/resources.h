// What a kernel needs of an SM, as ptxas reports it (CompileRequest::machine_code).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace driftc::codegen {

struct KernelResources {
  int registers = 0;               // of a thread
  std::int64_t shared_bytes = 0;   // of a block, static
  std::int64_t spilled_bytes = 0;  // of a thread: registers that went to local memory
};

// Of the first kernel in the log; empty where the log says nothing.
std::optional<KernelResources> resources_of(std::string_view log);

}  // namespace driftc::codegen
