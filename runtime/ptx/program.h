// The executor's form of a kernel: virtual registers, basic blocks, slots. Private to runtime/ptx.
// Stages that work on it, in this order: select (Module -> Code), convert_branches, simplify,
// uniformity, regions, allocate. After allocate it is immutable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/support/result.h"
#include "runtime/ptx/mma.h"
#include "runtime/ptx/module.h"
#include "runtime/ptx/path.h"

namespace driftc::runtime::ptx {

enum class Op : std::uint16_t {
#define X(name, d, a, b, c) k##name,
#include "runtime/ptx/ops.def"
#undef X
  kPlainCount,  // everything above is a plain operation
  // Operations that know the mask of active lanes themselves.
  kLoadParam = kPlainCount,  // uniform; imm = offset
  kLoad,                     // src[0] = address, memory = how; up to 4 destinations
  kStore,                    // src[0] = address, src[1..] = values
  kAtomic,                   // src[0] = address, src[1] = value, src[2] = second value of cas
  kShuffle,  // dst[0] = value, dst[1] = predicate or none; src = value, lane, clamp, member mask
  kVote,     // imm = VoteKind; src[0] = predicate, src[1] = member mask
  kActiveMask,
  kBarrier,
  kTrap,
  kAsyncCommit,  // cp.async.commit_group; nothing but for checked mode, as the next
  kAsyncWait,    // cp.async.wait_group imm
  kMma,          // imm = index of an MmaShape; sources A, B, C fragments, destinations D (mma.h)
  kLoadMatrix,   // ldmatrix: src[0] = address, memory.count matrices; imm = offset
  kRegion,       // imm = index of a Region
  kCount,
};

enum class RegKind : std::uint8_t { kNone, kW, kL, kP };
enum class Rounding : std::uint8_t { kNearest, kZero, kDown, kUp };
// Unordered forms are true when an operand is NaN.
enum class Comparison : std::uint8_t {
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kEqu,
  kNeu,
  kLtu,
  kLeu,
  kGtu,
  kGeu,
  kNum,
  kNan
};
enum class VoteKind : std::uint8_t { kAll, kAny, kUni, kBallot };
enum class ShuffleKind : std::uint8_t { kUp, kDown, kBfly, kIdx };
enum class AtomicKind : std::uint8_t {
  kAddF32,
  kAddF64,
  kAdd,
  kMinS,
  kMinU,
  kMaxS,
  kMaxU,
  kAnd,
  kOr,
  kXor,
  kExch,
  kCas
};

using Reg = std::uint32_t;
inline constexpr Reg kNoReg = ~Reg{0};

struct Memory {
  Space space = Space::kNone;  // kNone: generic
  std::uint8_t bytes = 0;      // per element
  bool sign_extend = false;
  std::uint8_t count = 1;  // of a vector
  bool async = false;      // a store of cp.async: it counts once its thread has waited for it
};

constexpr std::array<Reg, 10> filled_with_none() {
  std::array<Reg, 10> out{};
  out.fill(kNoReg);
  return out;
}

struct Inst {
  Op op = Op::kMov32;
  std::uint8_t destinations = 0;
  std::uint8_t sources = 0;
  bool guard_negated = false;
  bool uniform = false;  // executed once for the whole block (filled by uniformity)
  std::array<Reg, 4> dst{kNoReg, kNoReg, kNoReg, kNoReg};
  std::array<Reg, 10> src = filled_with_none();
  Reg guard = kNoReg;
  std::int64_t imm = 0;
  Memory memory;
  std::uint32_t line = 0;  // in the PTX text
  SourceLine source;
};

struct RegInfo {
  RegKind kind = RegKind::kNone;
  bool is_constant = false;   // never written; value in `bits`
  bool is_special = false;    // set by the machine before a block runs; which one in `bits`
  bool is_parameter = false;  // read once, where the kernel begins; never written again
  bool uniform = false;
  std::uint64_t bits = 0;
  std::uint32_t slot = 0;  // filled by allocate; slots are numbered per (kind, uniform)
};

// Read-only registers that the machine fills. Uniform ones first.
enum class Special : std::uint8_t {
  kNtidX,
  kNtidY,
  kNtidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNwarpid,
  kSharedBase,
  kFirstVarying,
  kTidX = kFirstVarying,
  kTidY,
  kTidZ,
  kLaneId,
  kWarpId,
  kLanemaskEq,
  kLanemaskLt,
  kLanemaskLe,
  kLanemaskGt,
  kLanemaskGe,
  kLocalBase
};

struct Block {
  enum class End : std::uint8_t { kJump, kBranch, kReturn };
  std::vector<Inst> code;
  End end = End::kReturn;
  std::uint32_t target = 0;  // of a jump, or of a taken branch
  std::uint32_t next = 0;    // of a branch not taken
  Reg condition = kNoReg;
  bool condition_negated = false;
  bool uniform_branch = false;  // filled by uniformity
  bool divergent = true;        // may run for some of the living threads only (the same)
  std::uint32_t join = 0;       // immediate post-dominator; blocks.size() = the kernel's end
  std::vector<Reg> live_out;    // registers that a later block reads (filled by allocate)
  std::uint32_t line = 0;
  SourceLine source;
};

// A run of shared loads and FMA chains executed as one step (region.h).
struct Region;

struct Code {
  std::vector<RegInfo> regs;
  std::vector<Block> blocks;
  std::vector<Region> regions;
};

// A module-level array that lives with the program.
struct Segment {
  std::vector<std::uint64_t> storage;  // 8-byte words: alignment without a custom allocator
  std::uint64_t bytes = 0;
  std::string name;
};

struct ProgramCode {
  ProgramCode();
  ~ProgramCode();
  std::string name;
  std::string file;
  std::vector<std::string> source_files;
  std::size_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0;
  std::uint32_t max_threads = 0;
  bool has_global_atomics = false;
  bool has_warp_barriers = false;  // bar.warp.sync, which orders the threads of a warp
  // Every register is written before it is read, on every path (filled by decode).
  bool registers_written = false;
  std::size_t instruction_count = 0;
  std::vector<MmaShape> mma_shapes;  // of the kMma instructions
  Path highest_path = Path::kAvx512;
  Code code;
  std::vector<Segment> segments;
  struct SharedArray {
    std::string name;
    std::uint64_t begin = 0, bytes = 0;  // 0 bytes: to the end of the dynamic part
  };
  std::vector<SharedArray> shared_arrays;  // for reports
  // Numbers of slots, filled by allocate.
  std::uint32_t slots_w = 0, slots_l = 0, slots_p = 0, uniform_w = 0, uniform_l = 0, uniform_p = 0;
};

// One stage each; see the .cpp of the same name.
Result<std::unique_ptr<ProgramCode>> select(const Module& module, const Entry& entry);
void convert_branches(Code& code);
void simplify(Code& code, bool registers_written);
void find_joins(Code& code);
void find_uniform(Code& code, bool enable);
void split_uniform_products(Code& code);  // simplify.cpp
void find_regions(Code& code);
void allocate(ProgramCode& program);

// Facts about operations, for the stages.
struct OpFacts {
  const char* name;
  RegKind d, a, b, c;
};
const OpFacts& facts_of(Op op);
inline bool is_plain(Op op) { return op < Op::kPlainCount; }

}  // namespace driftc::runtime::ptx
