// cp.async in checked mode: which words of shared memory a thread has asked for and not waited for.
// Until the thread that copies has executed a wait for the copy's group, nobody may look at the
// words or write them; from then on they are written by that thread in that barrier interval, so
// others need a barrier behind the wait (PTX ISA, "Data Movement and Conversion Instructions:
// cp.async"). Private to runtime/ptx.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ptx/check_shared.h"

namespace driftc::runtime::ptx {

class AsyncShadow {
 public:
  AsyncShadow(const ProgramCode& program, const Frame& frame, SharedShadow& shared,
              FaultList& faults);

  void begin_block();
  // Copies are on their way: everything that accesses shared memory has to come here.
  bool busy() const { return copies_ > 0; }
  // A store of cp.async, about to run.
  void copy(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes);
  // Another access to shared memory.
  void access(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes, Access how);
  void commit(const AccessLanes& lanes);
  void wait(const AccessLanes& lanes, std::int64_t groups_that_may_run);

 private:
  struct Copy {
    const BoundInst* in;
    std::uint32_t group, address, bytes;
  };
  struct Thread {
    std::uint32_t group = 0;  // that the next copy joins; groups before it are committed
    std::vector<Copy> copies;
  };

  template <class F>
  void for_lanes(const AccessLanes& lanes, F function);
  std::int64_t address_of(const BoundInst& in, std::uint32_t lane) const;
  bool inside(std::int64_t address, std::uint32_t bytes) const;
  void refuse_pending(const BoundInst& in, std::uint32_t lane, std::int64_t address,
                      std::uint32_t bytes, Access how);

  const Frame& frame_;
  SharedShadow& shared_;
  FaultList& faults_;
  std::vector<Thread> threads_;         // none where the kernel has no cp.async
  std::vector<std::uint16_t> pending_;  // of each 4-byte word: 1 + the thread that copies, or 0
  std::size_t copies_ = 0;
};

}  // namespace driftc::runtime::ptx
