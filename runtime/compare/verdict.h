// What driftc says about a difference, and why (product.md, idea 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace driftc::runtime::compare {

// Ordered: a later rung is worse. kNotCompiled is no rung: the node ran in the interpreter in both
// arms.
enum class Verdict : std::uint8_t {
  kIdentical,
  kOrder,
  kPrecision,
  kAlgorithm,
  kUnexplained,
  kInvalid,
  kNotCompiled,
};
std::string_view name_of(Verdict verdict);
std::optional<Verdict> parse_verdict(std::string_view name);
Verdict worse(Verdict a, Verdict b);  // kNotCompiled loses against any rung

enum class Evidence : std::uint8_t { kBits, kReplayed, kBounded, kStatistical, kNone };
std::string_view name_of(Evidence evidence);

enum class CauseKind : std::uint8_t {
  kReductionOrder,
  kContraction,
  kWeightFolding,
  kIntermediateRounding,
  kAccumulator,
  kInputRounding,
  kFlushToZero,
  kAlgorithm,
  kSpecials,
  kUpstream,
};
std::string_view name_of(CauseKind kind);
// The rung that a cause alone puts a difference on; kUpstream and kSpecials raise nothing by
// themselves.
Verdict rung_of(CauseKind kind);

struct Cause {
  CauseKind kind;
  std::string node;    // the value whose computation it concerns
  std::string detail;  // "crs.fma -> rsc.split2.fma", "from %a, %b"
};

// The parts of a contract that a counterfactual sets back to eager's value, one at a time.
enum class ContractPart : std::uint8_t {
  kAssociation,  // walk, padding, split, lanes, accumulators, tiles of the order
  kBiasPoint,
  kArithmetic,
  kIn,
  kAcc,
  kInner,
  kStore,
  kContract,
  kFtz,
  kFold,
  kTransform,  // Winograd's transforms around the channel sums
};
inline constexpr ContractPart kContractParts[] = {
    ContractPart::kAssociation, ContractPart::kBiasPoint, ContractPart::kArithmetic,
    ContractPart::kIn,          ContractPart::kAcc,       ContractPart::kInner,
    ContractPart::kStore,       ContractPart::kContract,  ContractPart::kFtz,
    ContractPart::kFold,        ContractPart::kTransform};

// `target` with one part taken from `donor`.
ir::NumericContract with_part(ir::NumericContract target, const ir::NumericContract& donor,
                              ContractPart part);
// What a difference of the part is called, and "was -> is". Empty where the part is equal (an
// absent bias point equals `stored`: there is no bias, or it is added after rounding).
struct PartDifference {
  CauseKind kind;
  std::string detail;
};
std::optional<PartDifference> difference(const ir::NumericContract& eager,
                                         const ir::NumericContract& compiled, ContractPart part);

}  // namespace driftc::runtime::compare
