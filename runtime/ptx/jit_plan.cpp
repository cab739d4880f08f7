#include "runtime/ptx/jit_plan.h"

#include <algorithm>
#include <utility>

#include "runtime/ptx/flow.h"
#include "runtime/ptx/region.h"

namespace driftc::runtime::ptx {
namespace {

constexpr std::size_t kMaxBody = 2000;

bool is_memory(const Inst& i) {
  return i.op == Op::kLoad || i.op == Op::kStore || i.op == Op::kAtomic;
}
bool writes_memory(const Inst& i) { return i.op == Op::kStore || i.op == Op::kAtomic; }

class Planner {
 public:
  Planner(const Code& code, bool (*supported)(const Code&, const Inst&))
      : code_(code), supported_(supported) {}

  ProgramPlan run() {
    for (std::uint32_t b = 0; b < code_.blocks.size(); ++b) plan_block(b);
    return std::move(plan_);
  }

 private:
  // Uniform registers share slots, so what one of them touches is told by its slot.
  struct Slot {
    RegKind kind;
    std::uint32_t slot;
    bool operator==(const Slot&) const = default;
  };
  Slot slot(Reg r) const { return {code_.regs[r].kind, code_.regs[r].slot}; }
  bool is_uniform(Reg r) const { return code_.regs[r].uniform; }
  static bool has(const std::vector<Slot>& list, Slot s) {
    return std::find(list.begin(), list.end(), s) != list.end();
  }

  void plan_block(std::uint32_t b) {
    block_ = b;
    steps_.clear();
    const std::vector<Inst>& code = code_.blocks[b].code;
    for (std::uint32_t k = 0; k < code.size(); ++k) {
      const Inst& i = code[k];
      if (i.uniform && i.op == Op::kLoadParam && code_.regs[i.dst[0]].is_parameter) {
        continue;  // done once per thread, before its first block
      } else if (i.uniform) {
        uniform(k, i);
      } else if (i.op == Op::kRegion) {
        close();
        plan_.units.push_back({.is_region = true, .block = b, .body = {k}, .outputs = {}});
        steps_.push_back({static_cast<std::int32_t>(plan_.units.size() - 1), k});
      } else if (!i.uniform && supported_(code_, i)) {
        varying(k, i);
      } else {
        close();
        steps_.push_back({-1, k});
      }
    }
    close();
    find_outputs(b);
    plan_.blocks.push_back(std::move(steps_));
  }

  void varying(std::uint32_t k, const Inst& i) {
    bool conflict = body_.size() >= kMaxBody;
    for_reads(i, [&](Reg r) { conflict |= is_uniform(r) && has(after_writes_, slot(r)); });
    if (writes_memory(i)) conflict |= after_loads_;
    if (conflict) close();
    for_reads(i, [&](Reg r) {
      if (is_uniform(r) && !has(body_reads_, slot(r))) body_reads_.push_back(slot(r));
    });
    stores_ |= writes_memory(i);
    body_.push_back(k);
  }

  void uniform(std::uint32_t k, const Inst& i) {
    bool later = is_memory(i) && stores_;
    for_reads(i, [&](Reg r) { later |= has(after_writes_, slot(r)); });
    for_writes(i, [&](Reg r) {
      later |=
          has(body_reads_, slot(r)) || has(after_reads_, slot(r)) || has(after_writes_, slot(r));
    });
    if (!later) {
      before_.push_back(k);
      return;
    }
    after_.push_back(k);
    after_loads_ |= is_memory(i);
    for_reads(i, [&](Reg r) { after_reads_.push_back(slot(r)); });
    for_writes(i, [&](Reg r) { after_writes_.push_back(slot(r)); });
  }

  void close() {
    uniform_steps(before_);
    if (!body_.empty()) unit(std::move(body_), false);
    uniform_steps(after_);
    body_.clear();
    before_.clear();
    after_.clear();
    body_reads_.clear();
    after_reads_.clear();
    after_writes_.clear();
    stores_ = after_loads_ = false;
  }

  void unit(std::vector<std::uint32_t> body, bool uniform) {
    plan_.units.push_back(
        {.uniform = uniform, .block = block_, .body = std::move(body), .outputs = {}});
    steps_.push_back({static_cast<std::int32_t>(plan_.units.size() - 1), 0});
  }
  // Runs of what the translator knows; a single instruction is not worth the call.
  void uniform_steps(const std::vector<std::uint32_t>& list) {
    const std::vector<Inst>& code = code_.blocks[block_].code;
    std::vector<std::uint32_t> run;
    auto end_run = [&] {
      if (run.size() > 1)
        unit(std::move(run), true);
      else if (run.size() == 1)
        steps_.push_back({-1, run[0]});
      run.clear();
    };
    for (std::uint32_t k : list) {
      if (supported_(code_, code[k])) {
        if (run.size() >= kMaxBody) end_run();
        run.push_back(k);
      } else {
        end_run();
        steps_.push_back({-1, k});
      }
    }
    end_run();
  }

  // Backwards over the steps: what is read behind a unit, in this block or in others.
  void find_outputs(std::uint32_t b) {
    const Block& block = code_.blocks[b];
    std::vector<char> live(code_.regs.size(), 0);
    for (Reg r : block.live_out) live[r] = 1;
    if (block.condition != kNoReg) live[block.condition] = 1;
    auto reads = [&](const Inst& i) {
      if (i.op != Op::kRegion) {
        for_reads(i, [&](Reg r) { live[r] = 1; });
        return;
      }
      const Region& region = code_.regions[static_cast<std::size_t>(i.imm)];
      for (Reg r : region.inputs) live[r] = 1;
      for (const Inst& f : region.fallback) for_reads(f, [&](Reg r) { live[r] = 1; });
    };
    for (std::size_t s = steps_.size(); s-- > 0;) {
      const PlanStep& step = steps_[s];
      if (step.unit < 0 || plan_.units[static_cast<std::size_t>(step.unit)].is_region) {
        reads(block.code[step.instruction]);
        continue;
      }
      UnitPlan& unit = plan_.units[static_cast<std::size_t>(step.unit)];
      for (std::uint32_t k : unit.body)
        for_writes(block.code[k], [&](Reg r) {
          if (live[r]) unit.outputs.push_back(r);
        });
      std::sort(unit.outputs.begin(), unit.outputs.end());
      unit.outputs.erase(std::unique(unit.outputs.begin(), unit.outputs.end()), unit.outputs.end());
      for (std::uint32_t k : unit.body) reads(block.code[k]);
    }
  }

  const Code& code_;
  bool (*supported_)(const Code&, const Inst&);
  ProgramPlan plan_;
  std::uint32_t block_ = 0;
  std::vector<PlanStep> steps_;
  std::vector<std::uint32_t> body_, before_, after_;
  std::vector<Slot> body_reads_, after_reads_, after_writes_;
  bool stores_ = false, after_loads_ = false;
};

}  // namespace

ProgramPlan plan_units(const Code& code, bool (*supported)(const Code&, const Inst&)) {
  return Planner(code, supported).run();
}

}  // namespace driftc::runtime::ptx
