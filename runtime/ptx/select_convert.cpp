// Conversions between types and between state spaces.
#include "runtime/ptx/select.h"

namespace driftc::runtime::ptx {

bool Selector::cvt() {
  if (types_.size() != 2) return refuse();
  Type to = types_[0], from = types_[1];
  if (is_half(to) || is_half(from)) return cvt_half(to, from);
  if (!operands(2)) return refuse();
  RegKind kt = kind_of(to), kf = kind_of(from);
  Reg a = source(op(1), kf, true), d = destination(op(0), kt);
  if (a == kNoReg || d == kNoReg) return false;
  if (is_float(to) && is_float(from)) return cvt_float(to, from, d, a);
  if (is_float(to)) {
    bool exact = to == Type::kF64 && bytes_of(from) <= 4;
    if (!take("rn") && !exact) return refuse();
    a = widened(a, from);
    if (to == Type::kF32)
      return plain(pick(from, Op::kS32ToF32, Op::kU32ToF32, Op::kS64ToF32, Op::kU64ToF32), d, {a});
    return plain(pick(from, Op::kS32ToF64, Op::kU32ToF64, Op::kS64ToF64, Op::kU64ToF64), d, {a});
  }
  if (is_float(from)) {
    Rounding r = take("rni")   ? Rounding::kNearest
                 : take("rzi") ? Rounding::kZero
                 : take("rmi") ? Rounding::kDown
                               : Rounding::kUp;
    if (r == Rounding::kUp && !take("rpi")) return refuse();
    take("sat");  // float to integer always saturates
    Op code = from == Type::kF32
                  ? pick(to, Op::kF32ToS32, Op::kF32ToU32, Op::kF32ToS64, Op::kF32ToU64)
                  : pick(to, Op::kF64ToS32, Op::kF64ToU32, Op::kF64ToS64, Op::kF64ToU64);
    std::int64_t imm = static_cast<std::int64_t>(r);
    if (bytes_of(to) >= 4) return plain(code, d, {a}, imm);
    // Narrow results saturate at their own range; through 32 bits that is a clamp.
    int width = static_cast<int>(8 * bytes_of(to));
    Reg wide = temp(code, {a}, imm);
    if (!is_signed(to))
      return plain(Op::kMinU32, d, {wide, constant(RegKind::kW, (1u << width) - 1)});
    std::int64_t top = (std::int64_t{1} << (width - 1)) - 1;
    Reg low =
        temp(Op::kMaxS32, {wide, constant(RegKind::kW, static_cast<std::uint64_t>(-top - 1))});
    return plain(Op::kMinS32, d, {low, constant(RegKind::kW, static_cast<std::uint64_t>(top))});
  }
  // integer to integer
  if (kt == RegKind::kL) {
    if (kf == RegKind::kL) return plain(Op::kMov64, d, {a});
    return plain(is_signed(from) ? Op::kSextW : Op::kZextW, d, {widened(a, from)});
  }
  Reg w = kf == RegKind::kL ? temp(Op::kTruncL, {a}) : a;
  Type narrow = bytes_of(to) <= bytes_of(from) ? to : from;
  switch (bytes_of(narrow)) {
    case 1:
      return plain(is_signed(narrow) ? Op::kSextB : Op::kZextB, d, {w});
    case 2:
      return plain(is_signed(narrow) ? Op::kSextH : Op::kZextH, d, {w});
    default:
      return plain(Op::kMov32, d, {w});
  }
}

// Between f32 and the formats of tensor-core operands; the bits of all of these are defined.
bool Selector::cvt_half(Type to, Type from) {
  constexpr RegKind W = RegKind::kW;
  if (to == Type::kF16x2 || to == Type::kBF16x2) {  // the first source goes to the upper half
    if (!operands(3) || from != Type::kF32 || !take("rn")) return refuse();
    const Op narrow = to == Type::kF16x2 ? Op::kF32ToF16 : Op::kF32ToBf16;
    const Reg high = temp(narrow, {source(op(1), W)}), low = temp(narrow, {source(op(2), W)});
    return plain(Op::kPack32, destination(op(0), W), {low, high});
  }
  if (!operands(2)) return refuse();
  Op code;
  if (from == Type::kF32) {
    if (to == Type::kTF32 ? !take("rna") : !take("rn")) return refuse();
    code = to == Type::kTF32   ? Op::kF32ToTf32
           : to == Type::kF16  ? Op::kF32ToF16
           : to == Type::kBF16 ? Op::kF32ToBf16
                               : Op::kMov32;
    if (code == Op::kMov32) return refuse();
  } else if (to == Type::kF32 && (from == Type::kF16 || from == Type::kBF16)) {
    code = from == Type::kF16 ? Op::kF16ToF32 : Op::kBf16ToF32;
  } else {
    return refuse();
  }
  return plain(code, destination(op(0), W), {source(op(1), W)});
}

bool Selector::cvt_float(Type to, Type from, Reg d, Reg a) {
  if (to != from) {
    if (to == Type::kF64) return plain(Op::kF32ToF64, d, {a});
    if (!take("rn")) return refuse();
    return plain(Op::kF64ToF32, d, {a});
  }
  bool single = to == Type::kF32;
  if (take("sat")) return single ? plain(Op::kSatF32, d, {a}) : refuse();
  Rounding r;
  if (take("rni"))
    r = Rounding::kNearest;
  else if (take("rzi"))
    r = Rounding::kZero;
  else if (take("rmi"))
    r = Rounding::kDown;
  else if (take("rpi"))
    r = Rounding::kUp;
  else
    return refuse();
  return plain(single ? Op::kRoundF32 : Op::kRoundF64, d, {a}, static_cast<std::int64_t>(r));
}

// A generic address is the host address, in every space; shared and local addresses are offsets.
bool Selector::cvta() {
  if (!one_type() || !operands(2) || bytes_of(types_[0]) != 8) return refuse();
  bool to = take("to");
  Reg d = destination(op(0), RegKind::kL), a = source(op(1), RegKind::kL);
  if (take("global") || take("const")) return plain(Op::kMov64, d, {a});
  Op code = to ? Op::kSub64 : Op::kAdd64;
  if (take("shared") || take("shared::cta"))
    return plain(code, d, {a, special(Special::kSharedBase, RegKind::kL)});
  if (take("local")) return plain(code, d, {a, special(Special::kLocalBase, RegKind::kL)});
  return refuse();
}

}  // namespace driftc::runtime::ptx
