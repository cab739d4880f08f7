#include "runtime/ptx/jit_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

namespace driftc::runtime::ptx {
namespace {

constexpr std::size_t kMaxTerms = 12, kMaxBases = 12;

// Operations that give the same result for every NaN of the same operand: those of floats write a
// canonical NaN whatever they read.
bool ignores_nan_bits(Op op) {
  switch (op) {
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
    case Op::kRoundF32:
    case Op::kF32ToS32:
    case Op::kSetpF32:
      return true;
    default:
      return false;  // not a closed set: everything else sees bits
  }
}

class Valuer {
 public:
  Valuer(const Code& code, const UnitPlan& unit, const std::vector<Shape>& shapes, const Seen& seen)
      : code_(code), unit_(unit), shapes_(shapes), seen_(seen) {}

  UnitValues run() {
    const std::vector<Inst>& block = code_.blocks[unit_.block].code;
    out_.uniform = unit_.uniform;
    for (std::uint32_t k : unit_.body) define(block[k]);
    for (Reg r : unit_.outputs) {
      auto at = now_.find(r);
      if (at != now_.end()) out_.outputs.push_back({r, at->second});
    }
    mark();
    return std::move(out_);
  }

 private:
  Value& value(ValueId v) { return out_.values[static_cast<std::size_t>(v)]; }
  ValueId add(Value v) {
    const ValueId id = static_cast<ValueId>(out_.values.size());
    if (v.root == kNoValue) v.root = id;
    if (v.pattern == kNoValue) v.pattern = id;
    out_.values.push_back(std::move(v));
    return id;
  }
  ValueId read(Reg r) {
    if (auto at = now_.find(r); at != now_.end()) return at->second;
    Value v;
    v.kind = code_.regs[r].kind;
    v.from = code_.regs[r].uniform ? Value::From::kUniform : Value::From::kFile;
    v.reg = r;
    v.shape = v.assumed = v.guess = shapes_[r];
    if (v.kind == RegKind::kW && v.from == Value::From::kFile && !v.shape.is_linear())
      v.guess = seen_.shape(r);
    const bool constant = code_.regs[r].is_constant;
    if (v.kind == RegKind::kL && v.from == Value::From::kUniform) {
      v.is_address = true;
      if (constant)
        v.offset = static_cast<std::int64_t>(code_.regs[r].bits);
      else
        v.bases = {r};
    }
    return now_[r] = add(std::move(v));
  }
  bool overwritten(const Value& v) const {
    return v.from == Value::From::kFile ||
           (v.from == Value::From::kUniform && unit_.uniform && !code_.regs[v.reg].is_constant);
  }
  bool constant_of(ValueId v, std::uint64_t& bits) {
    const Value& x = value(v);
    if (x.from != Value::From::kUniform || !code_.regs[x.reg].is_constant) return false;
    bits = code_.regs[x.reg].bits;
    return true;
  }

  void define(const Inst& i) {
    LocalInst local;
    local.inst = &i;
    for (std::uint8_t s = 0; s < i.sources; ++s) local.src[s] = read(i.src[s]);
    if (i.guard != kNoReg) {
      local.guard = read(i.guard);
      for (std::uint8_t d = 0; d < i.destinations; ++d) local.old[d] = read(i.dst[d]);
    }
    const bool plain = i.guard == kNoReg && is_plain(i.op);
    // A copy of what is not in the file is that value; the file's own may be overwritten when
    // outputs are written back.
    if (plain && (i.op == Op::kMov32 || i.op == Op::kMov64 || i.op == Op::kMovPred) &&
        !overwritten(value(local.src[0]))) {
      now_[i.dst[0]] = local.src[0];
      return;
    }
    // What was computed already: NVRTC repeats a window's comparisons for every tap.
    const bool repeats = plain && i.destinations == 1;
    const Computation computation{
        i.op, i.imm, {local.src[0], local.src[1], local.src[2], local.src[3]}};
    if (repeats) {
      if (const auto at = computed_.find(computation); at != computed_.end()) {
        now_[i.dst[0]] = at->second;
        return;
      }
      if (i.op == Op::kNotPred)
        if (const auto at = inverse_.find(local.src[0]);
            at != inverse_.end() && !overwritten(value(at->second))) {
          now_[i.dst[0]] = at->second;
          return;
        }
    }
    if (i.op == Op::kSelp32) find_choice(local);
    const std::int32_t position = static_cast<std::int32_t>(out_.insts.size());
    for (std::uint8_t d = 0; d < i.destinations; ++d) {
      Value v;
      v.kind = code_.regs[i.dst[d]].kind;
      v.from = Value::From::kInst;
      v.inst = position;
      if (plain) describe_shape(i, local, v);
      if (plain && v.kind == RegKind::kW) describe_sum(i, local, v);
      if (plain && v.kind == RegKind::kL) describe_address(i, local, v);
      local.dst[d] = add(std::move(v));
    }
    for (std::uint8_t d = 0; d < i.destinations; ++d) now_[i.dst[d]] = local.dst[d];
    if (repeats) computed_.emplace(computation, local.dst[0]);
    if (repeats && i.op == Op::kNotPred) inverse_.emplace(local.dst[0], local.src[0]);
    out_.insts.push_back(local);
  }

