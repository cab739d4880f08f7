// What an executing block looks like, and the bound form of instructions. Private to runtime/ptx.
//
// Threads of a block are lanes 0..n-1 in the order of their linear index, in groups of 16. A
// register of the block is an array with one element per lane (predicates: one bit per lane, 16
// bits per group); a uniform register has 16 equal elements and is read with a lane mask of 0, so
// that one loop serves both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/ptx/memory.h"
#include "runtime/ptx/program.h"
#include "runtime/ptx/region.h"

namespace driftc::runtime::ptx {

inline constexpr std::uint32_t kGroupLanes = 16;
inline constexpr std::uint32_t kMaxLanes = 1024;
inline constexpr std::uint32_t kMaxGroups = kMaxLanes / kGroupLanes;

struct Frame;
struct BoundInst;
// Executes lanes of groups [first, last). Plain operations compute every lane of them; the others
// consult the mask.
using ExecFn = void (*)(const BoundInst& inst, Frame& frame, std::uint32_t first,
                        std::uint32_t last);

// Where a register lives: byte offset in the register file, and the mask to apply to a lane (or
// group) index.
struct Place {
  std::uint32_t offset = 0;
  std::uint32_t mask = 0;  // 0 for uniform registers, ~0 otherwise
};

struct BoundRegion;

struct BoundInst {
  ExecFn fn = nullptr;
  Place dst[4], src[10];
  Place guard;
  std::int64_t imm = 0;
  const Inst* inst = nullptr;  // for reports and rare details
  const BoundRegion* region = nullptr;
  const MmaShape* mma = nullptr;
  // kMma: how many mma instructions, this one and those behind it, run as one step; 0 where an
  // earlier one of the block ran this.
  std::uint32_t mma_run = 0;
  bool mma_overwrites = false;  // some mma of the run writes where one has its A or B fragments
  Memory memory;
  RegKind kind = RegKind::kNone;  // of dst[0]
  std::uint8_t destinations = 0, sources = 0;
  bool guarded = false, guard_negated = false;
  bool uniform = false;  // once, for group 0
  bool plain = true;     // the mask is applied by the caller
};

// A region with its registers placed and its operand tables laid out for the kernels.
struct BoundRegion {
  struct Base {
    Place place;
    bool is_address = false;
    std::int32_t min_offset = 0, max_offset = 0;
    std::uint32_t offset_bits = 0;  // all offsets or-ed: alignment
    const std::vector<std::uint32_t>* operands = nullptr;
  };
  struct Side {                           // the rows, or the columns, of a tile
    std::vector<std::uint32_t> operands;  // [step * side + i]
    std::vector<std::uint32_t> base;      // per row, or Region::kMixed
    std::vector<std::int32_t> first;      // offset at step 0, per row
    std::int32_t stride = 0;              // of the offsets from step to step
    bool linear = false;                  // every row has one base, and offsets advance by `stride`
    std::vector<std::uint32_t> bases_used;
  };
  struct Tile {
    std::uint32_t rows = 0, columns = 0, steps = 0;
    Side a, b;
    std::vector<Place> in, out;
  };
  std::vector<Base> bases;
  std::vector<Region::Operand> operands;
  std::vector<Tile> tiles;
  std::vector<BoundInst> fallback;
  std::uint32_t max_pointers = 0;  // longest pointer table a tile needs
};

enum class FaultKind : std::uint8_t {
  kNone,
  kOutOfBounds,
  kMisaligned,
  kReadOnly,
  kTrap,
  kDivergentBarrier,
  kPartialWarp,  // mma.sync or ldmatrix that some threads of the warp do not execute
  kSteps,
  // Checked mode only (check.h).
  kUninitialized,      // a read of memory nothing wrote
  kUndefinedRegister,  // an address, condition or stored value from a register never written
  kNotDelivered,       // an access to what cp.async copies, before the wait
  kRace,               // an access to what another thread wrote since the last barrier
  kRaceWithRead,       // a write to what another thread read since the last barrier
  kMixedAtomic         // atomics and plain accesses of other threads to one address
};

struct Fault {
  FaultKind kind = FaultKind::kNone;
  const Inst* inst = nullptr;
  std::uint32_t lane = 0;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  bool write = false;
  std::int64_t other = -1;  // the other thread of a race, in this block; -1: none or not in it
  // What was read there, or about to be written; no bytes: not known.
  std::uint64_t value = 0;
  std::uint32_t value_bytes = 0;
};

struct Frame {
  std::byte* regs = nullptr;
  std::byte* shared = nullptr;
  std::uint32_t shared_bytes = 0;
  std::byte* local = nullptr;  // one area of local_bytes per lane
  std::uint32_t local_bytes = 0;
  const std::byte* params = nullptr;
  const std::uint16_t* active = nullptr;  // bits of the lanes that execute now, per group
  std::uint32_t groups = 0;
  std::uint32_t lanes = 0;  // threads of the block
  // The buffer used last; most accesses hit it. Others are looked up.
  std::uint64_t cached_begin = 1, cached_end = 0;
  bool cached_writable = false;
  std::uint64_t located = 0;  // look-ups so far
  const DeviceMemory* memory = nullptr;
  const DeviceMemory* constants = nullptr;  // the program's own arrays
  std::byte* region_scratch = nullptr;      // gathered multiplicands of one group
  const std::byte** region_pointers = nullptr;
  Fault fault;

  void fail(FaultKind kind, const Inst* inst, std::uint32_t lane, std::uint64_t address,
            std::uint32_t bytes, bool write) {
    if (fault.kind == FaultKind::kNone) fault = {kind, inst, lane, address, bytes, write};
  }
  // Makes the cached buffer the one that holds [address, address + bytes); false when there is
  // none.
  bool locate(std::uint64_t address, std::uint64_t bytes);
};

// Functions of the best instruction set of this machine, by Op (regions apart).
const ExecFn* plain_functions();
// kLoad and kStore, by the memory they reach: any host address, shared memory, local memory.
ExecFn host_function(Op op);
ExecFn shared_function(Op op);
ExecFn local_function(Op op);
// Parameters, atomics and what a warp exchanges; null for barriers and regions, which have none.
ExecFn warp_function(Op op);
// kMma and kLoadMatrix.
ExecFn mma_function(Op op);
// One part of an m8n8k4 by the warp that begins at lane `warp`, all of whose threads execute.
void mma_of_quad_pairs(const BoundInst& inst, Frame& frame, std::size_t warp);
// False when an address is out of range or misaligned: the caller then runs the fallback, which
// reports it.
using RegionFn = bool (*)(const BoundRegion& region, Frame& frame, std::uint32_t first,
                          std::uint32_t last);
RegionFn region_function();
// Fills in the value of a fault of `in`, while registers and memory are as the instruction found
// them.
void note_value(const BoundInst& in, const Frame& frame, Fault& fault);
// dst = mask ? value : dst, for the three kinds of register.
void blend_destination(const BoundInst& inst, Frame& frame, const std::uint16_t* mask,
                       const std::byte* value, std::uint32_t first, std::uint32_t last);

}  // namespace driftc::runtime::ptx
