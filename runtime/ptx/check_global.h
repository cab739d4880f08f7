// Global memory in checked mode: which bytes have been written (DeviceMemory::track_writes), and
// atomics mixed with plain accesses. Private to runtime/ptx.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/ptx/check_faults.h"
#include "runtime/ptx/check_lanes.h"
#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

class SharedShadow;

class GlobalShadow {
 public:
  // Generic addresses of shared memory go to `shared`.
  GlobalShadow(const ProgramCode& program, const Frame& frame, SharedShadow& shared,
               FaultList& faults);

  // `block_number`: counts blocks in launch order; names threads across blocks.
  void begin_block(std::uint64_t block_number) { block_number_ = block_number; }
  // An instruction that accesses host addresses, about to run; `bytes` of each lane.
  void access(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes, Access how);
  // Whether nothing is kept of the buffer that begins here, so that loads need no look.
  bool untracked(std::uint64_t begin);

 private:
  struct Tracked {  // last accesses of each 4-byte word of a buffer by a kernel with atomics
    std::vector<std::uint64_t> plain, atomic;
  };

  bool find(std::uint64_t address, std::uint64_t bytes);
  bool whole(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes, Access how);
  void one(const BoundInst& in, std::uint32_t lane, std::uint64_t address, std::uint32_t bytes,
           Access how);
  void mixed(const BoundInst& in, std::uint32_t lane, std::uint64_t address, std::uint32_t bytes,
             Access how);

  const Frame& frame_;
  SharedShadow& shared_;
  FaultList& faults_;
  const LaneFunctions& lanes_;
  bool has_atomics_;
  std::uint64_t block_number_ = 0;
  const DeviceMemory::Buffer* buffer_ = nullptr;  // hit last
  std::uint64_t asked_ = 0;                       // untracked() last, and the answer
  bool answer_ = false;
  std::unordered_map<std::uint64_t, Tracked> tracked_;  // by begin of the buffer
};

}  // namespace driftc::runtime::ptx
