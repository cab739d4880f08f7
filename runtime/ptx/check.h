// Checked mode: what a hardware sanitizer looks for, found exactly, because every access of every
// thread passes through here in a known order. Private to runtime/ptx.
//
// Shadow state, per block: which registers each thread has written (values computed from a register
// never written are themselves undefined; using one as an address, as a branch condition or as the
// value of a store is the report), and per element of shared memory the last writer, two readers
// and two atomics of the current barrier interval. Per buffer: the bytes written so far
// (DeviceMemory::track_writes).
// An element is as wide as the narrowest access of the kernel to shared memory, so that threads
// that write two halves of a word are not taken for a race.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

class Checker {
 public:
  Checker(const ProgramCode& program, const Frame& frame);

  // `block_number`: counts blocks in launch order; names threads across blocks.
  void begin_block(std::uint64_t block_number);
  // Looks at an instruction that is about to run in groups [first, last). Not for regions.
  void before(const BoundInst& in, std::uint32_t first, std::uint32_t last);
  // The condition of a branch, as read by the active lanes. False when some have not written it:
  // what they do next is then undefined, so the block ends there.
  bool branch(Reg condition, const Inst& at, std::uint32_t first, std::uint32_t last);
  // All threads met: a new interval begins.
  void barrier() { next_interval(); }

  // Faults of this block, in the order found, one per kind and instruction.
  std::span<const Fault> faults() const { return faults_; }

 private:
  enum class Access : std::uint8_t { kRead, kWrite, kAtomic };
  struct Tracked {  // last accesses of each 4-byte word of a buffer by a kernel with atomics
    std::vector<std::uint64_t> plain, atomic;
  };

  void next_interval();
  std::uint32_t lanes_of(const BoundInst& in, std::uint32_t g) const;
  std::uint16_t* defined(Reg r) { return defined_.data() + std::size_t{r} * groups_; }
  std::uint32_t defined_in(Reg r, std::uint32_t g) const;
  void define(const BoundInst& in, std::uint32_t g, std::uint32_t lanes, std::uint32_t value);
  std::uint32_t defined_result(const BoundInst& in, std::uint32_t g) const;
  void propagate(const BoundInst& in, std::uint32_t first, std::uint32_t last);
  void access(const BoundInst& in, std::uint32_t first, std::uint32_t last);
  void require(Reg r, const BoundInst& in, std::uint32_t g, std::uint32_t lanes, Access how);
  void shared_access(const BoundInst& in, std::uint32_t lane, std::int64_t address,
                     std::uint32_t bytes, Access how);
  void host_access(const BoundInst& in, std::uint32_t lane, std::uint64_t address,
                   std::uint32_t bytes, Access how);
  void mixed_access(const BoundInst& in, std::uint32_t lane, std::uint64_t address,
                    std::uint32_t bytes, Access how);
  void report(FaultKind kind, const Inst* inst, std::uint32_t lane, std::uint64_t address,
              std::uint32_t bytes, Access how, std::int64_t other = -1);

  const ProgramCode& program_;
  const Frame& frame_;
  std::uint32_t groups_;
  std::vector<std::uint16_t> defined_;     // [register][group]
  std::vector<std::uint8_t> all_defined_;  // in all threads of the block: the usual case, fast
  std::vector<Reg> presets_;
  std::vector<std::uint16_t> full_;  // threads of the block, per group
  std::uint32_t element_shift_ = 0;
  // Stamps: interval << 10 | thread. Intervals count on over blocks; an element written before
  // `first_interval_` was not written by this block.
  std::uint32_t interval_ = 0, first_interval_ = 0;
  std::vector<std::uint32_t> written_, read_, read_other_, atomic_, atomic_other_;
  std::uint64_t block_number_ = 0;
  const DeviceMemory::Buffer* buffer_ = nullptr;        // hit last
  std::unordered_map<std::uint64_t, Tracked> tracked_;  // by begin of the buffer
  std::vector<Fault> faults_;
};

}  // namespace driftc::runtime::ptx
