// Arithmetic of segments that takes more than one instruction on AVX2. Private to runtime/ptx.
#pragma once

#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_access_avx2.h"

namespace driftc::runtime::ptx::avx2 {

inline constexpr std::uint32_t kCanonicalNan = 0x7FFFFFFFu, kSign = 0x80000000u,
                               kMagnitude = 0x7FFFFFFFu, kOne = 0x3F800000u, kOnes = 0xFFFFFFFFu;

class Arithmetic : public Moves {
 public:
  using Moves::Moves;

 protected:
  void canonicalize(const LocalInst& i, const Ymm& d) {
    if (value(i.dst[0]).canonical || i.guard != kNoValue) make_canonical(d);
  }
  void make_canonical(const Ymm& d) {
    vcmpps(ymm15, d, d, 3);
    vblendvps(d, d, constant(kCanonicalNan), ymm15);
  }
  void invert(const Ymm& d, const Ymm& a) { vpxor(d, a, constant(kOnes)); }

  // A product by a power of two is a shift, which takes one cycle instead of two multiplications.
  void multiply(const Ymm& d, const Ymm& a, const Xbyak::Operand& b, const LocalInst& i) {
    for (int s = 0; s < 2; ++s) {
      const Value& x = value(i.src[s]);
      if (x.from != Value::From::kUniform || !code_.regs[x.reg].is_constant) continue;
      const std::uint32_t bits = static_cast<std::uint32_t>(code_.regs[x.reg].bits);
      if (!std::has_single_bit(bits) || value(i.src[1 - s]).from == x.from) continue;
      return vpslld(d, a, static_cast<std::uint8_t>(std::countr_zero(bits)));
    }
    vpmulld(d, a, b);
  }
  template <class Target>
  void mad(const LocalInst& i, Target target) {
    ValueId a = i.src[0], b = i.src[1];
    if (value(a).from == Value::From::kUniform) std::swap(a, b);
    const Ymm x = vec(a);
    multiply(ymm15, x, source(b), i);
    const Xbyak::Operand& c = source(i.src[2]);
    vpaddd(target(), ymm15, c);
  }
  template <class Target>
  void multiply_high(const LocalInst& i, Target target) {
    const Ymm a = vec(i.src[0]), b = vec(i.src[1]);
    vpsrlq(ymm13, a, 32);
    vpsrlq(ymm14, b, 32);
    if (i.inst->op == Op::kMulHiS32) {
      vpmuldq(ymm15, a, b);
      vpmuldq(ymm13, ymm13, ymm14);
    } else {
      vpmuludq(ymm15, a, b);
      vpmuludq(ymm13, ymm13, ymm14);
    }
    vpsrlq(ymm15, ymm15, 32);
    vpblendd(target(), ymm15, ymm13, 0xAA);
  }

  // ---- division, exact through double (exec_plain.cpp); by zero gives all ones
  // Four words as doubles; from may be the lower half of into.
  void to_doubles(const Ymm& into, const Xmm& from, bool is_signed) {
    if (is_signed) return vcvtdq2pd(into, from);
    const Xmm low(into.getIdx());
    vpxor(low, from, constant(kSign));
    vcvtdq2pd(into, low);
    vaddpd(into, into, two_to_31());
  }
  // Towards zero; the doubles are lost.
  void to_words(const Xmm& into, const Ymm& from, bool is_signed) {
    if (is_signed) return vcvttpd2dq(into, from);
    vroundpd(from, from, 11);
    vsubpd(from, from, two_to_31());
    vcvttpd2dq(into, from);
    vpxor(into, into, constant(kSign));
  }
  Xbyak::Address two_to_31() {
    return table({0, 0x41E00000, 0, 0x41E00000, 0, 0x41E00000, 0, 0x41E00000});
  }
  template <class Target>
  void divide(const LocalInst& i, Target target) {
    const Op op = i.inst->op;
    const bool is_signed = op == Op::kDivS32 || op == Op::kRemS32;
    const int inverse = value(i.src[1]).from == Value::From::kUniform ? reciprocal_of(i) : -1;
    const Ymm a = vec(i.src[0]), b = vec(i.src[1]);
    // ymm15 = the quotients.
    for (int half = 0; half < 2; ++half) {
      Xmm x(a.getIdx()), y(b.getIdx());
      if (half) {
        vextracti128(xmm13, a, 1);
        x = xmm13;
      }
      to_doubles(ymm13, x, is_signed);
      if (inverse >= 0) {
        vbroadcastsd(ymm14, qword[rbp + slot_at(inverse)]);
        vmulpd(ymm13, ymm13, ymm14);
      } else {
        if (half) {
          vextracti128(xmm14, b, 1);
          y = xmm14;
        }
        to_doubles(ymm14, y, is_signed);
        vdivpd(ymm13, ymm13, ymm14);
      }
      if (half == 0) {
        to_words(xmm15, ymm13, is_signed);
      } else {
        to_words(xmm13, ymm13, is_signed);
        vinserti128(ymm15, ymm15, xmm13, 1);
      }
    }
    vpxor(ymm13, ymm13, ymm13);
    vpcmpeqd(ymm13, ymm13, b);
    if (op == Op::kDivS32 || op == Op::kDivU32) {
      vpor(target(), ymm15, ymm13);
      return;
    }
    vpor(ymm15, ymm15, ymm13);
    vpmulld(ymm15, ymm15, b);
    vpsubd(target(), a, ymm15);
  }

