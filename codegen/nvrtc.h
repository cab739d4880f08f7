// NVRTC: CUDA C++ text -> PTX text, no GPU needed. Found at run time (ir/support/dynlib.h).
// Every compilation passes --fmad=false; an option that changes what arithmetic means (fast-math,
// ftz, prec-div, prec-sqrt, fmad) is refused as a bug of the caller. Thread-safe: compile() may run
// in parallel.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/support/dynlib.h"
#include "ir/support/result.h"

namespace driftc::codegen {

struct CompileRequest {
  std::string name;                   // of the kernel, for messages and the file name in the log
  std::string source;                 // CUDA C++
  std::string target = "compute_90";  // "compute_90" or "90"
  std::vector<std::string> options;   // further NVRTC options, e.g. "-lineinfo"
  // Down to machine code of that architecture, so that the log says what the kernel needs
  // (resources.h); the PTX is the same.
  bool machine_code = false;
};

struct CompiledPtx {
  std::string name;
  std::string ptx;
  std::string log;       // warnings; usually empty
  std::string compiler;  // "nvrtc 13.0"
  std::string key;       // of the cache: hash of source, target and options
};

class Nvrtc {
 public:
  // kUnavailable when there is none; `report` (optional) tells what was tried.
  static Result<Nvrtc> load(const Settings& settings, LibraryReport* report = nullptr);

  const std::string& version() const;  // "13.0"
  const std::string& path() const;
  // Failure is kInternal: driftc wrote the source. The message carries the emitted line and NVRTC's
  // log.
  Result<CompiledPtx> compile(const CompileRequest& request) const;

  struct Api;

 private:
  explicit Nvrtc(std::shared_ptr<const Api> api) : api_(std::move(api)) {}
  std::shared_ptr<const Api> api_;  // shared so that a handle is cheap to copy into worker threads
};

// Key of a request: hash of source, target and options (not the name, not the compiler's version).
std::string request_key(const CompileRequest& request);
// NVRTC's option for a target: "90", "sm_90", "compute_90" -> "compute_90", or "sm_90".
std::string normalised_target(const std::string& target, bool machine_code = false);

}  // namespace driftc::codegen
