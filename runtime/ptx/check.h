// Checked mode: what a hardware sanitizer looks for, found exactly, because every access of every
// thread passes through here in a known order. Private to runtime/ptx.
//
// Shadow state, per block: which registers each thread has written (values computed from a register
// never written are themselves undefined; using one as an address, as a branch condition or as the
// value of a store is the report), the accesses to shared memory of the current barrier interval
// (check_shared.h), and per buffer the bytes written so far (check_global.h). In most kernels every
// register is written before it is read on every path (ProgramCode::registers_written), and the
// first of these needs no state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ptx/check_async.h"
#include "runtime/ptx/check_faults.h"
#include "runtime/ptx/check_global.h"
#include "runtime/ptx/check_shared.h"
#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

class Checker {
 public:
  Checker(const ProgramCode& program, const Frame& frame);

  // `block_number`: counts blocks in launch order; names threads across blocks.
  void begin_block(std::uint64_t block_number);
  // Looks at an instruction that is about to run in groups [first, last). Not for regions.
  void before(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
    if (in.plain && !track_registers_) return;
    look(in, first, last);
  }
  // Whether a load of the buffer that begins here has nothing to be looked at for.
  bool untracked(std::uint64_t buffer) { return !track_registers_ && global_.untracked(buffer); }
  // A region that all threads of the block are about to run as one step. False: it must run
  // instruction by instruction, each seen by before().
  bool region(const BoundInst& in);
  // The condition of a branch, as read by the active lanes. False when some have not written it:
  // what they do next is then undefined, so the block ends there.
  bool branch(Reg condition, const Inst& at, std::uint32_t first, std::uint32_t last);
  // All threads met.
  void barrier() { shared_.barrier(); }

  // Faults of this block, in the order found, one per kind and instruction.
  std::span<const Fault> faults() const { return faults_.all(); }

 private:
  void look(const BoundInst& in, std::uint32_t first, std::uint32_t last);
  void access(const BoundInst& in, std::uint32_t first, std::uint32_t last);
  void async(const BoundInst& in, std::uint32_t first, std::uint32_t last);
  void shadow(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes, Access how);
  bool sources_defined(const Inst& i) const;
  std::uint32_t lanes_of(const BoundInst& in, std::uint32_t g) const;
  std::uint16_t* defined(Reg r) { return defined_.data() + std::size_t{r} * groups_; }
  std::uint32_t defined_in(Reg r, std::uint32_t g) const;
  void define(const BoundInst& in, std::uint32_t g, std::uint32_t lanes, std::uint32_t value);
  std::uint32_t defined_result(const BoundInst& in, std::uint32_t g) const;
  void propagate(const BoundInst& in, std::uint32_t first, std::uint32_t last);
  void require(Reg r, const BoundInst& in, std::uint32_t g, std::uint32_t lanes, Access how);

  const ProgramCode& program_;
  const Frame& frame_;
  std::uint32_t groups_;
  bool track_registers_;
  std::vector<std::uint16_t> defined_;     // [register][group]
  std::vector<std::uint8_t> all_defined_;  // in all threads of the block: the usual case, fast
  std::vector<Reg> presets_;
  std::vector<std::uint16_t> full_;  // threads of the block, per group
  FaultList faults_;
  SharedShadow shared_;
  AsyncShadow async_;
  GlobalShadow global_;
};

}  // namespace driftc::runtime::ptx
