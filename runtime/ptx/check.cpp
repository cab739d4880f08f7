#include "runtime/ptx/check.h"

#include <algorithm>
#include <bit>

namespace driftc::runtime::ptx {
namespace {

constexpr std::uint32_t kAllLanes = 0xFFFF;

}  // namespace

Checker::Checker(const ProgramCode& program, const Frame& frame)
    : program_(program),
      frame_(frame),
      groups_(frame.groups),
      track_registers_(!program.registers_written),
      faults_(frame),
      shared_(program, frame, faults_),
      async_(program, frame, shared_, faults_),
      global_(program, frame, shared_, faults_) {
  full_.assign(groups_, 0);
  for (std::uint32_t i = 0; i < frame.lanes; ++i)
    full_[i / kGroupLanes] |= static_cast<std::uint16_t>(1u << (i % kGroupLanes));
  if (!track_registers_) return;
  const std::vector<RegInfo>& regs = program.code.regs;
  defined_.resize(regs.size() * groups_);
  all_defined_.resize(regs.size());
  for (Reg r = 0; r < regs.size(); ++r)
    if (regs[r].is_constant || regs[r].is_special) presets_.push_back(r);
}

void Checker::begin_block(std::uint64_t block_number) {
  faults_.clear();
  shared_.begin_block();
  async_.begin_block();
  global_.begin_block(block_number);
  if (!track_registers_) return;
  std::fill(defined_.begin(), defined_.end(), std::uint16_t{0});
  std::fill(all_defined_.begin(), all_defined_.end(), std::uint8_t{0});
  for (Reg r : presets_) {
    std::fill_n(defined(r), groups_, std::uint16_t{0xFFFF});
    all_defined_[r] = 1;
  }
}

// ---- registers ----------------------------------------------------------------------------------

std::uint32_t Checker::lanes_of(const BoundInst& in, std::uint32_t g) const {
  std::uint32_t m = frame_.active[g];
  if (in.guarded) {
    const std::uint32_t guard =
        reinterpret_cast<const std::uint16_t*>(frame_.regs + in.guard.offset)[in.guard.mask & g];
    m &= in.guard_negated ? ~guard : guard;
  }
  return m;
}

std::uint32_t Checker::defined_in(Reg r, std::uint32_t g) const {
  return all_defined_[r] ? kAllLanes : defined_[std::size_t{r} * groups_ + g];
}

// Lanes in which the result of a plain operation is defined: where its operands are, and where an
// operand that is not does not matter.
std::uint32_t Checker::defined_result(const BoundInst& in, std::uint32_t g) const {
  const Inst& i = *in.inst;
  auto bits = [&](std::uint8_t s) -> std::uint32_t {
    return reinterpret_cast<const std::uint16_t*>(frame_.regs +
                                                  in.src[s].offset)[in.src[s].mask & g];
  };
  if (i.op == Op::kSelp32 || i.op == Op::kSelp64) {
    const std::uint32_t chosen = bits(2), a = defined_in(i.src[0], g), b = defined_in(i.src[1], g);
    return defined_in(i.src[2], g) & ((chosen & a) | (~chosen & b));
  }
  if (i.op == Op::kAndPred || i.op == Op::kOrPred) {
    const std::uint32_t a = defined_in(i.src[0], g), b = defined_in(i.src[1], g);
    const std::uint32_t flip = i.op == Op::kAndPred ? 0 : kAllLanes;  // what decides alone
    return (a & b) | (a & ~(bits(0) ^ flip)) | (b & ~(bits(1) ^ flip));
  }
  std::uint32_t d = kAllLanes;
  for (std::uint8_t s = 0; s < i.sources; ++s) d &= defined_in(i.src[s], g);
  return d;
}

void Checker::define(const BoundInst& in, std::uint32_t g, std::uint32_t lanes,
                     std::uint32_t value) {
  for (std::uint8_t d = 0; d < in.destinations; ++d) {
    std::uint16_t& row = defined(in.inst->dst[d])[g];
    row = static_cast<std::uint16_t>((row & ~lanes) | (value & lanes));
  }
}

void Checker::propagate(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
  const Inst& i = *in.inst;
  if (i.destinations == 0) return;
  // Loads and the exchanges between lanes give defined values; what they read is checked apart.
  bool all = true;
  if (in.plain)
    for (std::uint8_t s = 0; s < i.sources; ++s) all = all && all_defined_[i.src[s]];
  if (all && i.guard != kNoReg) all = all_defined_[i.guard];
  if (all) {
    for (std::uint8_t d = 0; d < i.destinations; ++d) all = all && all_defined_[i.dst[d]];
    if (all) return;
  }
  if (in.uniform) {
    std::uint32_t d = in.plain ? defined_result(in, 0) & 1 : 1;
    if (in.guarded) {
      const bool on = *reinterpret_cast<const std::uint16_t*>(frame_.regs + in.guard.offset) & 1;
      if (on == in.guard_negated) return;
      d &= defined_in(i.guard, 0) & 1;
    }
    for (std::uint8_t k = 0; k < i.destinations; ++k) {
      std::fill_n(defined(i.dst[k]), groups_, static_cast<std::uint16_t>(d ? kAllLanes : 0));
      all_defined_[i.dst[k]] = d != 0;
    }
    return;
  }
  for (std::uint8_t k = 0; k < i.destinations; ++k) {
    if (!all_defined_[i.dst[k]]) continue;
    std::fill_n(defined(i.dst[k]), groups_, std::uint16_t{0xFFFF});
  }
  // Results are looked up before any flag changes: a destination may be a source.
  std::uint32_t value[kMaxGroups], lanes[kMaxGroups];
  for (std::uint32_t g = first; g < last; ++g) {
    value[g] = in.plain ? defined_result(in, g) : kAllLanes;
    lanes[g] = lanes_of(in, g);
    if (in.guarded) {
      const std::uint32_t known = defined_in(i.guard, g);
      lanes[g] |= frame_.active[g] & ~known;  // whether it ran is not known
      value[g] &= known;
    }
  }
  for (std::uint32_t g = first; g < last; ++g) define(in, g, lanes[g], value[g]);
  for (std::uint8_t k = 0; k < i.destinations; ++k) {
    const std::uint16_t* row = defined(i.dst[k]);
    bool full = true;
    for (std::uint32_t g = 0; g < groups_; ++g) full = full && (full_[g] & ~row[g]) == 0;
    all_defined_[i.dst[k]] = full;
  }
}

void Checker::require(Reg r, const BoundInst& in, std::uint32_t g, std::uint32_t lanes,
                      Access how) {
  if (!track_registers_ || all_defined_[r]) return;
  if (const std::uint32_t bad = lanes & ~defined_in(r, g))
    faults_.report(FaultKind::kUndefinedRegister, in,
                   g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(bad)), 0, 0, how);
}

