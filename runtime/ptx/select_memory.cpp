// Loads, stores and atomics.
#include <algorithm>

#include "runtime/ptx/select.h"

namespace driftc::runtime::ptx {

// Cache and ordering hints: the executor runs a block's threads in lockstep, so they change
// nothing.
void Selector::take_hints() {
  std::erase_if(flags_, [](const std::string& f) {
    static const std::set<std::string_view> kHints = {
        "volatile", "weak", "relaxed", "acquire", "release", "cta", "cluster", "gpu", "sys",
        "nc",       "ca",   "cg",      "cs",      "lu",      "cv",  "wb",      "wt"};
    return kHints.count(f) || f.starts_with("L1::") || f.starts_with("L2::");
  });
}

Space Selector::take_space() {
  if (take("global")) return Space::kGlobal;
  if (take("shared") || take("shared::cta")) return Space::kShared;
  if (take("local")) return Space::kLocal;
  if (take("const")) return Space::kConst;
  if (take("param") || take("param::entry")) return Space::kParam;
  return Space::kNone;
}

std::uint8_t Selector::vector_count() { return take("v2") ? 2 : take("v4") ? 4 : 1; }

bool Selector::load() {
  take_hints();
  if (!one_type() || !operands(2)) return false;
  Type t = types_[0];
  Space space = take_space();
  Memory m;
  m.count = vector_count();
  m.space = space;
  m.bytes = static_cast<std::uint8_t>(bytes_of(t));
  m.sign_extend = is_signed(t);
  if (m.bytes == 0 || m.bytes > 8) return refuse();
  std::vector<Operand> targets = elements(op(0));
  if (targets.size() != m.count) return fail("the vector has the wrong length");
  std::int64_t offset = 0;
  if (space == Space::kParam) {
    auto at = symbols_.find(op(1).name);
    if (op(1).kind != Operand::Kind::kAddress || at == symbols_.end() ||
        at->second.space != Space::kParam)
      return refuse("reads a parameter at a computed address, which is not supported");
    offset = static_cast<std::int64_t>(at->second.address) + op(1).integer;
    if (offset < 0 || static_cast<std::uint64_t>(offset) + std::uint64_t{m.bytes} * m.count >
                          program_->parameter_bytes)
      return fail("a parameter access outside the parameters");
    for (std::uint8_t i = 0; i < m.count; ++i) {
      Reg d = loaded(targets[i], m, Op::kLoadParam, {}, offset + i * m.bytes);
      if (d == kNoReg) return false;
    }
    return true;
  }
  Reg base = address(op(1), space, offset);
  if (base == kNoReg) return false;
  // All destinations in one instruction, so that the address is read before any of them is
  // written.
  std::array<Reg, 4> d{};
  std::array<Reg, 4> widen{kNoReg, kNoReg, kNoReg, kNoReg};
  RegKind k = m.bytes == 8 ? RegKind::kL : RegKind::kW;
  for (std::uint8_t i = 0; i < m.count; ++i) {
    if (names_register(targets[i])) {
      Reg r = named(targets[i].name);
      if (r == kNoReg) return false;
      if (kind(r) == RegKind::kL && k == RegKind::kW) {
        widen[i] = r;
        d[i] = new_reg(RegKind::kW);
        continue;
      }
    }
    d[i] = destination(targets[i], k);
    if (d[i] == kNoReg) return false;
  }
  Inst& inst = emit(Op::kLoad, {}, {base}, offset);
  inst.memory = m;
  inst.destinations = m.count;
  inst.dst = d;
  for (std::uint8_t i = 0; i < m.count; ++i)
    if (widen[i] != kNoReg) emit(m.sign_extend ? Op::kSextW : Op::kZextW, {widen[i]}, {d[i]});
  return true;
}

Reg Selector::loaded(const Operand& target, const Memory& m, Op o, std::initializer_list<Reg> src,
                     std::int64_t imm) {
  RegKind k = m.bytes == 8 ? RegKind::kL : RegKind::kW;
  Reg wide = kNoReg, d;
  if (names_register(target)) {
    Reg r = named(target.name);
    if (r == kNoReg) return r;
    if (kind(r) == RegKind::kL && k == RegKind::kW) wide = r;
  }
  d = wide != kNoReg ? new_reg(RegKind::kW) : destination(target, k);
  if (d == kNoReg) return d;
  Inst& inst = emit(o, {d}, src, imm);
  inst.memory = m;
  inst.memory.count = 1;
  if (wide != kNoReg) emit(m.sign_extend ? Op::kSextW : Op::kZextW, {wide}, {d});
  return d;
}

bool Selector::store() {
  take_hints();
  if (!one_type() || !operands(2)) return false;
  Type t = types_[0];
  Memory m;
  m.space = take_space();
  m.count = vector_count();
  m.bytes = static_cast<std::uint8_t>(bytes_of(t));
  if (m.bytes == 0 || m.bytes > 8) return refuse();
  if (m.space == Space::kParam || m.space == Space::kConst)
    return refuse("writes a read-only state space");
  std::vector<Operand> values = elements(op(1));
  if (values.size() != m.count) return fail("the vector has the wrong length");
  std::int64_t offset = 0;
  Reg base = address(op(0), m.space, offset);
  if (base == kNoReg) return false;
  std::array<Reg, 4> v{};
  for (std::uint8_t i = 0; i < m.count; ++i) {
    v[i] = source(values[i], m.bytes == 8 ? RegKind::kL : RegKind::kW, true);
    if (v[i] == kNoReg) return false;
  }
  Inst& inst = emit(Op::kStore, {}, {base}, offset);
  inst.memory = m;
  for (std::uint8_t i = 0; i < m.count; ++i) inst.src[inst.sources++] = v[i];
  return true;
}

bool Selector::atomic() {
  take_hints();
  bool reduction = at_->opcode == "red";
  if (!one_type()) return false;
  Type t = types_[0];
  Memory m;
  m.space = take_space();
  m.bytes = static_cast<std::uint8_t>(bytes_of(t));
  if (m.space != Space::kGlobal && m.space != Space::kShared && m.space != Space::kNone)
    return refuse();
  AtomicKind kind;
  bool cas = false;
  if (take("add")) {
    if (is_half(t)) return refuse();
    kind = t == Type::kF32   ? AtomicKind::kAddF32
           : t == Type::kF64 ? AtomicKind::kAddF64
                             : AtomicKind::kAdd;
  } else if (is_float(t) || is_half(t)) {
    return refuse();
  } else if (take("min")) {
    kind = is_signed(t) ? AtomicKind::kMinS : AtomicKind::kMinU;
  } else if (take("max")) {
    kind = is_signed(t) ? AtomicKind::kMaxS : AtomicKind::kMaxU;
  } else if (take("and")) {
    kind = AtomicKind::kAnd;
  } else if (take("or")) {
    kind = AtomicKind::kOr;
  } else if (take("xor")) {
    kind = AtomicKind::kXor;
  } else if (take("exch")) {
    kind = AtomicKind::kExch;
  } else if (take("cas")) {
    kind = AtomicKind::kCas;
    cas = true;
  } else {
    return refuse();  // inc, dec
  }
  take("noftz");
  if (m.bytes != 4 && m.bytes != 8) return refuse();
  std::size_t first = reduction ? 0 : 1;
  if (!operands(first + (cas ? 3 : 2))) return false;
  RegKind k = m.bytes == 8 ? RegKind::kL : RegKind::kW;
  std::int64_t offset = 0;
  Reg base = address(op(first), m.space, offset), value = source(op(first + 1), k, true);
  Reg second = cas ? source(op(first + 2), k, true) : kNoReg;
  Reg d = reduction ? new_reg(k) : destination(op(0), k);
  if (base == kNoReg || value == kNoReg || d == kNoReg || (cas && second == kNoReg)) return false;
  Inst& inst = emit(Op::kAtomic, {d}, {base, value}, offset);
  if (cas) inst.src[inst.sources++] = second;
  inst.memory = m;
  inst.memory.count =
      static_cast<std::uint8_t>(kind);  // an atomic has no vector form; the field holds its kind
  if (m.space != Space::kShared) program_->has_global_atomics = true;
  return true;
}

}  // namespace driftc::runtime::ptx
