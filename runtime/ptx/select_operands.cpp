// Operands of instructions as registers of the executor's form, and the emission of operations.
#include "runtime/ptx/select.h"

namespace driftc::runtime::ptx {

RegKind kind_of(Type t) {
  if (t == Type::kPred) return RegKind::kP;
  switch (bytes_of(t)) {
    case 1:
    case 2:
    case 4:
      return RegKind::kW;
    case 8:
      return RegKind::kL;
    default:
      return RegKind::kNone;
  }
}

Reg Selector::new_reg(RegKind kind) {
  code().regs.push_back({});
  code().regs.back().kind = kind;
  return static_cast<Reg>(code().regs.size() - 1);
}

Reg Selector::constant(RegKind kind, std::uint64_t bits) {
  if (kind == RegKind::kW) bits &= 0xFFFFFFFFu;
  if (kind == RegKind::kP) bits = bits ? 1 : 0;
  auto [at, fresh] = constants_.try_emplace({kind, bits}, 0);
  if (fresh) {
    at->second = new_reg(kind);
    RegInfo& info = code().regs[at->second];
    info.is_constant = true;
    info.bits = bits;
  }
  return at->second;
}

Reg Selector::special(Special which, RegKind kind) {
  auto [at, fresh] = specials_.try_emplace(which, 0);
  if (fresh) {
    at->second = new_reg(kind);
    RegInfo& info = code().regs[at->second];
    info.is_special = true;
    info.bits = static_cast<std::uint64_t>(which);
  }
  return at->second;
}

Reg Selector::special_by_name(const std::string& name) {
  static const std::map<std::string, Special> kNames = {{"%tid.x", Special::kTidX},
                                                        {"%tid.y", Special::kTidY},
                                                        {"%tid.z", Special::kTidZ},
                                                        {"%ntid.x", Special::kNtidX},
                                                        {"%ntid.y", Special::kNtidY},
                                                        {"%ntid.z", Special::kNtidZ},
                                                        {"%ctaid.x", Special::kCtaidX},
                                                        {"%ctaid.y", Special::kCtaidY},
                                                        {"%ctaid.z", Special::kCtaidZ},
                                                        {"%nctaid.x", Special::kNctaidX},
                                                        {"%nctaid.y", Special::kNctaidY},
                                                        {"%nctaid.z", Special::kNctaidZ},
                                                        {"%laneid", Special::kLaneId},
                                                        {"%warpid", Special::kWarpId},
                                                        {"%nwarpid", Special::kNwarpid},
                                                        {"%lanemask_eq", Special::kLanemaskEq},
                                                        {"%lanemask_lt", Special::kLanemaskLt},
                                                        {"%lanemask_le", Special::kLanemaskLe},
                                                        {"%lanemask_gt", Special::kLanemaskGt},
                                                        {"%lanemask_ge", Special::kLanemaskGe}};
  auto at = kNames.find(name);
  return at == kNames.end() ? kNoReg : special(at->second, RegKind::kW);
}

// The register called `name`, or kNoReg after fail().
Reg Selector::named(const std::string& name) {
  if (auto at = registers_.find(name); at != registers_.end()) return at->second;
  RegKind kind = RegKind::kNone;
  if (auto at = singles_.find(name); at != singles_.end()) {
    kind = at->second;
  } else {
    std::size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    // A prefix may end in digits itself, so every split is tried.
    for (; digits < name.size() && kind == RegKind::kNone; ++digits) {
      auto range = ranges_.find(name.substr(0, digits));
      if (range == ranges_.end() || name.size() - digits > 9) continue;
      unsigned long index = std::stoul(name.substr(digits));
      if (index < range->second.second) kind = range->second.first;
    }
  }
  if (kind == RegKind::kNone) {
    Reg s = special_by_name(name);
    if (s == kNoReg) fail(fmt::format("register '{}' is not declared or not supported", name));
    return s;
  }
  Reg r = new_reg(kind);
  registers_[name] = r;
  return r;
}

// Registers declared by inline assembly need not begin with '%'.
bool Selector::names_register(const Operand& o) const {
  return o.kind == Operand::Kind::kRegister ||
         (o.kind == Operand::Kind::kSymbol && singles_.count(o.name));
}

// A source operand as a register of `want`; narrower or wider registers are accepted as PTX does
// for b types.
Reg Selector::source(const Operand& o, RegKind want, bool is_f64) {
  switch (names_register(o) ? Operand::Kind::kRegister : o.kind) {
    case Operand::Kind::kRegister: {
      Reg r = named(o.name);
      if (r == kNoReg) return r;
      if (kind(r) == want) {
        if (!o.negated) return r;
        if (want != RegKind::kP) return fail(fmt::format("'!' before '{}'", o.name)), kNoReg;
        return temp(Op::kNotPred, {r});
      }
      if (kind(r) == RegKind::kL && want == RegKind::kW) return temp(Op::kTruncL, {r});
      fail(fmt::format("register '{}' has the wrong width for '{}'", o.name, text_of(*at_)));
      return kNoReg;
    }
    case Operand::Kind::kInteger:
      return constant(want, static_cast<std::uint64_t>(o.integer));
    case Operand::Kind::kFloat32:
      if (want != RegKind::kW) return fail("a 32-bit float literal in a 64-bit operand"), kNoReg;
      return constant(want, o.bits);
    case Operand::Kind::kFloat64:
      if (want != RegKind::kL || !is_f64)
        return fail("a 64-bit float literal in a 32-bit operand"), kNoReg;
      return constant(want, o.bits);
    case Operand::Kind::kSymbol: {
      auto at = symbols_.find(o.name);
      if (at == symbols_.end())
        return fail(fmt::format("symbol '{}' is not declared", o.name)), kNoReg;
      if (at->second.space == Space::kParam)
        return fail(fmt::format("the address of parameter '{}' is not supported", o.name)), kNoReg;
      return constant(want, at->second.address + static_cast<std::uint64_t>(o.integer));
    }
    case Operand::Kind::kSink:
    case Operand::Kind::kAddress:
    case Operand::Kind::kVector:
    case Operand::Kind::kLabel:
      break;
  }
  fail(fmt::format("'{}' has an operand of the wrong form", text_of(*at_)));
  return kNoReg;
}

Reg Selector::destination(const Operand& o, RegKind want) {
  if (o.kind == Operand::Kind::kSink) return new_reg(want);
  if (!names_register(o) || o.negated)
    return fail(fmt::format("'{}' does not write a register", text_of(*at_))), kNoReg;
  Reg r = named(o.name);
  if (r == kNoReg) return r;
  if (code().regs[r].is_special) return fail(fmt::format("'{}' is read-only", o.name)), kNoReg;
  if (kind(r) != want)
    return fail(fmt::format("register '{}' has the wrong width for '{}'", o.name, text_of(*at_))),
           kNoReg;
  return r;
}

Inst& Selector::emit(Op op, std::initializer_list<Reg> dst, std::initializer_list<Reg> src,
                     std::int64_t imm) {
  Inst i;
  i.op = op;
  for (Reg r : dst) i.dst[i.destinations++] = r;
  for (Reg r : src) i.src[i.sources++] = r;
  i.imm = imm;
  i.line = static_cast<std::uint32_t>(at_->line);
  i.source = at_->source;
  i.guard = guard_;
  i.guard_negated = guard_ != kNoReg && at_->guard_negated;
  block_->code.push_back(i);
  return block_->code.back();
}

// An intermediate value: computed whatever the guard says, since plain operations have no side
// effect.
Reg Selector::temp(Op op, std::initializer_list<Reg> src, std::int64_t imm) {
  for (Reg r : src)
    if (r == kNoReg) return kNoReg;
  Reg d = new_reg(facts_of(op).d);
  Inst& i = emit(op, {d}, src, imm);
  i.guard = kNoReg;
  i.guard_negated = false;
  return d;
}

bool Selector::plain(Op o, Reg d, std::initializer_list<Reg> src, std::int64_t imm) {
  if (d == kNoReg) return false;
  for (Reg r : src)
    if (r == kNoReg) return false;
  emit(o, {d}, src, imm);
  return true;
}

// 8- and 16-bit operands widened to 32 bits as their type says.
Reg Selector::widened(Reg r, Type t) {
  if (r == kNoReg || kind(r) != RegKind::kW) return r;
  if (bytes_of(t) == 2) return temp(is_signed(t) ? Op::kSextH : Op::kZextH, {r});
  if (bytes_of(t) == 1) return temp(is_signed(t) ? Op::kSextB : Op::kZextB, {r});
  return r;
}

// Base register of an address operand, with the constant part in `offset`.
Reg Selector::address(const Operand& o, Space space, std::int64_t& offset) {
  if (o.kind != Operand::Kind::kAddress)
    return fail(fmt::format("'{}' takes an address", text_of(*at_))), kNoReg;
  offset = o.integer;
  bool narrow = space == Space::kShared;
  if (o.name.empty()) return constant(narrow ? RegKind::kW : RegKind::kL, 0);
  if (o.name[0] != '%' && !singles_.count(o.name)) {
    auto at = symbols_.find(o.name);
    if (at == symbols_.end())
      return fail(fmt::format("symbol '{}' is not declared", o.name)), kNoReg;
    Space actual = at->second.space;
    if (actual != space)
      return fail(fmt::format("'{}' is not in the state space of '{}'", o.name, text_of(*at_))),
             kNoReg;
    return constant(narrow ? RegKind::kW : RegKind::kL, at->second.address);
  }
  Reg r = named(o.name);
  if (r == kNoReg) return r;
  if (narrow && kind(r) == RegKind::kL) return temp(Op::kTruncL, {r});
  if (!narrow && kind(r) == RegKind::kW && space == Space::kLocal) return temp(Op::kZextW, {r});
  if (kind(r) != (narrow ? RegKind::kW : RegKind::kL))
    return fail(fmt::format("address register '{}' has the wrong width", o.name)), kNoReg;
  return r;
}

std::vector<Operand> Selector::elements(const Operand& o) const {
  return o.kind == Operand::Kind::kVector ? o.elements : std::vector<Operand>{o};
}

}  // namespace driftc::runtime::ptx