  // The unguarded instruction of the unit that made a value, if it is an `op`.
  const LocalInst* made_by(ValueId v, Op op) {
    const Value& x = value(v);
    if (x.from != Value::From::kInst) return nullptr;
    const LocalInst& made = out_.insts[static_cast<std::size_t>(x.inst)];
    return made.inst->op == op && made.guard == kNoValue ? &made : nullptr;
  }
  static Comparison comparison(const LocalInst& i) { return static_cast<Comparison>(i.inst->imm); }
  void find_choice(LocalInst& i) {
    const ValueId a = i.src[0], b = i.src[1];
    if (const LocalInst* either = made_by(i.src[2], Op::kOrPred)) {
      const LocalInst* x = made_by(either->src[0], Op::kSetpF32);
      const LocalInst* y = made_by(either->src[1], Op::kSetpF32);
      if (!x || !y) return;
      if (comparison(*x) == Comparison::kNan) std::swap(x, y);
      if (comparison(*x) == Comparison::kGt && x->src[0] == a && x->src[1] == b &&
          comparison(*y) == Comparison::kNan && y->src[0] == a && y->src[1] == a)
        i.choice = Choice::kLargerOrNan;
      return;
    }
    const LocalInst* c = made_by(i.src[2], Op::kSetpF32);
    if (!c) return;
    const bool same = c->src[0] == a && c->src[1] == b, swapped = c->src[0] == b && c->src[1] == a;
    if ((comparison(*c) == Comparison::kGt && same) ||
        (comparison(*c) == Comparison::kLt && swapped))
      i.choice = Choice::kLarger;
    if ((comparison(*c) == Comparison::kLt && same) ||
        (comparison(*c) == Comparison::kGt && swapped))
      i.choice = Choice::kSmaller;
  }

  void describe_shape(const Inst& i, const LocalInst& local, Value& v) {
    Shape sources[5];
    for (std::uint8_t s = 0; s < i.sources; ++s) sources[s] = value(local.src[s]).guess;
    v.guess = shape_after(code_, i, sources, &seen_);
    for (std::uint8_t s = 0; s < i.sources; ++s) sources[s] = value(local.src[s]).shape;
    v.shape = shape_after(code_, i, sources);
    if (v.shape.is_linear()) {
      v.assumed = v.guess = v.shape;
      return;
    }
    assume_shape(i, local, v);
    // Adding what all lanes share does not change how they differ.
    auto keeps = [&](int varying, bool others_splat) {
      if (others_splat) v.pattern = value(local.src[varying]).pattern;
    };
    if (i.op == Op::kAdd32) {
      keeps(0, sources[1].is_splat());
      keeps(1, sources[0].is_splat());
    } else if (i.op == Op::kSub32) {
      keeps(0, sources[1].is_splat());
    } else if (i.op == Op::kMad32) {
      keeps(2, sources[0].is_splat() && sources[1].is_splat());
    }
  }

