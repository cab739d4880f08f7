// What checked mode has found in a block. Private to runtime/ptx.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {

enum class Access : std::uint8_t { kRead, kWrite, kAtomic };

// Threads in stamps: what a thread did and when, in 32 bits.
inline constexpr std::uint32_t kThreadBits = 10;
inline constexpr std::uint32_t kThreadMask = (1u << kThreadBits) - 1;

// In the order found, one per kind and instruction.
class FaultList {
 public:
  void clear() { faults_.clear(); }
  std::span<const Fault> all() const { return faults_; }

  void report(FaultKind kind, const Inst* inst, std::uint32_t lane, std::uint64_t address,
              std::uint32_t bytes, Access how, std::int64_t other = -1) {
    constexpr std::size_t kMaxReports = 8;  // per block; more of them say little
    if (faults_.size() >= kMaxReports) return;
    for (const Fault& f : faults_)
      if (f.kind == kind && f.inst == inst) return;
    Fault fault{kind, inst, lane, address, bytes, how != Access::kRead};
    fault.other = other;
    faults_.push_back(fault);
  }

 private:
  std::vector<Fault> faults_;
};

// The lanes that make an access.
struct AccessLanes {
  std::uint16_t masks[kMaxGroups];  // of the groups [first, last)
  std::uint32_t first = 0, last = 0;
};

}  // namespace driftc::runtime::ptx
