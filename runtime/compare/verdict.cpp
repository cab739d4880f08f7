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
std::string_view name_of(Evidence evidence) {
  return kEvidence[static_cast<std::size_t>(evidence)];
}
std::string_view name_of(CauseKind kind) { return kCauses[static_cast<std::size_t>(kind)].name; }
Verdict rung_of(CauseKind kind) { return kCauses[static_cast<std::size_t>(kind)].rung; }

ir::NumericContract with_part(ir::NumericContract target, const ir::NumericContract& donor,
                              ContractPart part) {
  ir::ReductionOrder* order = target.order && donor.order ? &*target.order : nullptr;
  switch (part) {
    case ContractPart::kAssociation:
      if (order != nullptr) {
        ir::ReductionOrder changed = *donor.order;
        changed.arith = order->arith;
        changed.mma = order->mma;
        changed.bias = order->bias;
        *order = changed;
      }
      break;
    case ContractPart::kBiasPoint:
      if (order != nullptr) order->bias = donor.order->bias;
      break;
    case ContractPart::kArithmetic:
      if (order != nullptr) {
        order->arith = donor.order->arith;
        order->mma = donor.order->mma;
      }
      break;
    case ContractPart::kIn:
      // A tensor core takes operands of its format only: other operands mean eager's arithmetic.
      if (target.in != donor.in && order != nullptr && order->arith == ir::Arith::kMma) {
        order->arith = donor.order->arith;
        order->mma = donor.order->mma;
      }
      target.in = donor.in;
      break;
    case ContractPart::kAcc:
      target.acc = donor.acc;
      break;
    case ContractPart::kInner:
      target.inner = donor.inner;
      break;
    case ContractPart::kStore:
      target.store = donor.store;
      break;
    case ContractPart::kContract:
      target.contract = donor.contract;
      break;
    case ContractPart::kFtz:
      target.ftz = donor.ftz;
      break;
    case ContractPart::kFold:
      target.fold = donor.fold;
      break;
    case ContractPart::kTransform:
      target.transform = donor.transform;
      break;
  }
  return target;
}

std::optional<PartDifference> difference(const ir::NumericContract& eager,
                                         const ir::NumericContract& compiled, ContractPart part) {
  if (with_part(compiled, eager, part) == compiled) return std::nullopt;
  auto orders = [&] { return to_string(*eager.order) + " -> " + to_string(*compiled.order); };
  auto named = [](const std::string& what, auto was, auto is) {
    return fmt::format("{} {} -> {}", what, was, is);
  };
  auto algorithm = [](const ir::Transform& t) {
    return t.m == 0 ? std::string("sum of products") : to_string(t);
  };
  auto on_off = [](bool on) { return on ? "on" : "off"; };
  switch (part) {
    case ContractPart::kAssociation:
      return PartDifference{CauseKind::kReductionOrder, orders()};
    case ContractPart::kBiasPoint: {
      auto stored = [](ir::BiasPoint b) {
        return b == ir::BiasPoint::kNone || b == ir::BiasPoint::kStored;
      };
      if (stored(eager.order->bias) && stored(compiled.order->bias)) return std::nullopt;
      return PartDifference{CauseKind::kReductionOrder, orders()};
    }
    case ContractPart::kArithmetic: {
      auto plain = [](ir::Arith a) { return a == ir::Arith::kFma || a == ir::Arith::kMulAdd; };
      const bool contraction = plain(eager.order->arith) && plain(compiled.order->arith);
      return PartDifference{contraction ? CauseKind::kContraction : CauseKind::kAccumulator,
                            orders()};
    }
    case ContractPart::kIn:
      return PartDifference{CauseKind::kInputRounding,
                            named("in", ir::name_of(eager.in), ir::name_of(compiled.in))};
    case ContractPart::kAcc:
      return PartDifference{CauseKind::kAccumulator,
                            named("acc", ir::name_of(eager.acc), ir::name_of(compiled.acc))};
    case ContractPart::kInner:
      return PartDifference{CauseKind::kIntermediateRounding,
                            named("inner", ir::name_of(eager.inner), ir::name_of(compiled.inner))};
    case ContractPart::kStore:
      return PartDifference{CauseKind::kIntermediateRounding,
                            named("store", ir::name_of(eager.store), ir::name_of(compiled.store))};
    case ContractPart::kContract:
      return PartDifference{CauseKind::kContraction,
                            named("contract", on_off(eager.contract), on_off(compiled.contract))};
    case ContractPart::kFtz:
      return PartDifference{CauseKind::kFlushToZero,
                            named("ftz", on_off(eager.ftz), on_off(compiled.ftz))};
    case ContractPart::kFold:
      return PartDifference{CauseKind::kWeightFolding,
                            named("fold", ir::name_of(eager.fold), ir::name_of(compiled.fold))};
    case ContractPart::kTransform:
      return PartDifference{CauseKind::kAlgorithm,
                            algorithm(eager.transform) + " -> " + algorithm(compiled.transform)};
  }
  return std::nullopt;
}

}  // namespace driftc::runtime::compare
