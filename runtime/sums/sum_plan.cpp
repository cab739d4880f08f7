#include "runtime/sums/sum_plan.h"

#include "ir/support/assert.h"

namespace driftc::runtime {
namespace {

class Planner {
 public:
  Planner(const ir::SumProgram& program, bool flush_root)
      : program_(program),
        flush_root_(flush_root),
        last_use_(program.chains.size(), -1),
        slot_(program.chains.size(), -1) {
    for (std::size_t i = 0; i < program.additions.size(); ++i) {
      last_use_[at(program.additions[i].to)] = static_cast<std::int64_t>(i);
      last_use_[at(program.additions[i].from)] = static_cast<std::int64_t>(i);
    }
  }

  SumPlan run() {
    for (std::size_t chain = 0; chain < program_.chains.size(); ++chain) {
      start(chain);
      while (next_ < program_.additions.size() && ready(program_.additions[next_])) add();
    }
    DRIFTC_ASSERT(next_ == program_.additions.size(), "addition of an unknown slot");
    plan_.result = slot_[0];
    return std::move(plan_);
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  bool ready(const ir::SumProgram::Addition& a) const {
    return slot_[at(a.to)] >= 0 && slot_[at(a.from)] >= 0;
  }
  bool flushes(const ir::SumProgram::Addition& a) const { return flush_root_ && a.to == 0; }
  std::int32_t take_slot() {
    if (free_.empty()) {
      plan_.slots = ++used_;
      return used_ - 1;
    }
    const std::int32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  // Emits the chain; straight into the addition that follows it where nothing else needs its value.
  void start(std::size_t chain) {
    const auto& c = program_.chains[chain];
    SumStep step;
    step.begin = static_cast<std::int32_t>(plan_.leaves.size());
    plan_.leaves.insert(plan_.leaves.end(), c.leaves.begin(), c.leaves.end());
    step.end = static_cast<std::int32_t>(plan_.leaves.size());
    step.starts_with_bias = c.starts_with_bias;
    if (chain != 0 && next_ < program_.additions.size()) {
      const auto& a = program_.additions[next_];
      if (at(a.from) == chain && last_use_[chain] == static_cast<std::int64_t>(next_) &&
          slot_[at(a.to)] >= 0 && !flushes(a)) {
        step.kind = SumStep::Kind::kChainAdd;
        step.slot = slot_[at(a.to)];
        plan_.steps.push_back(step);
        ++next_;
        return;
      }
    }
    step.slot = slot_[chain] = take_slot();
    plan_.steps.push_back(step);
  }
  void add() {
    const auto& a = program_.additions[next_];
    plan_.steps.push_back(
        {SumStep::Kind::kAdd, false, flushes(a), slot_[at(a.to)], slot_[at(a.from)], 0, 0});
    if (last_use_[at(a.from)] == static_cast<std::int64_t>(next_) && a.from != 0)
      free_.push_back(slot_[at(a.from)]);
    ++next_;
  }

  const ir::SumProgram& program_;
  bool flush_root_;
  std::vector<std::int64_t> last_use_;  // index of the last addition that names the chain's slot
  std::vector<std::int32_t> slot_;      // where the chain's value waits, -1: not computed
  std::vector<std::int32_t> free_;
  std::int32_t used_ = 0;
  std::size_t next_ = 0;
  SumPlan plan_;
};

}  // namespace

SumPlan make_plan(const ir::SumProgram& program, bool flush_root) {
  return Planner(program, flush_root).run();
}

SumPlan make_plan(const ir::ReductionOrder& order, const ir::ReductionExtent& extent,
                  std::span<const bool> padded, std::uint64_t atomic_seed, bool wide) {
  const bool atomic = order.split > 1 && order.combine == ir::SplitCombine::kAtomic;
  return make_plan(ir::denote(order, extent, padded, atomic_seed), atomic && !wide);
}

SumArith sum_arith(ir::Arith arith, bool has_products) {
  switch (arith) {
    case ir::Arith::kFma:
    case ir::Arith::kF64:
    case ir::Arith::kMma:
      return has_products ? SumArith::kFma : SumArith::kAdd;
    case ir::Arith::kMulAdd:
      return has_products ? SumArith::kMulAdd : SumArith::kAdd;
    case ir::Arith::kAdd:
      return SumArith::kAdd;
    case ir::Arith::kKahan:
      return has_products ? SumArith::kKahan : SumArith::kKahanAdd;
  }
  DRIFTC_ASSERT(false, "arithmetic of a sum");
}

}  // namespace driftc::runtime
