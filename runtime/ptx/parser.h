// PTX text -> Module. Input is what NVRTC prints; a malformed or hostile text gives an error with
// file:line:column and the source line, within bounded time and memory.
// Errors are ErrorKind::kInternal: the text comes from driftc's own code generation.
#pragma once

#include <string_view>

#include "ir/support/result.h"
#include "runtime/ptx/module.h"

namespace driftc::runtime::ptx {

Result<Module> parse_module(std::string_view text, std::string_view file);

}  // namespace driftc::runtime::ptx
