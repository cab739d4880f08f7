// NVRTC's C interface as found at run time. Private to codegen/nvrtc.cpp and its test.
#pragma once

#include <cstddef>
#include <string>

#include "ir/support/dynlib.h"

namespace driftc::codegen {

struct NvrtcProgram;  // opaque

struct NvrtcApi {
  SharedLibrary library;
  std::string version;  // "13.0"
#define NVRTC_FUNCTION(field, symbol, result, parameters) result(*field) parameters = nullptr;
#include "codegen/nvrtc_functions.def"
};

}  // namespace driftc::codegen