bool Checker::branch(Reg condition, const Inst& at, std::uint32_t first, std::uint32_t last) {
  if (condition == kNoReg || !track_registers_ || all_defined_[condition]) return true;
  for (std::uint32_t g = first; g < last; ++g)
    if (const std::uint32_t bad = frame_.active[g] & ~defined_in(condition, g)) {
      faults_.report(FaultKind::kUndefinedRegister, at,
                     g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(bad)));
      return false;
    }
  return true;
}

// ---- memory

bool Checker::sources_defined(const Inst& i) const {
  if (!track_registers_) return true;
  bool all = i.guard == kNoReg || all_defined_[i.guard];
  for (std::uint8_t s = 0; s < i.sources; ++s) all = all && all_defined_[i.src[s]];
  return all;
}

void Checker::shadow(const BoundInst& in, const AccessLanes& lanes, std::uint32_t bytes,
                     Access how) {
  const Space space = in.memory.space;
  if (space == Space::kShared) {
    if (in.memory.async)
      async_.copy(in, lanes, bytes);
    else if (async_.busy())
      async_.access(in, lanes, bytes, how);
    shared_.access(in, lanes, bytes, how);
  } else if (space == Space::kNone || space == Space::kGlobal)
    global_.access(in, lanes, bytes, how);
}

