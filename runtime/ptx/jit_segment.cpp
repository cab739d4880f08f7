// What the translators of segments know, whatever the instruction set.
#include "runtime/ptx/jit_emit.h"

namespace driftc::runtime::ptx {
namespace {

bool plain_supported(const Code& code, const Inst& i) {
  switch (i.op) {
    case Op::kMov32:
    case Op::kMovPred:
    case Op::kAdd32:
    case Op::kSub32:
    case Op::kMul32:
    case Op::kMad32:
    case Op::kMulHiS32:
    case Op::kMulHiU32:
    case Op::kDivS32:
    case Op::kDivU32:
    case Op::kRemS32:
    case Op::kRemU32:
    case Op::kMinS32:
    case Op::kMinU32:
    case Op::kMaxS32:
    case Op::kMaxU32:
    case Op::kAbsS32:
    case Op::kNeg32:
    case Op::kAnd32:
    case Op::kOr32:
    case Op::kXor32:
    case Op::kNot32:
    case Op::kShl32:
    case Op::kShrS32:
    case Op::kShrU32:
    case Op::kSextB:
    case Op::kZextB:
    case Op::kSextH:
    case Op::kZextH:
    case Op::kLop332:
    case Op::kSelp32:
    case Op::kAddF32:
    case Op::kSubF32:
    case Op::kMulF32:
    case Op::kDivF32:
    case Op::kFmaF32:
    case Op::kSqrtF32:
    case Op::kRcpF32:
    case Op::kNegF32:
    case Op::kAbsF32:
    case Op::kMinF32:
    case Op::kMaxF32:
    case Op::kMinNanF32:
    case Op::kMaxNanF32:
    case Op::kSatF32:
    case Op::kCopysignF32:
    case Op::kRoundF32:
    case Op::kS32ToF32:
    case Op::kU32ToF32:
    case Op::kF32ToS32:
    case Op::kF32ToTf32:
    case Op::kF32ToF16:
    case Op::kF32ToBf16:
    case Op::kPack32:
    case Op::kTruncL:
    case Op::kSetpS32:
    case Op::kSetpU32:
    case Op::kSetpF32:
    case Op::kAndPred:
    case Op::kOrPred:
    case Op::kXorPred:
    case Op::kNotPred:
      return true;
    case Op::kMov64:
    case Op::kSextW:
    case Op::kZextW:
    case Op::kMulWideS32:
    case Op::kMulWideU32:
    case Op::kMadWideS32:
    case Op::kMadWideU32:
    case Op::kAdd64:
    case Op::kSub64:
      return i.guard == kNoReg;
    case Op::kShl64:
      return i.guard == kNoReg && code.regs[i.src[1]].is_constant;
    default:
      return false;  // not a closed set: anything else is interpreted
  }
}

bool is_host(Space s) { return s == Space::kGlobal || s == Space::kConst || s == Space::kNone; }

}  // namespace

bool segment_supports(const Code& code, const Inst& i) {
  if (is_plain(i.op)) return plain_supported(code, i);
  if (i.op != Op::kLoad && i.op != Op::kStore) return false;
  const Memory& m = i.memory;
  return m.bytes == 4 && (m.count == 1 || m.count == 2 || m.count == 4) &&
         (is_host(m.space) || m.space == Space::kShared);
}

}  // namespace driftc::runtime::ptx
