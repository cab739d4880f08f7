// Shared libraries found and opened at run time (NVRTC, libcuda, cuDNN): nothing of CUDA is linked.
// Search order: DRIFTC_LIBRARY_PATH, a copy already loaded, NVIDIA wheel folders (nvidia/*/lib
// below each Settings::wheel_roots), the plain SONAMEs (the loader's own path; newest first), the
// usual CUDA prefix
// (/usr/local/cuda*/lib64). A stub (a path through a folder called "stubs") is never loaded: it
// would answer every call with an error. Libraries stay loaded for the life of the process
// (unloading CUDA is unsafe).
#pragma once

#include <string>
#include <vector>

#include "ir/support/env.h"
#include "ir/support/result.h"

namespace driftc {

struct LibrarySpec {
  std::string name;                  // for messages: "NVRTC"
  std::vector<std::string> sonames;  // newest first: "libnvrtc.so.13", "libnvrtc.so.12"
  std::vector<std::string> helpers;  // opened first from the same folder when there, in this order:
                                     // "libnvrtc-builtins.so.*" (a trailing * matches any version)
  std::string hint;                  // how to get it
};

// One place that was tried; `driftc doctor` prints these.
struct LibraryAttempt {
  std::string path;
  std::string outcome;  // "loaded", "not there", "stub, never loaded", or the loader's message
};

struct LibraryReport {
  std::string name;
  std::string path;  // real path of what was loaded; "" when nothing was
  std::vector<LibraryAttempt> attempts;
};

class SharedLibrary {
 public:
  const std::string& path() const { return path_; }
  // Null when the library lacks it.
  void* symbol(const char* name) const;
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  friend Result<SharedLibrary> open_library(const LibrarySpec&, const Settings&, LibraryReport*);
  void* handle_ = nullptr;
  std::string path_;
};

// ErrorKind::kUnavailable when no candidate loads; the notes say what was tried.
Result<SharedLibrary> open_library(const LibrarySpec& spec, const Settings& settings,
                                   LibraryReport* report = nullptr);

}  // namespace driftc
