#include "runtime/ptx/program.h"

#include "runtime/ptx/region.h"

namespace driftc::runtime::ptx {

ProgramCode::ProgramCode() = default;
ProgramCode::~ProgramCode() = default;

const OpFacts& facts_of(Op op) {
  static constexpr OpFacts kFacts[] = {
#define N RegKind::kNone
#define W RegKind::kW
#define L RegKind::kL
#define P RegKind::kP
#define X(name, d, a, b, c) {#name, d, a, b, c},
#include "runtime/ptx/ops.def"
#undef X
#undef N
#undef W
#undef L
#undef P
  };
  static constexpr OpFacts kOther = {"other", RegKind::kNone, RegKind::kNone, RegKind::kNone,
                                     RegKind::kNone};
  return is_plain(op) ? kFacts[static_cast<std::size_t>(op)] : kOther;
}

}  // namespace driftc::runtime::ptx
