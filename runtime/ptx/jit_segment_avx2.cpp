// Segments for AVX2, half a group at a time (jit_registers_avx2.h).
#if defined(__x86_64__)

#include <algorithm>
#include <memory>
#include <optional>

#include "runtime/ptx/jit_arithmetic_avx2.h"

namespace driftc::runtime::ptx {
namespace avx2 {
namespace {

class SegmentCode : public Arithmetic {
 public:
  SegmentCode(const BoundProgram& bound, const UnitPlan& unit, const std::vector<Shape>& shapes,
              const Seen& seen, std::uint32_t first_access, std::vector<JitAccess>& accesses,
              std::uint8_t* buffer)
      : Arithmetic(bound, value_unit(bound.program->code, unit, shapes, seen), first_access,
                   accesses, buffer) {}

 private:
  void instruction(LocalInst& i) override {
    switch (i.inst->op) {
      case Op::kLoad:
      case Op::kStore:
        return access(i);
      default:
        break;  // the others write a vector
    }
    if (value(i.dst[0]).kind == RegKind::kL) return wide(i);
    if (i.guard == kNoValue) return compute(i, std::nullopt);
    const Ymm now(free_vector());
    compute(i, now);
    if (value(i.dst[0]).kind == RegKind::kP) {
      if (opposite(i.dst[0]) != opposite(i.old[0])) invert(now, now);
      opposite(i.dst[0]) = opposite(i.old[0]);
    }
    vec(i.guard);  // held while the result takes a register
    blend(i, result(i, 0, true), now);
  }
  // The result goes to `temporary`, or to a register of its own.
  void compute(LocalInst& i, std::optional<Ymm> temporary) {
    const Op op = i.inst->op;
    auto target = [&] { return temporary ? *temporary : fresh(i.dst[0]); };
    auto two = [&](auto fn) {
      const Ymm a = vec(i.src[0]);
      const Xbyak::Operand& b = source(i.src[1]);
      fn(target(), a, b);
    };
    // Either operand may come from memory.
    auto commuting = [&](auto fn) {
      ValueId a = i.src[0], b = i.src[1];
      if (value(a).from == Value::From::kUniform && value(b).from != Value::From::kUniform)
        std::swap(a, b);
      const Ymm x = vec(a);
      const Xbyak::Operand& y = source(b);
      fn(target(), x, y);
    };
    auto one = [&](auto fn) {
      const Ymm a = vec(i.src[0]);
      fn(target(), a);
    };
    // The lowest bits of every lane, extended.
    auto extend = [&](int bits, bool sign) {
      const auto away = static_cast<std::uint8_t>(32 - bits);
      one([&](auto d, auto a) {
        vpslld(d, a, away);
        if (sign)
          vpsrad(d, d, away);
        else
          vpsrld(d, d, away);
      });
    };
    switch (op) {
      case Op::kMovPred:
      case Op::kNotPred:
        opposite(i.dst[0]) = opposite(i.src[0]) ^ (op == Op::kNotPred);
        [[fallthrough]];
      case Op::kMov32:
        return one([&](auto d, auto a) { vmovaps(d, a); });
      case Op::kAdd32:
        return commuting([&](auto d, auto a, auto& b) { vpaddd(d, a, b); });
      case Op::kSub32:
        return two([&](auto d, auto a, auto& b) { vpsubd(d, a, b); });
      case Op::kMul32:
        return commuting([&](auto d, auto a, auto& b) { multiply(d, a, b, i); });
      case Op::kMad32:
        return mad(i, target);
      case Op::kMulHiS32:
      case Op::kMulHiU32:
        return multiply_high(i, target);
      case Op::kDivS32:
      case Op::kDivU32:
      case Op::kRemS32:
      case Op::kRemU32:
        return divide(i, target);
      case Op::kMinS32:
        return commuting([&](auto d, auto a, auto& b) { vpminsd(d, a, b); });
      case Op::kMinU32:
        return commuting([&](auto d, auto a, auto& b) { vpminud(d, a, b); });
      case Op::kMaxS32:
        return commuting([&](auto d, auto a, auto& b) { vpmaxsd(d, a, b); });
      case Op::kMaxU32:
        return commuting([&](auto d, auto a, auto& b) { vpmaxud(d, a, b); });
      case Op::kAbsS32:
        return one([&](auto d, auto a) { vpabsd(d, a); });
      case Op::kNeg32:
        return one([&](auto d, auto a) {
          vpxor(ymm13, ymm13, ymm13);
          vpsubd(d, ymm13, a);
        });
      case Op::kAndPred:
      case Op::kOrPred:
        return join(i, target);
      case Op::kXorPred:
        opposite(i.dst[0]) = opposite(i.src[0]) ^ opposite(i.src[1]);
        return two([&](auto d, auto a, auto& b) { vpxor(d, a, b); });
      case Op::kAnd32:
        return commuting([&](auto d, auto a, auto& b) { vpand(d, a, b); });
      case Op::kOr32:
        return commuting([&](auto d, auto a, auto& b) { vpor(d, a, b); });
      case Op::kXor32:
        return commuting([&](auto d, auto a, auto& b) { vpxor(d, a, b); });
      case Op::kNot32:
        return one([&](auto d, auto a) { invert(d, a); });
      case Op::kShl32:
        return two([&](auto d, auto a, auto& b) { vpsllvd(d, a, b); });
      case Op::kShrS32:
        return two([&](auto d, auto a, auto& b) { vpsravd(d, a, b); });
      case Op::kShrU32:
        return two([&](auto d, auto a, auto& b) { vpsrlvd(d, a, b); });
      case Op::kSextB:
      case Op::kZextB:
        return extend(8, op == Op::kSextB);
      case Op::kSextH:
      case Op::kZextH:
        return extend(16, op == Op::kSextH);
      case Op::kLop332:
        return logic(i, target);
      case Op::kSelp32: {
        if (i.choice != Choice::kNone) return choose(i, target);
        const int yes = opposite(i.src[2]) ? 1 : 0;
        const Ymm p = vec(i.src[2]), b = vec(i.src[1 - yes]);
        const Xbyak::Operand& a = source(i.src[yes]);
        vblendvps(target(), b, a, p);
        return;
      }
      case Op::kAddF32:
        return commuting([&](auto d, auto a, auto& b) {
          vaddps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kSubF32:
        return two([&](auto d, auto a, auto& b) {
          vsubps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kMulF32:
        return commuting([&](auto d, auto a, auto& b) {
          vmulps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kDivF32:
        return two([&](auto d, auto a, auto& b) {
          vdivps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kFmaF32:
        return fma(i, temporary);
      case Op::kSqrtF32:
        return one([&](auto d, auto a) {
          vsqrtps(d, a);
          canonicalize(i, d);
        });
      case Op::kRcpF32:
        return one([&](auto d, auto a) {
          vmovups(ymm13, constant(kOne));
          vdivps(d, ymm13, a);
          canonicalize(i, d);
        });
      case Op::kNegF32:
        return one([&](auto d, auto a) {
          vpxor(d, a, constant(kSign));
          canonicalize(i, d);
        });
      case Op::kAbsF32:
        return one([&](auto d, auto a) {
          vpand(d, a, constant(kMagnitude));
          canonicalize(i, d);
        });
      case Op::kMinF32:
      case Op::kMaxF32:
      case Op::kMinNanF32:
      case Op::kMaxNanF32:
        return min_max(i, target);
      case Op::kSatF32:
        return one([&](auto d, auto a) {
          // NaN, -0 and below give +0.
          vpxor(ymm13, ymm13, ymm13);
          vcmpps(ymm13, ymm13, a, 0x11);  // 0 < a
          vandps(ymm13, ymm13, a);
          vminps(d, ymm13, constant(kOne));
        });
      case Op::kCopysignF32: {
        const Ymm a = vec(i.src[0]), b = vec(i.src[1]);
        vpand(ymm13, a, constant(kSign));
        vpand(ymm14, b, constant(kMagnitude));
        vpor(target(), ymm13, ymm14);
        return;
      }
      case Op::kRoundF32:
        return one([&](auto d, auto a) {
          vroundps(d, a, rounding(i.inst->imm));
          canonicalize(i, d);
        });
      case Op::kS32ToF32:
        return one([&](auto d, auto a) { vcvtdq2ps(d, a); });
      case Op::kU32ToF32:
        return one([&](auto d, auto a) { u32_to_float(d, a); });
      case Op::kF32ToS32:
        return one([&](auto d, auto a) { float_to_s32(i, d, a); });
      case Op::kF32ToTf32:
      case Op::kF32ToF16:
      case Op::kF32ToBf16:
        return one([&](auto d, auto a) { narrow(op, d, a); });
      case Op::kPack32: {
        const Ymm a = vec(i.src[0]), b = vec(i.src[1]);
        vpslld(ymm13, b, 16);
        vpblendw(target(), a, ymm13, 0xAA);
        return;
      }
      case Op::kTruncL: {
        const Ymm low = vec(i.src[0], 0), high = vec(i.src[0], half_of(i.src[0], 1));
        narrow_halves(target(), low, high);
        return;
      }
      case Op::kSetpS32:
      case Op::kSetpU32:
      case Op::kSetpF32:
        return compare(i, target);
      default:
        failed_ = true;  // `supports` and this switch disagree
    }
  }

  // The instructions give the second operand when they are equal or one is NaN, bits unchanged.
  template <class Target>
  void choose(LocalInst& i, Target target) {
    const Ymm a = vec(i.src[0]);
    const Xbyak::Operand& b = source(i.src[1]);
    const Ymm d = target();
    if (i.choice == Choice::kSmaller) return vminps(d, a, b);
    vmaxps(d, a, b);
    if (i.choice != Choice::kLargerOrNan) return;
    vcmpps(ymm15, a, a, 3);
    vblendvps(d, d, a, ymm15);
  }
  // Where both registers hold the opposite, or one does, another operation gives the result or its
  // opposite.
  template <class Target>
  void join(LocalInst& i, Target target) {
    const bool is_and = i.inst->op == Op::kAndPred;
    ValueId first = i.src[0], second = i.src[1];
    if (opposite(second)) std::swap(first, second);  // the first one is opposite, if any is
    const Ymm a = vec(first), b = vec(second), d = target();
    const bool both = opposite(second), one = opposite(first) && !both;
    opposite(i.dst[0]) = both || (one && !is_and);
    if (one)
      is_and ? vpandn(d, a, b) : vpandn(d, b, a);
    else
      is_and != both ? vpand(d, a, b) : vpor(d, a, b);
  }
  template <class Target>
  void compare(LocalInst& i, Target target) {
    const auto how = static_cast<Comparison>(i.inst->imm);
    const Ymm a = vec(i.src[0]);
    if (i.inst->op == Op::kSetpF32) {
      static constexpr std::uint8_t kImm[] = {0x00, 0x0C, 0x11, 0x12, 0x1E, 0x1D, 0x08,
                                              0x04, 0x19, 0x1A, 0x16, 0x15, 0x07, 0x03};
      const Xbyak::Operand& b = source(i.src[1]);
      return vcmpps(target(), a, b, kImm[static_cast<std::size_t>(how)]);
    }
    // There are "equal" and "greater", signed; a >= b where the larger one is a.
    const bool is_signed = i.inst->op == Op::kSetpS32;
    bool inverse = false;
    switch (how) {
      case Comparison::kEq:
      case Comparison::kNe: {
        const Xbyak::Operand& b = source(i.src[1]);
        vpcmpeqd(target(), a, b);
        inverse = how == Comparison::kNe;
        break;
      }
      case Comparison::kGt:
      case Comparison::kLe: {
        const Xbyak::Operand& b = source(i.src[1]);
        const Ymm d = target();
        if (is_signed) {
          vpcmpgtd(d, a, b);
          inverse = how == Comparison::kLe;
        } else {
          vpminud(ymm13, a, b);
          vpcmpeqd(d, ymm13, a);
          inverse = how == Comparison::kGt;
        }
        break;
      }
      default: {
        const bool less = how == Comparison::kLt;
        if (is_signed) {
          const Ymm b = vec(i.src[1]);
          vpcmpgtd(target(), b, a);
        } else {
          const Xbyak::Operand& b = source(i.src[1]);
          vpmaxud(ymm13, a, b);
          vpcmpeqd(target(), ymm13, a);
        }
        inverse = less != is_signed;
      }
    }
    opposite(i.dst[0]) = inverse;
  }

  // ---- results
  void write_outputs() override {
    for (const Output& o : v_.outputs) {
      begin_inst();
      if (value(o.value).kind == RegKind::kP) write_predicate(o);
    }
    const bool vectors = std::any_of(v_.outputs.begin(), v_.outputs.end(), [&](const Output& o) {
      return value(o.value).kind != RegKind::kP;
    });
    if (!vectors) return;
    if (v_.uniform) return write_vectors(false);
    // What is spilled, or still to be read, is loaded the same way on both ways: the registers are
    // put back in between.
    Label masked, done;
    cmp(r10d, 0xFF);
    jne(masked, T_NEAR);
    const State start = state();
    write_vectors(false);
    jmp(done, T_NEAR);
    L(masked);
    set_state(start);
    write_vectors(true);
    L(done);
  }
  void write_vectors(bool masked) {
    for (const Output& o : v_.outputs) {
      begin_inst();
      const Value& x = value(o.value);
      if (x.from == Value::From::kFile) failed_ = true;  // never: copies are values of the unit
      if (x.kind == RegKind::kP) continue;
      const bool wide = x.kind == RegKind::kL;
      for (int half = 0; half < (wide ? 2 : 1); ++half) {
        const Ymm v = vec(o.value, half_of(o.value, half));
        if (v_.uniform) {  // a whole group of equal lanes
          for (int n = 0; n < 2; ++n) vmovups(in_file(o.reg, (wide ? 2 * n : n) + half), v);
        } else if (!masked) {
          vmovups(in_file(o.reg, half), v);
        } else {
          // The file is this thread's own, so lanes that are off may be written back.
          if (wide)
            vpmovsxdq(ymm13, ptr[rbp + CONTEXT(active_lanes) + 16 * half]);
          else
            vmovups(ymm13, active_lanes());
          vmovups(ymm14, in_file(o.reg, half));
          vblendvps(ymm14, ymm14, v, ymm13);
          vmovups(in_file(o.reg, half), ymm14);
        }
      }
    }
  }
  void write_predicate(const Output& o) {
    vmovmskps(ecx, vec(o.value));
    if (opposite(o.value)) not_(ecx);
    if (v_.uniform) {
      movsx(ecx, cl);
      mov(word[rbx + static_cast<int>(file(o.reg).offset)], cx);
      return;
    }
    const auto at = predicate_in_file(o.reg);
    movzx(eax, at);
    mov(edx, r10d);
    and_(ecx, edx);
    not_(edx);
    and_(eax, edx);
    or_(eax, ecx);
    mov(at, al);
  }
};

}  // namespace
}  // namespace avx2

std::optional<std::vector<std::uint8_t>> emit_segment_avx2(
    const BoundProgram& bound, const UnitPlan& unit, const std::vector<Shape>& shapes,
    const Seen& seen, std::uint32_t first_access, std::vector<JitAccess>& accesses) {
  const std::unique_ptr<std::uint8_t[]> buffer(new std::uint8_t[avx2::kCodeBytes]);
  try {
    avx2::SegmentCode segment(bound, unit, shapes, seen, first_access, accesses, buffer.get());
    if (!segment.run()) return std::nullopt;
    return std::vector<std::uint8_t>(buffer.get(), buffer.get() + segment.getSize());
  } catch (const Xbyak::Error&) {
    return std::nullopt;  // the code is larger than the buffer
  }
}

}  // namespace driftc::runtime::ptx

#endif
