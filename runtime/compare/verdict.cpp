#include "runtime/compare/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace driftc::runtime::compare {
namespace {
constexpr std::array<std::string_view, 7> kVerdicts = {
    "identical", "order", "precision", "algorithm", "unexplained", "invalid", "not-compiled"};
constexpr std::array<std::string_view, 5> kEvidence = {"bits", "replayed", "bounded", "statistical",
                                                       "none"};
struct CauseRow {
  std::string_view name;
  Verdict rung;
};
// In the order of CauseKind; rungs as product.md, idea 2.
constexpr std::array kCauses = {CauseRow{"reduction-order", Verdict::kOrder},
                                CauseRow{"contraction", Verdict::kOrder},
                                CauseRow{"weight-folding", Verdict::kOrder},
                                CauseRow{"intermediate-rounding", Verdict::kOrder},
                                CauseRow{"accumulator", Verdict::kPrecision},
                                CauseRow{"input-rounding", Verdict::kPrecision},
                                CauseRow{"flush-to-zero", Verdict::kPrecision},
                                CauseRow{"algorithm", Verdict::kAlgorithm},
                                CauseRow{"specials", Verdict::kIdentical},
                                CauseRow{"upstream", Verdict::kIdentical}};
}  // namespace

std::string_view name_of(Verdict verdict) { return kVerdicts[static_cast<std::size_t>(verdict)]; }
std::optional<Verdict> parse_verdict(std::string_view name) {
  for (std::size_t i = 0; i < kVerdicts.size(); ++i)
    if (kVerdicts[i] == name) return static_cast<Verdict>(i);
  return std::nullopt;
}
Verdict worse(Verdict a, Verdict b) {
  if (a == Verdict::kNotCompiled) return b;
  if (b == Verdict::kNotCompiled) return a;
  return std::max(a, b);
}
std::string_view name_of(Evidence evidence) { return kEvidence[static_cast<std::size_t>(evidence)]; }
std::string_view name_of(CauseKind kind) { return kCauses[static_cast<std::size_t>(kind)].name; }
Verdict rung_of(CauseKind kind) { return kCauses[static_cast<std::size_t>(kind)].rung; }

std::vector<ContractField> differing_fields(const ir::NumericContract& eager,
                                            const ir::NumericContract& compiled) {
  std::vector<ContractField> fields;
  auto add = [&](CauseKind kind, std::string detail, ir::NumericContract reset) {
    fields.push_back({kind, std::move(detail), std::move(reset)});
  };
  if (eager.order && compiled.order && *eager.order != *compiled.order) {
    const ir::ReductionOrder &was = *eager.order, &is = *compiled.order;
    auto add_order = [&](CauseKind kind, auto change) {
      ir::NumericContract c = compiled;
      change(*c.order);
      add(kind, to_string(was) + " -> " + to_string(is), c);
    };
    ir::ReductionOrder association = is;
    association.arith = was.arith;
    association.mma = was.mma;
    association.bias = was.bias;
    if (association != was)
      add_order(CauseKind::kReductionOrder, [&](ir::ReductionOrder& o) {
        o = was;
        o.arith = is.arith;
        o.mma = is.mma;
        o.bias = is.bias;
      });
    if (was.bias != is.bias)
      add_order(CauseKind::kReductionOrder, [&](ir::ReductionOrder& o) { o.bias = was.bias; });
    if (was.arith != is.arith || was.mma != is.mma) {
      auto plain = [](ir::Arith a) { return a == ir::Arith::kFma || a == ir::Arith::kMulAdd; };
      add_order(plain(was.arith) && plain(is.arith) ? CauseKind::kContraction : CauseKind::kAccumulator,
                [&](ir::ReductionOrder& o) {
                  o.arith = was.arith;
                  o.mma = was.mma;
                });
    }
  }
  auto field = [&](CauseKind kind, auto member, auto text) {
    if (eager.*member == compiled.*member) return;
    ir::NumericContract c = compiled;
    c.*member = eager.*member;
    add(kind, fmt::format("{} -> {}", text(eager.*member), text(compiled.*member)), c);
  };
  auto precision = [](ir::Precision p) { return std::string(ir::name_of(p)); };
  auto on_off = [](bool on) { return std::string(on ? "on" : "off"); };
  field(CauseKind::kInputRounding, &ir::NumericContract::in, precision);
  field(CauseKind::kAccumulator, &ir::NumericContract::acc, precision);
  field(CauseKind::kIntermediateRounding, &ir::NumericContract::inner, precision);
  field(CauseKind::kContraction, &ir::NumericContract::contract, on_off);
  field(CauseKind::kFlushToZero, &ir::NumericContract::ftz, on_off);
  field(CauseKind::kWeightFolding, &ir::NumericContract::fold,
        [](ir::Fold f) { return std::string(ir::name_of(f)); });
  return fields;
}

}  // namespace driftc::runtime::compare