  // ---- floats
  template <class Target>
  void min_max(const LocalInst& i, Target target) {
    const Op op = i.inst->op;
    const bool is_max = op == Op::kMaxF32 || op == Op::kMaxNanF32;
    const bool propagate = op == Op::kMinNanF32 || op == Op::kMaxNanF32;
    const Ymm a = vec(i.src[0]), b = vec(i.src[1]);
    vcmpps(ymm14, a, b, is_max ? 0x1E : 0x11);
    vblendvps(ymm13, b, a, ymm14);
    vcmpps(ymm14, a, b, 0);  // equal operands differ at most in the sign of zero
    if (is_max)
      vandps(ymm15, a, b);
    else
      vorps(ymm15, a, b);
    vblendvps(ymm13, ymm13, ymm15, ymm14);
    vcmpps(ymm14, a, a, 3);
    vblendvps(ymm13, ymm13, propagate ? a : b, ymm14);
    vcmpps(ymm14, b, b, 3);
    vblendvps(ymm13, ymm13, propagate ? b : a, ymm14);
    make_canonical(ymm13);
    vmovaps(target(), ymm13);
  }
  void fma(LocalInst& i, std::optional<Ymm> temporary) {
    ValueId a = i.src[0], b = i.src[1];
    const ValueId c = i.src[2];
    if (value(a).from == Value::From::kUniform) std::swap(a, b);
    const Ymm x = vec(a);
    const Xbyak::Operand& y = source(b);
    Ymm d = ymm15;
    if (temporary) {
      d = *temporary;
      copy(d, c);
    } else if (dies(c) && place(c).reg[0] >= 0 && c != a && c != b) {
      // The sum stays where it is.
      const int r = place(c).reg[0];
      place(c).reg[0] = -1;
      drop(vectors_, c);
      own(vectors_, i.dst[0], 0, r);
      vectors_.lock(r);
      d = Ymm(r);
    } else {
      d = fresh(i.dst[0]);
      copy(d, c);
    }
    vfmadd231ps(d, x, y);
    canonicalize(i, d);
  }
  void copy(const Ymm& d, ValueId v) {
    const Value& x = value(v);
    if (x.from == Value::From::kUniform && place(v).reg[0] < 0)
      vmovups(d, in_file(x.reg));
    else
      vmovaps(d, vec(v));
  }
  // As the wider path: a comparison says which lanes the conversion cannot do.
  void float_to_s32(const LocalInst& i, const Ymm& d, const Ymm& a) {
    vroundps(ymm13, a, rounding(i.inst->imm));
    vcvttps2dq(ymm14, ymm13);
    vcmpps(ymm15, ymm13, constant(0x4F000000u), 0x1D);  // >= 2^31
    vblendvps(ymm14, ymm14, constant(0x7FFFFFFFu), ymm15);
    vcmpps(ymm15, ymm13, ymm13, 7);  // ordered
    vpand(d, ymm14, ymm15);
  }
  // Both halves are exact; their sum is rounded once.
  void u32_to_float(const Ymm& d, const Ymm& a) {
    vpsrld(ymm13, a, 16);
    vcvtdq2ps(ymm13, ymm13);
    vpand(ymm14, a, constant(0xFFFFu));
    vcvtdq2ps(ymm14, ymm14);
    vmulps(ymm13, ymm13, constant(0x47800000u));  // 65536
    vaddps(d, ymm13, ymm14);
  }
  // The operand formats of tensor cores, as ir/support/half.h defines them.
  void narrow(Op op, const Ymm& d, const Ymm& a) {
    switch (op) {
      case Op::kF32ToTf32:  // half of the last place is added, but not to Inf and NaN
        vpand(ymm13, a, constant(0x7F800000u));
        vpcmpeqd(ymm13, ymm13, constant(0x7F800000u));
        vpandn(ymm13, ymm13, constant(0x1000u));
        vpaddd(ymm13, ymm13, a);
        vpsrld(ymm13, ymm13, 13);
        vpslld(d, ymm13, 13);
        return;
      case Op::kF32ToF16:
        vcmpps(ymm15, a, a, 3);
        vcvtps2ph(xmm13, a, 0);  // to nearest even
        vpmovzxwd(d, xmm13);
        break;
      default:  // kF32ToBf16: to nearest even, by the bits
        vcmpps(ymm15, a, a, 3);
        vpslld(ymm13, a, 15);
        vpsrld(ymm13, ymm13, 31);
        vpaddd(ymm13, ymm13, a);
        vpaddd(ymm13, ymm13, constant(0x7FFFu));
        vpsrld(d, ymm13, 16);
        break;
    }
    vblendvps(d, d, constant(0x7FFFu), ymm15);
  }

