// Segments for AVX-512. Instructions that nobody needs, and address arithmetic that an access does
// on one lane for all, are left out.
#if defined(__x86_64__)

#include <algorithm>
#include <memory>
#include <optional>

#include "runtime/ptx/jit_arithmetic_avx512.h"

namespace driftc::runtime::ptx {
namespace avx512 {
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
      case Op::kMovPred:
      case Op::kAndPred:
      case Op::kOrPred:
      case Op::kXorPred:
      case Op::kNotPred:
      case Op::kSetpS32:
      case Op::kSetpU32:
      case Op::kSetpF32:
        return predicate(i);
      case Op::kMov32:
        return move(i);
      default:
        break;  // the others write a vector
    }
    if (value(i.dst[0]).kind == RegKind::kL) return wide(i);
    if (i.guard != kNoValue) {
      compute(i, zmm31);
      const Zmm d = result(i, 0);
      vmovdqa32(d | guard(i), zmm31);
      return;
    }
    compute(i, std::nullopt);
  }
  void move(LocalInst& i) {
    const Value& x = value(i.src[0]);
    const bool memory = x.from == Value::From::kUniform && place(i.src[0]).reg[0] < 0;
    if (i.guard == kNoValue) {
      const Zmm a = vec(i.src[0]);
      vmovdqa32(result(i, 0), a);
      return;
    }
    if (memory) {
      const Zmm d = result(i, 0);
      vpbroadcastd(d | guard(i), in_file(x.reg));
    } else {
      const Zmm a = vec(i.src[0]);
      const Zmm d = result(i, 0);
      vmovdqa32(d | guard(i), a);
    }
  }
  // The result goes to `temporary`, or to a register of its own.
  void compute(LocalInst& i, std::optional<Zmm> temporary) {
    const Op op = i.inst->op;
    auto target = [&] { return temporary ? *temporary : result(i, 0); };
    auto two = [&](auto fn) {
      const Zmm a = vec(i.src[0]);
      const Xbyak::Operand& b = source(i.src[1]);
      fn(target(), a, b);
    };
    // Either operand may come from memory.
    auto commuting = [&](auto fn) {
      ValueId a = i.src[0], b = i.src[1];
      if (value(a).from == Value::From::kUniform && value(b).from != Value::From::kUniform)
        std::swap(a, b);
      const Zmm x = vec(a);
      const Xbyak::Operand& y = source(b);
      fn(target(), x, y);
    };
    auto one = [&](auto fn) {
      const Zmm a = vec(i.src[0]);
      fn(target(), a);
    };
    switch (op) {
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
          vpxord(zmm30, zmm30, zmm30);
          vpsubd(d, zmm30, a);
        });
      case Op::kAnd32:
        return commuting([&](auto d, auto a, auto& b) { vpandd(d, a, b); });
      case Op::kOr32:
        return commuting([&](auto d, auto a, auto& b) { vpord(d, a, b); });
      case Op::kXor32:
        return commuting([&](auto d, auto a, auto& b) { vpxord(d, a, b); });
      case Op::kNot32:
        return one([&](auto d, auto a) { vpternlogd(d, a, a, 0x55); });
      case Op::kShl32:
        return two([&](auto d, auto a, auto& b) { vpsllvd(d, a, b); });
      case Op::kShrS32:
        return two([&](auto d, auto a, auto& b) { vpsravd(d, a, b); });
      case Op::kShrU32:
        return two([&](auto d, auto a, auto& b) { vpsrlvd(d, a, b); });
      case Op::kSextB:
        return one([&](auto d, auto a) {
          vpslld(d, a, 24);
          vpsrad(d, d, 24);
        });
      case Op::kZextB:
        return one([&](auto d, auto a) {
          vpslld(d, a, 24);
          vpsrld(d, d, 24);
        });
      case Op::kSextH:
        return one([&](auto d, auto a) {
          vpslld(d, a, 16);
          vpsrad(d, d, 16);
        });
      case Op::kZextH:
        return one([&](auto d, auto a) {
          vpslld(d, a, 16);
          vpsrld(d, d, 16);
        });
      case Op::kLop332: {
        const Zmm a = vec(i.src[0]), b = vec(i.src[1]), c = vec(i.src[2]);
        vmovdqa32(zmm30, a);
        vpternlogd(zmm30, b, c, static_cast<std::uint8_t>(i.inst->imm));
        vmovdqa32(target(), zmm30);
        return;
      }
      case Op::kSelp32: {
        if (i.choice != Choice::kNone) return choose(i, target);
        const Opmask p = mask(i.src[2]);
        const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
        const Zmm d = target();
        vpblendmd(d | p, b, a);
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
          vbroadcastss(zmm30, ptr[rbp + CONTEXT(one)]);
          vdivps(d, zmm30, a);
          canonicalize(i, d);
        });
      case Op::kNegF32:
        return one([&](auto d, auto a) {
          vpxord(d, a, ptr_b[rbp + CONTEXT(sign)]);
          canonicalize(i, d);
        });
      case Op::kAbsF32:
        return one([&](auto d, auto a) {
          vpandd(d, a, ptr_b[rbp + CONTEXT(magnitude)]);
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
          vpxord(zmm30, zmm30, zmm30);
          vcmpps(k7, zmm30, a, 0x11);  // 0 < a
          vmovaps(zmm30 | k7, a);
          vminps(d, zmm30, ptr_b[rbp + CONTEXT(one)]);
        });
      case Op::kCopysignF32: {
        const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
        const Zmm d = target();
        vpandd(zmm30, a, ptr_b[rbp + CONTEXT(sign)]);
        vpandd(zmm29, b, ptr_b[rbp + CONTEXT(magnitude)]);
        vpord(d, zmm30, zmm29);
        return;
      }
      case Op::kRoundF32:
        return one([&](auto d, auto a) {
          vrndscaleps(d, a, rounding(i.inst->imm));
          canonicalize(i, d);
        });
      case Op::kS32ToF32:
        return one([&](auto d, auto a) { vcvtdq2ps(d, a); });
      case Op::kU32ToF32:
        return one([&](auto d, auto a) { vcvtudq2ps(d, a); });
      case Op::kF32ToS32:
        return one([&](auto d, auto a) {
          vrndscaleps(zmm30, a, rounding(i.inst->imm));
          vcvttps2dq(zmm29, zmm30);
          vcmpps(k7, zmm30, ptr_b[rbp + CONTEXT(two_31)], 0x1D);  // >=
          vpbroadcastd(zmm29 | k7, ptr[rbp + CONTEXT(max_s32)]);
          vcmpps(k7, zmm30, zmm30, 7);  // ordered
          vmovdqa32(d | k7 | T_z, zmm29);
        });
      case Op::kF32ToTf32:
      case Op::kF32ToF16:
      case Op::kF32ToBf16:
        return one([&](auto d, auto a) { narrow(op, d, a); });
      case Op::kPack32: {
        const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
        vpslld(zmm30, a, 16);
        vpsrld(zmm30, zmm30, 16);
        vpslld(zmm29, b, 16);
        vpord(target(), zmm30, zmm29);
        return;
      }
      case Op::kTruncL: {
        const Zmm low = vec(i.src[0], 0), high = vec(i.src[0], 1);
        vpmovqd(Xbyak::Ymm(30), low);
        vpmovqd(Xbyak::Ymm(29), high);
        vinserti64x4(target(), zmm30, Xbyak::Ymm(29), 1);
        return;
      }
      default:
        failed_ = true;  // `supports` and this switch disagree
    }
  }

  // The instructions give the second operand when they are equal or one is NaN, bits unchanged.
  template <class Target>
  void choose(LocalInst& i, Target target) {
    const Zmm a = vec(i.src[0]);
    const Xbyak::Operand& b = source(i.src[1]);
    const Zmm d = target();
    if (i.choice == Choice::kSmaller) return vminps(d, a, b);
    if (i.choice == Choice::kLargerOrNan) vcmpps(k7, a, a, 3);
    vmaxps(d, a, b);
    if (i.choice == Choice::kLargerOrNan) vmovaps(d | k7, a);
  }

  // ---- predicates
  void predicate(LocalInst& i) {
    const Op op = i.inst->op;
    auto compute_into = [&](const Opmask& d) {
      switch (op) {
        case Op::kMovPred:
          return kmovw(d, mask(i.src[0]));
        case Op::kNotPred:
          return knotw(d, mask(i.src[0]));
        case Op::kAndPred:
        case Op::kOrPred:
          return join(i, d);
        case Op::kXorPred: {
          const Opmask a = mask(i.src[0]), b = mask(i.src[1]);
          return kxorw(d, a, b);
        }
        default: {
          const Zmm a = vec(i.src[0]);
          const Xbyak::Operand& b = source(i.src[1]);
          compare(op, static_cast<Comparison>(i.inst->imm), value(i.dst[0]).inverted, d, a, b);
        }
      }
    };
    if (i.guard == kNoValue) {
      // The operands are locked before the result takes a register, which may not be one of them.
      for (int s = 0; s < i.inst->sources; ++s)
        if (value(i.src[s]).kind == RegKind::kP) mask(i.src[s]);
      return compute_into(mask_result(i.dst[0]));
    }
    compute_into(k7);
    begin_inst();  // with the operands' registers held there would not be enough
    const Opmask g = guard(i);
    kandw(k7, k7, g);
    const Opmask old = mask(i.old[0]);
    const Opmask d = mask_result(i.dst[0]);
    kandnw(d, g, old);
    korw(d, d, k7);
  }
  // And and or of masks that may hold the opposite of their predicates, as the result may.
  void join(const LocalInst& i, const Opmask& d) {
    ValueId va = i.src[0], vb = i.src[1];
    if (value(va).inverted) std::swap(va, vb);  // at most b alone is inverted, or both are
    const Opmask a = mask(va), b = mask(vb);
    const bool invert = value(i.dst[0]).inverted;
    const bool both = value(va).inverted, one = !both && value(vb).inverted;
    const bool is_and = (i.inst->op == Op::kAndPred) != both;  // of the masks
    DRIFTC_ASSERT(invert || !(one || both), "an inverted predicate where it is wanted as it is");
    if (one) {  // the opposite of b is at hand
      if (is_and) {
        knotw(d, a);  // not (a and b) = not a or not b
        korw(d, d, b);
      } else {
        kandnw(d, a, b);
      }
      return;
    }
    if (is_and)
      kandw(d, a, b);
    else
      korw(d, a, b);
    if (invert && !both) knotw(d, d);
  }
  void compare(Op op, Comparison c, bool inverted, const Opmask& d, const Zmm& a,
               const Xbyak::Operand& b) {
    if (op == Op::kSetpF32) {
      static constexpr std::uint8_t kImm[] = {0x00, 0x0C, 0x11, 0x12, 0x1E, 0x1D, 0x08,
                                              0x04, 0x19, 0x1A, 0x16, 0x15, 0x07, 0x03};
      return vcmpps(d, a, b, kImm[static_cast<std::size_t>(c)]);
    }
    static constexpr std::uint8_t kImm[] = {0, 4, 1, 2, 6, 5};
    // Of integers, the opposite comparison is four further.
    const auto imm =
        static_cast<std::uint8_t>(kImm[static_cast<std::size_t>(c) % 6] ^ (inverted ? 4 : 0));
    if (op == Op::kSetpS32)
      vpcmpd(d, a, b, imm);
    else
      vpcmpud(d, a, b, imm);
  }

  // ---- results
  void write_outputs() override {
    Label masked, done;
    const bool vectors = std::any_of(v_.outputs.begin(), v_.outputs.end(), [&](const Output& o) {
      return value(o.value).kind != RegKind::kP;
    });
    for (const Output& o : v_.outputs) {
      begin_inst();
      if (value(o.value).kind == RegKind::kP) write_predicate(o);
    }
    if (!vectors) return;
    // What is spilled, or still to be broadcast, is loaded the same way on both ways: the registers
    // are put back in between.
    cmp(r10d, 0xFFFF);
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
    if (masked) kshiftrw(k7, k1, 8);
    for (const Output& o : v_.outputs) {
      begin_inst();
      const Value& x = value(o.value);
      if (x.from == Value::From::kFile) failed_ = true;  // never: copies are values of the unit
      if (x.kind == RegKind::kP) continue;
      for (int half = 0; half < (x.kind == RegKind::kL ? 2 : 1); ++half) {
        const Zmm v = vec(o.value, half_of(o.value, half));
        if (!masked)
          vmovups(in_file(o.reg, half), v);
        else if (x.kind == RegKind::kL)
          vmovdqa64(in_file(o.reg, half) | (half ? k7 : k1), v);
        else
          vmovdqa32(in_file(o.reg) | k1, v);
      }
    }
  }
  void write_predicate(const Output& o) {
    const auto at = predicate_in_file(o.reg);
    kmovw(ecx, mask(o.value));
    movzx(eax, at);
    mov(edx, r10d);
    and_(ecx, edx);
    not_(edx);
    and_(eax, edx);
    or_(eax, ecx);
    mov(at, ax);
  }
};

}  // namespace
}  // namespace avx512

std::optional<std::vector<std::uint8_t>> emit_segment_avx512(
    const BoundProgram& bound, const UnitPlan& unit, const std::vector<Shape>& shapes,
    const Seen& seen, std::uint32_t first_access, std::vector<JitAccess>& accesses) {
  const std::unique_ptr<std::uint8_t[]> buffer(new std::uint8_t[avx512::kCodeBytes]);
  try {
    avx512::SegmentCode segment(bound, unit, shapes, seen, first_access, accesses, buffer.get());
    if (!segment.run()) return std::nullopt;
    return std::vector<std::uint8_t>(buffer.get(), buffer.get() + segment.getSize());
  } catch (const Xbyak::Error&) {
    return std::nullopt;  // the code is larger than the buffer
  }
}

}  // namespace driftc::runtime::ptx

#endif
