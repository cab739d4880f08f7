// Arithmetic, logic, comparisons and moves.
#include "runtime/ptx/select.h"

namespace driftc::runtime::ptx {

bool Selector::mov() {
  if (!one_type() || !operands(2)) return false;
  Type t = types_[0];
  if (t == Type::kB128) return refuse();
  if (op(0).kind == Operand::Kind::kVector) {
    const auto& e = op(0).elements;
    Reg a = source(op(1), kind_of(t), t == Type::kF64 || t == Type::kB64);
    if (a == kNoReg) return false;
    if (e.size() != 2) return refuse();
    if (bytes_of(t) == 8) {
      Reg lo = destination(e[0], RegKind::kW), hi = destination(e[1], RegKind::kW);
      // A destination may be a half of nothing that is read again: both reads come from `a`, a
      // 64-bit register.
      return plain(Op::kTruncL, lo, {a}) && plain(Op::kHighL, hi, {a});
    }
    if (bytes_of(t) == 4) {
      Reg copy = temp(Op::kMov32, {a});  // a destination may be the source
      Reg lo = destination(e[0], RegKind::kW), hi = destination(e[1], RegKind::kW);
      return plain(Op::kZextH, lo, {copy}) &&
             plain(Op::kShrU32, hi, {copy, constant(RegKind::kW, 16)});
    }
    return refuse();
  }
  if (op(1).kind == Operand::Kind::kVector) {
    const auto& e = op(1).elements;
    if (e.size() != 2) return refuse();
    Reg lo = source(e[0], RegKind::kW), hi = source(e[1], RegKind::kW);
    if (bytes_of(t) == 8) return plain(Op::kPack64, destination(op(0), RegKind::kL), {lo, hi});
    if (bytes_of(t) == 4) return plain(Op::kPack32, destination(op(0), RegKind::kW), {lo, hi});
    return refuse();
  }
  RegKind k = kind_of(t);
  Op o = k == RegKind::kP ? Op::kMovPred : k == RegKind::kL ? Op::kMov64 : Op::kMov32;
  // mov.b32 between a 64-bit register and a symbol, or mov.u64 of a 32-bit special register, do
  // not occur.
  return plain(o, destination(op(0), k), {source(op(1), k, true)});
}

bool Selector::arithmetic() {
  if (!one_type() || !operands(3)) return false;
  Type t = types_[0];
  const std::string& o = at_->opcode;
  if (is_half(t)) return refuse();
  RegKind k = kind_of(t);
  if (is_float(t)) {
    const bool single = t == Type::kF32;
    if (o == "rem") return refuse();
    if (o == "min" || o == "max") {
      bool nan = take("NaN");
      if (nan && !single) return refuse();
      Op code = o == "min" ? (single ? (nan ? Op::kMinNanF32 : Op::kMinF32) : Op::kMinF64)
                           : (single ? (nan ? Op::kMaxNanF32 : Op::kMaxF32) : Op::kMaxF64);
      return plain(code, destination(op(0), k), {source(op(1), k, true), source(op(2), k, true)});
    }
    const bool suffixed = take("rn");
    if (o == "div" && !suffixed) return refuse();  // div.approx, div.full
    Op code = o == "add"   ? (single ? Op::kAddF32 : Op::kAddF64)
              : o == "sub" ? (single ? Op::kSubF32 : Op::kSubF64)
                           : (single ? Op::kDivF32 : Op::kDivF64);
    Reg a = source(op(1), k, true), b = source(op(2), k, true), d = destination(op(0), k);
    if (!suffixed) sums_.push_back({at_, a, b});
    return plain(code, d, {a, b});
  }
  Op code;
  bool widen = bytes_of(t) < 4;
  if (o == "add")
    code = pick(t, Op::kAdd32, Op::kAdd32, Op::kAdd64, Op::kAdd64);
  else if (o == "sub")
    code = pick(t, Op::kSub32, Op::kSub32, Op::kSub64, Op::kSub64);
  else if (o == "div")
    code = pick(t, Op::kDivS32, Op::kDivU32, Op::kDivS64, Op::kDivU64);
  else if (o == "rem")
    code = pick(t, Op::kRemS32, Op::kRemU32, Op::kRemS64, Op::kRemU64);
  else if (o == "min")
    code = pick(t, Op::kMinS32, Op::kMinU32, Op::kMinS64, Op::kMinU64);
  else
    code = pick(t, Op::kMaxS32, Op::kMaxU32, Op::kMaxS64, Op::kMaxU64);
  Reg a = source(op(1), k), b = source(op(2), k);
  if (widen && o != "add" && o != "sub") a = widened(a, t), b = widened(b, t);
  return plain(code, destination(op(0), k), {a, b});
}

bool Selector::multiply() {
  if (!one_type() || !operands(3)) return false;
  Type t = types_[0];
  if (is_half(t)) return refuse();
  RegKind k = kind_of(t);
  if (is_float(t)) {
    const bool suffixed = take("rn");
    Reg d = destination(op(0), k);
    if (!suffixed) products_.insert(d);
    return plain(t == Type::kF32 ? Op::kMulF32 : Op::kMulF64, d,
                 {source(op(1), k, true), source(op(2), k, true)});
  }
  Reg a = source(op(1), k), b = source(op(2), k);
  if (take("wide")) {
    if (bytes_of(t) == 2)
      return plain(Op::kMul32, destination(op(0), RegKind::kW), {widened(a, t), widened(b, t)});
    if (bytes_of(t) != 4) return refuse();
    return plain(is_signed(t) ? Op::kMulWideS32 : Op::kMulWideU32, destination(op(0), RegKind::kL),
                 {a, b});
  }
  if (take("hi")) {
    if (bytes_of(t) < 4) return refuse();
    return plain(pick(t, Op::kMulHiS32, Op::kMulHiU32, Op::kMulHiS64, Op::kMulHiU64),
                 destination(op(0), k), {a, b});
  }
  if (!take("lo")) return refuse();
  return plain(bytes_of(t) == 8 ? Op::kMul64 : Op::kMul32, destination(op(0), k), {a, b});
}

bool Selector::multiply_add() {
  if (!one_type() || !operands(4)) return false;
  Type t = types_[0];
  if (is_half(t)) return refuse();
  if (is_float(t)) return fma();
  RegKind k = kind_of(t);
  Reg a = source(op(1), k), b = source(op(2), k);
  if (take("wide")) {
    if (bytes_of(t) == 2) {
      Reg product = temp(Op::kMul32, {widened(a, t), widened(b, t)});
      return plain(Op::kAdd32, destination(op(0), RegKind::kW),
                   {product, source(op(3), RegKind::kW)});
    }
    if (bytes_of(t) != 4) return refuse();
    return plain(is_signed(t) ? Op::kMadWideS32 : Op::kMadWideU32, destination(op(0), RegKind::kL),
                 {a, b, source(op(3), RegKind::kL)});
  }
  if (take("hi")) {
    if (bytes_of(t) < 4) return refuse();
    Reg high = temp(pick(t, Op::kMulHiS32, Op::kMulHiU32, Op::kMulHiS64, Op::kMulHiU64), {a, b});
    return plain(bytes_of(t) == 8 ? Op::kAdd64 : Op::kAdd32, destination(op(0), k),
                 {high, source(op(3), k)});
  }
  if (!take("lo")) return refuse();
  return plain(bytes_of(t) == 8 ? Op::kMad64 : Op::kMad32, destination(op(0), k),
               {a, b, source(op(3), k)});
}

bool Selector::fma() {
  if (!one_type() || !operands(4)) return false;
  Type t = types_[0];
  if (!is_float(t) || !take("rn")) return refuse();
  RegKind k = kind_of(t);
  return plain(t == Type::kF32 ? Op::kFmaF32 : Op::kFmaF64, destination(op(0), k),
               {source(op(1), k, true), source(op(2), k, true), source(op(3), k, true)});
}

bool Selector::unary() {
  if (!one_type() || !operands(2)) return false;
  Type t = types_[0];
  const std::string& o = at_->opcode;
  if (is_half(t)) return refuse();
  RegKind k = kind_of(t);
  Reg a = source(op(1), k, true), d = destination(op(0), k);
  if (is_float(t)) {
    bool single = t == Type::kF32;
    if (o == "abs") return plain(single ? Op::kAbsF32 : Op::kAbsF64, d, {a});
    if (o == "neg") {
      if (products_.count(a))
        products_.insert(d);  // ptxas sees through a negation when it contracts
      return plain(single ? Op::kNegF32 : Op::kNegF64, d, {a});
    }
    if (!take("rn")) return refuse();  // sqrt.approx, rcp.approx
    if (o == "sqrt") return plain(single ? Op::kSqrtF32 : Op::kSqrtF64, d, {a});
    return plain(single ? Op::kRcpF32 : Op::kRcpF64, d, {a});
  }
  if (o == "abs") return plain(bytes_of(t) == 8 ? Op::kAbsS64 : Op::kAbsS32, d, {widened(a, t)});
  if (o == "neg") return plain(bytes_of(t) == 8 ? Op::kNeg64 : Op::kNeg32, d, {a});
  return refuse();
}

bool Selector::copysign() {
  if (!one_type() || !operands(3) || !is_float(types_[0])) return refuse();
  RegKind k = kind_of(types_[0]);
  return plain(k == RegKind::kW ? Op::kCopysignF32 : Op::kCopysignF64, destination(op(0), k),
               {source(op(1), k, true), source(op(2), k, true)});
}

bool Selector::logic() {
  if (!one_type()) return false;
  Type t = types_[0];
  RegKind k = kind_of(t);
  const std::string& o = at_->opcode;
  auto by_kind = [&](Op p, Op w, Op l) { return k == RegKind::kP ? p : k == RegKind::kL ? l : w; };
  if (o == "not") {
    if (!operands(2)) return false;
    return plain(by_kind(Op::kNotPred, Op::kNot32, Op::kNot64), destination(op(0), k),
                 {source(op(1), k, true)});
  }
  if (!operands(3)) return false;
  Op code = o == "and"  ? by_kind(Op::kAndPred, Op::kAnd32, Op::kAnd64)
            : o == "or" ? by_kind(Op::kOrPred, Op::kOr32, Op::kOr64)
                        : by_kind(Op::kXorPred, Op::kXor32, Op::kXor64);
  return plain(code, destination(op(0), k), {source(op(1), k, true), source(op(2), k, true)});
}

bool Selector::shift() {
  if (!one_type() || !operands(3)) return false;
  Type t = types_[0];
  RegKind k = kind_of(t);
  Reg a = source(op(1), k), amount = source(op(2), RegKind::kW), d = destination(op(0), k);
  if (at_->opcode == "shl")
    return plain(k == RegKind::kL ? Op::kShl64 : Op::kShl32, d, {a, amount});
  return plain(pick(t, Op::kShrS32, Op::kShrU32, Op::kShrS64, Op::kShrU64), d,
               {widened(a, t), amount});
}

bool Selector::funnel() {
  if (!one_type() || !operands(4) || types_[0] != Type::kB32) return refuse();
  bool left = take("l"), right = !left && take("r");
  bool clamp = take("clamp"), wrap = !clamp && take("wrap");
  if ((!left && !right) || (!clamp && !wrap)) return refuse();
  constexpr RegKind W = RegKind::kW;
  return plain(left ? Op::kShfL32 : Op::kShfR32, destination(op(0), W),
               {source(op(1), W), source(op(2), W), source(op(3), W)}, clamp ? 1 : 0);
}

bool Selector::bits() {
  if (!one_type() || !operands(2)) return false;
  RegKind k = kind_of(types_[0]);
  if (bytes_of(types_[0]) < 4) return refuse();
  bool wide = k == RegKind::kL;
  Reg a = source(op(1), k);
  const std::string& o = at_->opcode;
  if (o == "popc")
    return plain(wide ? Op::kPopc64 : Op::kPopc32, destination(op(0), RegKind::kW), {a});
  if (o == "clz")
    return plain(wide ? Op::kClz64 : Op::kClz32, destination(op(0), RegKind::kW), {a});
  return plain(wide ? Op::kBrev64 : Op::kBrev32, destination(op(0), k), {a});
}

bool Selector::bit_field() {
  if (!one_type()) return false;
  Type t = types_[0];
  RegKind k = kind_of(t);
  constexpr RegKind W = RegKind::kW;
  if (bytes_of(t) < 4) return refuse();
  if (at_->opcode == "bfe") {
    if (!operands(4)) return false;
    return plain(pick(t, Op::kBfeS32, Op::kBfeU32, Op::kBfeS64, Op::kBfeU64), destination(op(0), k),
                 {source(op(1), k), source(op(2), W), source(op(3), W)});
  }
  if (!operands(5)) return false;
  return plain(k == RegKind::kL ? Op::kBfi64 : Op::kBfi32, destination(op(0), k),
               {source(op(1), k), source(op(2), k), source(op(3), W), source(op(4), W)});
}

bool Selector::prmt() {
  constexpr RegKind W = RegKind::kW;
  if (!one_type() || !operands(4)) return false;  // modes f4e, b4e, ... stay in flags_ and refuse
  return plain(Op::kPrmt32, destination(op(0), W),
               {source(op(1), W), source(op(2), W), source(op(3), W)});
}

bool Selector::lop3() {
  constexpr RegKind W = RegKind::kW;
  if (!one_type() || !operands(5) || op(4).kind != Operand::Kind::kInteger) return refuse();
  return plain(Op::kLop332, destination(op(0), W),
               {source(op(1), W), source(op(2), W), source(op(3), W)}, op(4).integer & 255);
}

bool Selector::setp() {
  if (!one_type() || at_->operands.size() < 3 || at_->operands.size() > 4 || flags_.empty())
    return refuse();
  Type t = types_[0];
  if (is_half(t) || t == Type::kPred) return refuse();
  static const std::map<std::string_view, Comparison> kNames = {
      {"eq", Comparison::kEq},   {"ne", Comparison::kNe},   {"lt", Comparison::kLt},
      {"le", Comparison::kLe},   {"gt", Comparison::kGt},   {"ge", Comparison::kGe},
      {"lo", Comparison::kLt},   {"ls", Comparison::kLe},   {"hi", Comparison::kGt},
      {"hs", Comparison::kGe},   {"equ", Comparison::kEqu}, {"neu", Comparison::kNeu},
      {"ltu", Comparison::kLtu}, {"leu", Comparison::kLeu}, {"gtu", Comparison::kGtu},
      {"geu", Comparison::kGeu}, {"num", Comparison::kNum}, {"nan", Comparison::kNan}};
  auto comparison = kNames.find(flags_[0]);
  if (comparison == kNames.end()) return refuse();
  if (!is_float(t) && comparison->second > Comparison::kGe) return refuse();
  flags_.erase(flags_.begin());
  RegKind k = kind_of(t);
  Reg a = source(op(1), k, true), b = source(op(2), k, true);
  Op code = t == Type::kF32   ? Op::kSetpF32
            : t == Type::kF64 ? Op::kSetpF64
                              : pick(t, Op::kSetpS32, Op::kSetpU32, Op::kSetpS64, Op::kSetpU64);
  if (!is_float(t)) a = widened(a, t), b = widened(b, t);
  std::int64_t imm = static_cast<std::int64_t>(comparison->second);
  Op combine = take("and")   ? Op::kAndPred
               : take("or")  ? Op::kOrPred
               : take("xor") ? Op::kXorPred
                             : Op::kMovPred;
  Reg d = destination(op(0), RegKind::kP);
  if (combine == Op::kMovPred && op(0).second.empty() && at_->operands.size() == 3)
    return plain(code, d, {a, b}, imm);
  // p = cmp OP c, q = !cmp OP c; through temporaries, since a destination may be c itself.
  Reg raw = temp(code, {a, b}, imm);
  Reg c = at_->operands.size() == 4 ? source(op(3), RegKind::kP) : kNoReg;
  if (raw == kNoReg || (c == kNoReg) != (combine == Op::kMovPred)) return refuse();
  Reg first = combine == Op::kMovPred ? raw : temp(combine, {raw, c});
  if (!op(0).second.empty()) {
    Reg q = named(op(0).second);
    if (q == kNoReg || kind(q) != RegKind::kP)
      return fail("the second destination is no predicate");
    Reg inverse = temp(Op::kNotPred, {raw});
    Reg second = combine == Op::kMovPred ? inverse : temp(combine, {inverse, c});
    if (!plain(Op::kMovPred, q, {second})) return false;
  }
  return plain(Op::kMovPred, d, {first});
}

bool Selector::selp() {
  if (!one_type() || !operands(4)) return false;
  RegKind k = kind_of(types_[0]);
  if (k == RegKind::kP || k == RegKind::kNone) return refuse();
  return plain(k == RegKind::kL ? Op::kSelp64 : Op::kSelp32, destination(op(0), k),
               {source(op(1), k, true), source(op(2), k, true), source(op(3), RegKind::kP)});
}

}  // namespace driftc::runtime::ptx
