// One kernel of a Module, decoded for the executor: instructions checked against what is modelled
// bit-exactly, control flow and registers analysed. Done once per kernel; a Program is immutable
// and shared by all launches. An instruction that is not modelled exactly is refused by name and
// place, never approximated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "ir/support/result.h"
#include "runtime/ptx/module.h"
#include "runtime/ptx/path.h"

namespace driftc::runtime::ptx {

struct ProgramCode;      // program.h: the executor's own form
struct PreparedProgram;  // jit.h: bound to a block size, with its machine code

class Program {
 public:
  explicit Program(std::unique_ptr<const ProgramCode> code);
  ~Program();

  const std::string& name() const;
  std::size_t parameter_bytes() const;
  std::uint32_t static_shared_bytes() const;
  std::uint32_t max_threads() const;  // .maxntid, 0 = not given
  bool has_global_atomics() const;    // blocks then run one after the other, in the seed's order
  std::size_t instruction_count() const;  // as printed by NVRTC
  std::size_t fused_regions() const;      // outer-product regions found (region.h)
  const ProgramCode& code() const { return *code_; }
  // Made once per block size, path and whether for checked mode; launches share it.
  std::shared_ptr<const PreparedProgram> prepare(const std::array<std::uint32_t, 3>& block,
                                                 Path path, bool checked) const;

 private:
  using Key = std::tuple<std::array<std::uint32_t, 3>, Path, bool>;
  mutable std::mutex mutex_;
  mutable std::map<Key, std::shared_ptr<const PreparedProgram>> prepared_;
  std::unique_ptr<const ProgramCode> code_;
};

// How to decode; the defaults are what users get. Tests switch the fast forms off to compare with
// the plain interpreter, which is the oracle.
struct DecodeOptions {
  bool convert_branches = true;       // short forward branches become guarded instructions
  bool fuse_regions = true;           // shared loads + FMA chains run as outer-product regions
  bool scalar_uniform = true;         // values equal in all threads are computed once
  Path highest_path = Path::kAvx512;  // launches use the best path of the machine up to this one
};

// `entry_name` empty: the only kernel of the module.
Result<std::shared_ptr<const Program>> decode(const Module& module, std::string_view entry_name,
                                              const DecodeOptions& options = {});

}  // namespace driftc::runtime::ptx
