// What driftc says about a difference, and why (product.md, idea 2).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace driftc::runtime::compare {

// Ordered: a later rung is worse. kNotCompiled is no rung: the node ran in the interpreter in both arms.
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
// The rung that a cause alone puts a difference on; kUpstream and kSpecials raise nothing by themselves.
Verdict rung_of(CauseKind kind);

struct Cause {
  CauseKind kind;
  std::string node;    // the value whose computation it concerns
  std::string detail;  // "crs.fma -> rsc.split2.fma", "from %a, %b"
};

// A contract with one field set back to another contract's value: the counterfactual of one cause.
struct ContractField {
  CauseKind kind;
  std::string detail;  // "was -> is"
  ir::NumericContract reset;
};
// The fields in which `compiled` differs from `eager`, each with `compiled` reset in that field alone.
std::vector<ContractField> differing_fields(const ir::NumericContract& eager,
                                            const ir::NumericContract& compiled);

}  // namespace driftc::runtime::compare
