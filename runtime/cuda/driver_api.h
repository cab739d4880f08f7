// The CUDA driver (libcuda), found at run time (ir/support/dynlib.h): the entry points that are
// used, as our own prototypes. No CUDA header is needed, nothing is linked, and no CUDA runtime
// library is involved. Absent, too old or incomplete is ErrorKind::kUnavailable.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ir/support/dynlib.h"
#include "ir/support/result.h"

namespace driftc::runtime::cuda {

using DevicePointer = unsigned long long;

// CU_<name> and CUDA_<name> of the header are kCu_<name> here; enums of the interface are int.
enum DriverValue : int {
#define DRIVER_VALUE(prefix, name, value) kCu_##name = value,
#include "runtime/cuda/driver_values.def"
};

struct DriverApi {
  SharedLibrary library;
  int version = 0;  // the newest CUDA that it can run: 13000
#define DRIVER_FUNCTION(field, symbol, header, parameters) int(*field) parameters = nullptr;
#include "runtime/cuda/driver_functions.def"

  std::string version_text() const;  // "13.0"
};

// The oldest driver with every function that is used and the PTX of an NVRTC that is still had.
inline constexpr int kOldestDriver = 12000;

// `report` (optional) tells what was tried. Does not initialise the driver.
Result<std::shared_ptr<const DriverApi>> load_driver(const Settings& settings,
                                                     LibraryReport* report = nullptr);

// "CUDA_ERROR_OUT_OF_MEMORY: out of memory".
std::string status_text(const DriverApi& api, int status);
// A call that failed: kUnavailable when the machine is to blame (no GPU, no memory, driver too old
// for the PTX), else kInternal. `during` says what it was for: kernel and launch.
Diagnostic driver_error(const DriverApi& api, const std::string& call, int status,
                        const std::string& during);

struct DriverFacts {
  std::string path;
  std::string version;  // "13.0"
  int gpus = 0;
  std::string gpu;     // name and compute capability of the first, "" without one
  std::string no_gpu;  // why not: the driver's words
};

// A driver that finds no GPU is no error.
Result<DriverFacts> driver_facts(const Settings& settings, LibraryReport* report = nullptr);

}  // namespace driftc::runtime::cuda