  // ---- any function of three bits: the truth table's index is 4 * a + 2 * b + c
  template <class Target>
  void logic(const LocalInst& i, Target target) {
    const Ymm a = vec(i.src[0]), b = vec(i.src[1]), c = vec(i.src[2]);
    const auto truth = static_cast<unsigned>(i.inst->imm);
    logic_of_two(ymm13, b, c, truth & 15);
    logic_of_two(ymm14, b, c, truth >> 4 & 15);
    vpxor(ymm14, ymm14, ymm13);
    vpand(ymm14, ymm14, a);
    vpxor(target(), ymm13, ymm14);
  }
  void logic_of_two(const Ymm& d, const Ymm& b, const Ymm& c, unsigned truth) {
    switch (truth) {
      case 0x0:
        return vpxor(d, d, d);
      case 0x2:
        return vpandn(d, b, c);
      case 0x4:
        return vpandn(d, c, b);
      case 0x6:
        return vpxor(d, b, c);
      case 0x8:
        return vpand(d, b, c);
      case 0xA:
        return vmovaps(d, c);
      case 0xC:
        return vmovaps(d, b);
      case 0xE:
        return vpor(d, b, c);
      default:  // the complement of one above
        logic_of_two(d, b, c, 15 - truth);
        invert(d, d);
    }
  }

  // ---- 64-bit values that an access cannot take apart
  void wide(LocalInst& i) {
    const Op op = i.inst->op;
    for (int half = 0; half < 2; ++half) {
      auto operand = [&](int s) { return vec(i.src[s], half_of(i.src[s], half)); };
      auto words = [&](int s, const Ymm& into, bool sign) {
        const Ymm a = vec(i.src[s]);
        Xmm x(a.getIdx());
        if (half) {
          x = Xmm(into.getIdx());
          vextracti128(x, a, 1);
        }
        if (sign)
          vpmovsxdq(into, x);
        else
          vpmovzxdq(into, x);
      };
      switch (op) {
        case Op::kMov64: {
          const Ymm a = operand(0);
          vmovaps(fresh(i.dst[0], half), a);
          break;
        }
        case Op::kSextW:
        case Op::kZextW:
          words(0, ymm15, op == Op::kSextW);
          vmovaps(fresh(i.dst[0], half), ymm15);
          break;
        case Op::kMulWideS32:
        case Op::kMulWideU32:
        case Op::kMadWideS32:
        case Op::kMadWideU32: {
          const bool sign = op == Op::kMulWideS32 || op == Op::kMadWideS32;
          words(0, ymm15, sign);
          words(1, ymm14, sign);
          if (sign)
            vpmuldq(ymm15, ymm15, ymm14);
          else
            vpmuludq(ymm15, ymm15, ymm14);
          if (op == Op::kMadWideS32 || op == Op::kMadWideU32) vpaddq(ymm15, ymm15, operand(2));
          vmovaps(fresh(i.dst[0], half), ymm15);
          break;
        }
        case Op::kAdd64:
        case Op::kSub64: {
          const Ymm a = operand(0), b = operand(1), d = fresh(i.dst[0], half);
          if (op == Op::kAdd64)
            vpaddq(d, a, b);
          else
            vpsubq(d, a, b);
          break;
        }
        case Op::kShl64: {
          const Ymm a = operand(0), d = fresh(i.dst[0], half);
          const std::uint64_t bits = code_.regs[value(i.src[1]).reg].bits & 0xFFFFFFFFu;
          if (bits > 63)
            vpxor(d, d, d);
          else
            vpsllq(d, a, static_cast<std::uint8_t>(bits));
          break;
        }
        default:
          failed_ = true;  // `supports` and this switch disagree
      }
    }
  }
};

}  // namespace driftc::runtime::ptx::avx2