  // A stride is often an argument of the kernel: the same whenever the unit runs in a launch.
  void assume_shape(const Inst& i, const LocalInst& local, Value& v) {
    std::vector<Reg> asked;
    Seen seen = seen_;
    seen.steady_only = true;
    seen.asked = &asked;
    Shape sources[5];
    for (std::uint8_t s = 0; s < i.sources; ++s) sources[s] = value(local.src[s]).assumed;
    v.assumed = shape_after(code_, i, sources, &seen);
    if (!v.assumed.is_linear()) return;
    v.guess = v.assumed;
    for (Reg r : asked)
      if (std::none_of(out_.assumptions.begin(), out_.assumptions.end(),
                       [&](const Assumption& a) { return a.reg == r; }))
        out_.assumptions.push_back({r, seen_.uniform(r)});
  }

  void describe_sum(const Inst& i, const LocalInst& local, Value& v) {
    if (i.op != Op::kAdd32 && i.op != Op::kSub32) return;
    ValueId a = local.src[0], b = local.src[1];
    const bool subtract = i.op == Op::kSub32;
    if (!subtract && value(a).from == Value::From::kUniform) std::swap(a, b);
    if (value(b).from != Value::From::kUniform) return;
    std::uint64_t bits = 0;
    const Value& x = value(a);
    if (constant_of(b, bits)) {
      v.addends = x.addends;
      v.constant = x.constant + static_cast<std::uint32_t>(subtract ? 0 - bits : bits);
    } else {
      if (subtract || x.addends.size() >= kMaxTerms) return;
      v.addends = x.addends;
      v.addends.push_back(value(b).reg);
      v.constant = x.constant;
    }
    v.root = x.root;
  }

  void describe_address(const Inst& i, const LocalInst& local, Value& v) {
    std::uint64_t bits = 0;
    switch (i.op) {
      case Op::kMov64:
        return;
      case Op::kSextW:
      case Op::kZextW:
        v.is_address = true;
        v.index = local.src[0];
        v.sign = i.op == Op::kSextW;
        return;
      case Op::kMulWideS32:
      case Op::kMulWideU32:
      case Op::kMadWideS32:
      case Op::kMadWideU32: {
        ValueId a = local.src[0], b = local.src[1];
        if (value(a).from == Value::From::kUniform) std::swap(a, b);
        if (!constant_of(b, bits)) return;
        bits &= 0xFFFFFFFFu;
        if (!std::has_single_bit(bits) || bits > 16) return;
        const bool mad = i.op == Op::kMadWideS32 || i.op == Op::kMadWideU32;
        if (mad) {
          const Value& c = value(local.src[2]);
          if (!c.is_address || c.index != kNoValue) return;
          v.bases = c.bases;
          v.offset = c.offset;
        }
        v.is_address = true;
        v.index = a;
        v.sign = i.op == Op::kMulWideS32 || i.op == Op::kMadWideS32;
        v.shift = static_cast<std::uint8_t>(std::countr_zero(bits));
        return;
      }
      case Op::kShl64: {
        const Value& a = value(local.src[0]);
        if (!a.is_address || !a.bases.empty() || a.index == kNoValue ||
            !constant_of(local.src[1], bits) || bits + a.shift > 4)
          return;
        v.is_address = true;
        v.index = a.index;
        v.sign = a.sign;
        v.shift = static_cast<std::uint8_t>(a.shift + bits);
        v.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(a.offset) << bits);
        return;
      }
      case Op::kAdd64: {
        const Value &a = value(local.src[0]), &b = value(local.src[1]);
        if (!a.is_address || !b.is_address) return;
        if (a.index != kNoValue && b.index != kNoValue) return;
        if (a.bases.size() + b.bases.size() > kMaxBases) return;
        const Value& x = a.index != kNoValue ? a : b;
        v.is_address = true;
        v.index = x.index;
        v.sign = x.sign;
        v.shift = x.shift;
        v.bases = a.bases;
        v.bases.insert(v.bases.end(), b.bases.begin(), b.bases.end());
        v.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(a.offset) +
                                             static_cast<std::uint64_t>(b.offset));
        return;
      }
      default:
        return;  // not a closed set: other values are no addresses in this form
    }
  }

