// What checked mode has found in a block. Private to runtime/ptx.
#pragma once

#include <algorithm>
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
  explicit FaultList(const Frame& frame) : frame_(frame) {}

  void clear() { faults_.clear(); }
  std::span<const Fault> all() const { return faults_; }

  // `in` is about to run.
  void report(FaultKind kind, const BoundInst& in, std::uint32_t lane, std::uint64_t address,
              std::uint32_t bytes, Access how, std::int64_t other = -1) {
    Fault fault{kind, in.inst, lane, address, bytes, how != Access::kRead};
    fault.other = other;
    if (is_new(fault)) {
      note_value(in, frame_, fault);
      faults_.push_back(fault);
    }
  }
  // A branch.
  void report(FaultKind kind, const Inst& at, std::uint32_t lane) {
    const Fault fault{kind, &at, lane, 0, 0, false};
    if (is_new(fault)) faults_.push_back(fault);
  }

 private:
  bool is_new(const Fault& fault) const {
    constexpr std::size_t kMaxReports = 8;  // per block; more of them say little
    return faults_.size() < kMaxReports &&
           std::none_of(faults_.begin(), faults_.end(), [&](const Fault& f) {
             return f.kind == fault.kind && f.inst == fault.inst;
           });
  }

  const Frame& frame_;
  std::vector<Fault> faults_;
};

// The lanes that make an access.
struct AccessLanes {
  std::uint16_t masks[kMaxGroups];  // of the groups [first, last)
  std::uint32_t first = 0, last = 0;
};

}  // namespace driftc::runtime::ptx
