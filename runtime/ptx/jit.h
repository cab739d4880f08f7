// Machine code for a bound program (docs/adr/0006): units of jit_plan.h translated one by one when
// they run first, with xbyak. Everything else, and everything on a machine without AVX2, stays with
// the interpreter. Private to runtime/ptx.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/ptx/bind.h"
#include "runtime/ptx/jit_plan.h"
#include "runtime/ptx/jit_shapes.h"
#include "runtime/ptx/path.h"

namespace driftc::runtime::ptx {

// One access to memory of a unit, as the slow path needs it.
struct JitAccess {
  const Inst* inst = nullptr;
  std::uint8_t shift = 0;
  bool sign = false;
  bool store = false;
  bool wide = false;         // the lanes' addresses themselves are given, not 32-bit indices
  std::uint32_t leader = 0;  // the access whose cache serves this one's family
};

// The buffer an access hit last; machine code checks addresses against it. Places are counted in
// accesses (4 bytes x elements) from `begin`; with no place every check fails.
struct JitCache {
  std::uint64_t begin = 0;
  std::uint64_t window = 0;    // places of a vector's consecutive accesses
  std::uint64_t single = 0;    // places of one lane's access
  std::uint64_t bytes = 0;     // the same in bytes, for comparing lane by lane; 0: too many
  std::uint32_t elements = 0;  // the same in words
  std::uint32_t misses = 0;    // of a unit: how often its fast form did not fit lately
  std::uint32_t unused[6] = {};
};

// What machine code works on; one per thread. Its address is in rbp while a unit runs, followed by
// the caches of all accesses.
struct JitContext {
  static constexpr std::uint32_t kSpills = 256, kPredicateSpills = 128, kRoots = 192;
  struct Root {              // a value whose lanes were looked at
    std::int64_t first = 0;  // what lane 0 has, or would have
    std::int64_t bad = 0;    // -1: the lanes are not in line
  };

  std::byte* regs = nullptr;
  std::byte* shared = nullptr;
  const std::uint16_t* active = nullptr;
  std::uint64_t first = 0, last = 0;  // groups
  Frame* frame = nullptr;
  const JitAccess* accesses = nullptr;
  std::uint64_t mask = 0;          // of the running group
  std::uint64_t proved_half = 0;   // the second half of a group whose first one ran its fast form
  std::uint64_t vector_lanes = 0;  // lanes that the code runs at a time
  std::uint64_t shared_bytes = 0;
  // Places in shared memory as in JitCache, for 1, 2 and 4 elements a lane; `bytes` counts in
  // bytes.
  std::uint64_t shared_window[3] = {};
  std::uint64_t shared_single[3] = {};
  std::uint32_t shared_bytes_places[4] = {};

  // Lines that segments will read soon, brought in by the next region: `ahead_each` for every
  // group.
  static constexpr std::uint32_t kAhead = 1024;
  std::uint64_t ahead_count = 0, ahead_next = 0, ahead_each = 0;
  std::uint64_t* ahead_last =
      nullptr;  // [access][vector of a block's lanes]: where the last run's loads were
  std::uint64_t ahead[kAhead] = {};

  // Arguments of the slow path.
  std::uint64_t slow_base = 0;
  std::uint64_t slow_group = 0;  // of vector_lanes lanes
  std::uint64_t slow_mask = 0;
  alignas(64) std::uint32_t slow_index[16] = {};
  alignas(64) std::uint64_t slow_address[16] = {};
  alignas(64) std::uint32_t slow_value[4][16] = {};

  // Constants.
  alignas(64) std::uint32_t lanes[5][16] = {};       // lane << n
  alignas(64) std::uint64_t wide_lanes[5][16] = {};  // the same, 64 bits
  std::uint32_t canonical_nan = 0, one = 0, sign = 0, magnitude = 0;
  std::uint32_t two_31 = 0, all_ones = 0, max_s32 = 0, exponent = 0;
  std::uint32_t tf32_half = 0;
  std::uint32_t half_nan = 0;  // of f16 and bf16; also what bf16 adds before it drops 16 bits
  alignas(64) std::uint32_t interleave[8][16] = {};

  // Of the running group, where lanes have no mask registers: all ones for lanes that run, and the
  // number of the first of them.
  alignas(32) std::uint32_t active_lanes[8] = {};
  alignas(32) std::uint32_t first_lane[8] = {};

  alignas(64) std::byte saved[32][64] = {};
  std::uint64_t saved_pointers[4] = {};
  std::uint64_t saved_masks[8] = {};
  Root roots[kRoots];
  std::uint64_t predicates[kPredicateSpills] = {};
  alignas(64) std::byte spills[kSpills][64] = {};
};

// Segments that the translator gave up in this process, for test programs: they are interpreted, in
// silence and many times slower.
std::vector<std::string> refused_units();

class Jit {
 public:
  // Null when the path has no machine code. Checked mode looks at every access before it is made,
  // so for it accesses are left to the interpreter.
  static std::unique_ptr<Jit> create(const BoundProgram& bound,
                                     const std::array<std::uint32_t, 3>& block, Path path,
                                     bool checked);
  ~Jit();

  struct Unit;
  struct Step {
    Unit* unit = nullptr;           // null: interpret
    std::uint32_t instruction = 0;  // of the block
  };
  std::span<const Step> steps(std::uint32_t block) const { return blocks_[block]; }

  // A thread's memory; `frame` must stay where it is.
  class Thread {
   public:
    Thread(const Jit& jit, Frame& frame);
    // Runs a unit for groups [first, last). False: not translated, or not for what the registers
    // of some group hold now; the unit's instructions are to be interpreted for the groups from
    // `first` on, which was advanced.
    bool run(Unit& unit, std::uint32_t& first, std::uint32_t last);

   private:
    const Jit& jit_;
    Frame& frame_;
    struct Free {
      void operator()(std::byte* p) const;
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::vector<std::uint64_t> ahead_;
    JitContext* context_ = nullptr;
  };

  // The instructions of a unit, for interpretation.
  std::span<const std::uint32_t> body(const Unit& unit) const;
  bool is_region(const Unit& unit) const;
  // Of the units translated so far; for looking at it.
  std::vector<std::span<const std::uint8_t>> machine_code() const;

 private:
  Jit(const BoundProgram& bound, Path path);
  void translate(Unit& unit, const Frame& frame, std::uint32_t group) const;

  const BoundProgram& bound_;
  Path path_;
  ProgramPlan plan_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<std::vector<Step>> blocks_;
  mutable std::vector<JitAccess> accesses_;  // filled by translate()
  std::vector<Shape> shapes_;
  mutable std::mutex mutex_;
};

// A program as launches use it. `jit` is null on the portable path.
struct PreparedProgram {
  explicit PreparedProgram(BoundProgram b) : bound(std::move(b)) {}
  BoundProgram bound;
  std::unique_ptr<Jit> jit;
};

}  // namespace driftc::runtime::ptx