  // Which values somebody needs, from the end to the begin.
  void use(ValueId v, std::int32_t position, bool sees_bits = true) {
    Value& x = value(v);
    x.needed = true;
    x.canonical |= sees_bits;
    if (x.uses.empty() || x.uses.back() != position) x.uses.push_back(position);
  }
  void use_index(ValueId v, std::int32_t position) {
    if (v == kNoValue) return;
    const ValueId root = value(v).root;
    use(root, position);
    if (!value(root).shape.is_linear()) use(value(root).pattern, position);
  }
  void mark() {
    const std::int32_t end = static_cast<std::int32_t>(out_.insts.size());
    for (const Output& o : out_.outputs) use(o.value, end);
    for (std::int32_t k = end; k-- > 0;) {
      LocalInst& i = out_.insts[static_cast<std::size_t>(k)];
      const Op op = i.inst->op;
      i.emit = op == Op::kLoad || op == Op::kStore;
      for (int d = 0; d < i.inst->destinations; ++d) i.emit |= value(i.dst[d]).needed;
      if (!i.emit) continue;
      if (i.guard != kNoValue) {
        use(i.guard, k);
        for (int d = 0; d < i.inst->destinations; ++d) use(i.old[d], k);
      }
      int first = 0;
      if (op == Op::kLoad || op == Op::kStore) {
        first = 1;
        const Value& a = value(i.src[0]);
        if (a.kind == RegKind::kW)
          use_index(i.src[0], k);
        else if (a.is_address)
          use_index(a.index, k);
        else
          use(i.src[0], k);
      }
      const int last = i.choice == Choice::kNone ? i.inst->sources : 2;
      for (int s = first; s < last; ++s)
        use(i.src[s], k, !ignores_nan_bits(op) || (op == Op::kSelp32));
    }
    invert();
    for (Value& v : out_.values) std::reverse(v.uses.begin(), v.uses.end());
  }
  // A condition that only keeps loads from being made ("outside the image"), or makes such a
  // condition, is computed the other way round, as the mask that the load needs.
  void invert() {
    std::vector<char> straight(out_.values.size(), 0);
    for (const Output& o : out_.outputs) straight[static_cast<std::size_t>(o.value)] = 1;
    for (std::size_t k = out_.insts.size(); k-- > 0;) {
      const LocalInst& i = out_.insts[k];
      if (!i.emit) continue;
      const Op op = i.inst->op;
      if (i.guard != kNoValue && !(op == Op::kLoad && i.inst->guard_negated && keeps_zero(i)))
        straight[static_cast<std::size_t>(i.guard)] = 1;
      const bool joins = (op == Op::kOrPred || op == Op::kAndPred) && i.guard == kNoValue;
      bool inverted = false;
      if (i.dst[0] != kNoValue && value(i.dst[0]).kind == RegKind::kP) {
        const bool made =
            joins || ((op == Op::kSetpS32 || op == Op::kSetpU32) && i.guard == kNoValue);
        inverted = made && straight[static_cast<std::size_t>(i.dst[0])] == 0;
        value(i.dst[0]).inverted = inverted;
      }
      for (int s = 0; s < i.inst->sources; ++s)
        if (!(joins && inverted)) straight[static_cast<std::size_t>(i.src[s])] = 1;
      for (ValueId old : i.old)
        if (old != kNoValue) straight[static_cast<std::size_t>(old)] = 1;
    }
  }
  bool keeps_zero(const LocalInst& i) {
    for (int d = 0; d < i.inst->destinations; ++d) {
      std::uint64_t bits = 1;
      if (!constant_of(i.old[d], bits) || bits != 0) return false;
    }
    return true;
  }

  const Code& code_;
  const UnitPlan& unit_;
  const std::vector<Shape>& shapes_;
  const Seen& seen_;
  UnitValues out_;
  std::map<Reg, ValueId> now_;
  using Computation = std::tuple<Op, std::int64_t, std::array<ValueId, 4>>;
  std::map<Computation, ValueId> computed_;
  std::map<ValueId, ValueId> inverse_;  // of predicates
};

}  // namespace

UnitValues value_unit(const Code& code, const UnitPlan& unit, const std::vector<Shape>& shapes,
                      const Seen& seen) {
  return Valuer(code, unit, shapes, seen).run();
}

}  // namespace driftc::runtime::ptx