void Checker::access(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
  const Inst& i = *in.inst;
  const bool matrix = i.op == Op::kLoadMatrix;
  const Access how = i.op == Op::kLoad || matrix ? Access::kRead
                     : i.op == Op::kStore        ? Access::kWrite
                                                 : Access::kAtomic;
  const std::uint32_t bytes =
      std::uint32_t{i.memory.bytes} * (how == Access::kAtomic || matrix ? 1 : i.memory.count);
  AccessLanes lanes;
  lanes.first = last;
  const std::uint16_t* const guard =
      in.guarded && !in.uniform
          ? reinterpret_cast<const std::uint16_t*>(frame_.regs + in.guard.offset)
          : nullptr;
  const std::uint32_t flip = in.guard_negated ? kAllLanes : 0;
  for (std::uint32_t g = first; g < last; ++g) {
    std::uint32_t mask = frame_.active[g];
    if (guard) mask &= guard[in.guard.mask & g] ^ flip;
    // The first eight threads per matrix of a warp give its rows' addresses.
    if (matrix && 8u * i.memory.count < 32)
      mask &= 8u * i.memory.count < 16 ? (g % 2 == 0 ? 0xFFu : 0u) : (g % 2 == 0 ? 0xFFFFu : 0u);
    lanes.masks[g] = static_cast<std::uint16_t>(mask);
    if (mask == 0) continue;
    lanes.first = std::min(lanes.first, g);
    lanes.last = g + 1;
  }
  if (sources_defined(i)) {
    if (lanes.first < lanes.last) shadow(in, lanes, bytes, how);
    return;
  }
  // Reports come in the order of threads.
  for (std::uint32_t g = first; g < last; ++g) {
    if (i.guard != kNoReg) require(i.guard, in, g, frame_.active[g], how);
    if (lanes.masks[g] == 0) continue;
    for (std::uint8_t s = 0; s < i.sources; ++s) require(i.src[s], in, g, lanes.masks[g], how);
    AccessLanes group;
    group.masks[g] = lanes.masks[g];
    group.first = g;
    group.last = g + 1;
    shadow(in, group, bytes, how);
  }
}

void Checker::async(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
  AccessLanes lanes;
  lanes.first = first;
  lanes.last = last;
  for (std::uint32_t g = first; g < last; ++g)
    lanes.masks[g] = static_cast<std::uint16_t>(lanes_of(in, g));
  if (in.inst->op == Op::kAsyncCommit)
    async_.commit(lanes);
  else
    async_.wait(lanes, in.inst->imm);
}

bool Checker::region(const BoundInst& in) {
  if (async_.busy()) return false;
  const Region& region = program_.code.regions[static_cast<std::size_t>(in.inst->imm)];
  if (track_registers_)
    for (Reg r : region.inputs)
      if (!all_defined_[r]) return false;
  if (!shared_.region(*in.region)) return false;
  if (track_registers_)
    for (Reg r : region.outputs) all_defined_[r] = 1;
  return true;
}

void Checker::look(const BoundInst& in, std::uint32_t first, std::uint32_t last) {
  const Op op = in.inst->op;
  if (op == Op::kAsyncCommit || op == Op::kAsyncWait) return async(in, first, last);
  // What an mma reads, others of the warp get: an undefined operand spoils a whole row or column.
  if (op == Op::kMma)
    for (std::uint32_t g = first; g < last; ++g)
      for (std::uint8_t s = 0; s < in.sources; ++s)
        require(in.inst->src[s], in, g, frame_.active[g], Access::kRead);
  if (op == Op::kLoad || op == Op::kLoadMatrix || op == Op::kStore || op == Op::kAtomic) {
    if (in.uniform && in.guarded) {
      const bool on = *reinterpret_cast<const std::uint16_t*>(frame_.regs + in.guard.offset) & 1;
      if (on == in.guard_negated) return;
    }
    access(in, first, last);
  }
  if (track_registers_) propagate(in, first, last);
}

}  // namespace driftc::runtime::ptx
