// Kernels compiled once: PTX on disk, keyed by hash(source, target, options) and NVRTC's version.
// Writes are atomic (temporary file, then rename), every entry carries a hash of its content, and a
// damaged entry is dropped and rebuilt; several processes may share one folder. Recorded folders
// are read-only and answer, whatever their version, when NVRTC is missing.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/nvrtc.h"

namespace driftc::codegen {

struct CacheOptions {
  std::string folder;                         // "" = no disk cache
  std::vector<std::string> recorded_folders;  // PTX shipped with the repository or the tests
};

// What happened to the requests so far.
struct CacheCounters {
  std::size_t hits = 0;      // from the disk cache
  std::size_t recorded = 0;  // from a recorded folder
  std::size_t misses = 0;    // not found (compiled or failed)
  std::size_t compiled = 0;  // by NVRTC in this process
  std::size_t damaged = 0;   // entries dropped
};

class KernelCache {
 public:
  // `nvrtc` empty: only recorded entries and disk entries of any version can answer.
  KernelCache(CacheOptions options, std::optional<Nvrtc> nvrtc);

  // In the order of the requests. Equal requests are compiled once. The first error (in request
  // order) wins, so that a message does not depend on the number of threads.
  Result<std::vector<CompiledPtx>> compile_all(std::span<const CompileRequest> requests,
                                               int threads);
  Result<CompiledPtx> compile(const CompileRequest& request);

  CacheCounters counters() const;
  bool has_compiler() const { return nvrtc_.has_value(); }
  const std::optional<Nvrtc>& compiler() const { return nvrtc_; }

  // Writes `compiled` as a recorded entry (tools that refresh shipped PTX).
  static Result<void> record(const std::string& folder, const CompiledPtx& compiled);

 private:
  std::optional<CompiledPtx> find_on_disk(const std::string& key);
  void store(const CompiledPtx& compiled);
  Result<CompiledPtx> produce(const CompileRequest& request, const std::string& key);

  CacheOptions options_;
  std::optional<Nvrtc> nvrtc_;
  std::atomic<std::size_t> hits_ = 0, recorded_ = 0, misses_ = 0, compiled_ = 0, damaged_ = 0;
};

}  // namespace driftc::codegen
