// Shared memory in checked mode: who wrote and read each element since the last barrier. Private to
// runtime/ptx.
//
// An element is as wide as the narrowest access of the kernel, so that threads that write two
// halves of a word are not taken for a race. Each has stamps of the last writer, two readers and
// two atomics: interval << 10 | thread. A barrier starts an interval, and clears nothing.
//
// What is usual costs little. A write of a whole group to elements nobody wrote in this interval is
// one comparison and one store of vectors. A read is compared with the stamps of writers as one
// range, and noted with its addresses (`pending_`): who read what matters only when somebody writes
// there before the next barrier, and only then are the readers' stamps made, in the order of the
// reads. All else goes element by element and thread by thread, and every report comes from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "runtime/ptx/check_faults.h"
#include "runtime/ptx/check_lanes.h"
#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

class SharedShadow {
 public:
  SharedShadow(const ProgramCode& program, const Frame& frame, FaultList& faults);

  void begin_block();
  // All threads met: a new interval begins.
  void barrier();
  // An instruction that accesses shared memory, about to run; `bytes` of each lane.
  void access(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes, Access how);
  // The same for one lane and an address that was computed elsewhere (generic addresses).
  void one(const BoundInst& in, std::uint32_t lane, std::int64_t address, std::uint32_t bytes,
           Access how);
  // A region, about to run with all threads of the block. True: its loads are in bounds, aligned,
  // of memory that was written before the last barrier, and noted. False: they have to be looked at
  // one by one, and nothing was noted.
  bool region(const BoundRegion& region);

 private:
  // Reads that have no stamps yet: of an instruction, or of the loads of a region.
  struct PendingRead {
    const BoundInst* in = nullptr;
    const BoundRegion* region = nullptr;
    std::uint32_t bytes = 0;    // of each lane
    std::size_t addresses = 0;  // in addresses_: of all lanes, for each base of a region; or one
    std::size_t masks = 0;      // in masks_, one per group in [first, last)
    std::uint32_t first = 0, last = 0;
    bool same = false;  // one address for all lanes
  };
  // An address register of the loads of a region, and all that is loaded from it.
  struct LoadBase {
    Reg reg = kNoReg;
    Place place;
    std::vector<std::int64_t> offsets;  // of elements of 4 bytes; ascending, none twice
    std::uint32_t widest = 4;           // bytes of the widest load
    bool offsets_aligned = true;        // every load's offset is a multiple of its width
  };
  struct Range {  // bytes [low, high)
    std::int64_t low = 0, high = 0;
  };

  const std::uint32_t* row(const BoundInst& in) const;
  bool usual_extent(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                    Range& range) const;
  void read(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes);
  void write(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes);
  void one_by_one(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes, Access how);
  bool clean(std::int64_t low, std::int64_t high) const;
  bool clean_lanes(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes) const;
  const std::vector<LoadBase>& bases_of(const BoundRegion& region);
  bool clean_loads(const LoadBase& base, const LaneExtent& extent);
  bool write_group(const BoundInst& in, std::uint32_t g, std::uint32_t mask, std::uint32_t bytes);
  void check_read(const BoundInst& in, std::uint32_t lane, std::uint32_t element,
                  std::uint32_t bytes);
  void note(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes, Range range);
  void make_stamps();
  void stamp_group(const BoundInst& in, const std::uint32_t* addresses, bool same,
                   std::uint32_t mask, std::uint32_t group, std::uint32_t bytes);
  void stamp_read(std::int64_t address, std::uint32_t bytes, std::uint32_t lane);
  bool foreign(std::uint32_t stamp, std::uint32_t lane) const;

  std::uint32_t now() const { return interval_ << kThreadBits; }

  const Frame& frame_;
  FaultList& faults_;
  const LaneFunctions& lanes_;
  bool ordered_warps_;  // the kernel has warp barriers: threads of one warp are ordered
  bool all_stamped_;  // every read is stamped at once: the kernel has atomics or generic addresses
  std::uint32_t element_shift_ = 0;
  // Intervals count on over blocks; an element written before `first_interval_` was not written by
  // this block.
  std::uint32_t interval_ = 0, first_interval_ = 0;
  std::vector<std::uint32_t> written_, read_, read_other_, atomic_, atomic_other_;
  // Reads of this interval that have no stamps yet, in order; and whether others have.
  std::vector<PendingRead> pending_;
  std::vector<std::uint32_t> addresses_;
  std::vector<std::uint16_t> masks_;
  std::vector<Range> pending_ranges_;
  bool stamped_ = false;
  std::unordered_map<const BoundRegion*, std::vector<LoadBase>> bases_;
  std::vector<std::uint64_t> footprint_;  // scratch of clean_loads
};

}  // namespace driftc::runtime::ptx
