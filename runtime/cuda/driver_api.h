// The CUDA driver (libcuda), found at run time; nothing of it is linked. So far only what `driftc
// doctor` tells: version and number of GPUs. The executor over it will add its entry points here.
#pragma once

#include <string>

#include "ir/support/dynlib.h"
#include "ir/support/result.h"

namespace driftc::runtime::cuda {

// As the header has them, enums as int.
struct DriverApi {
  SharedLibrary library;
  int (*init)(unsigned int flags) = nullptr;
  int (*version)(int*) = nullptr;
  int (*device_count)(int*) = nullptr;
  int (*error_text)(int status, const char** text) = nullptr;
};

struct DriverFacts {
  std::string path;
  std::string version;  // the newest CUDA that it can run: "13.0"
  int gpus = 0;
  std::string no_gpu;  // why not: the driver's words
};

// kUnavailable when there is no driver or it lacks a function. A driver that finds no GPU is no
// error.
Result<DriverFacts> driver_facts(const Settings& settings, LibraryReport* report = nullptr);

}  // namespace driftc::runtime::cuda
