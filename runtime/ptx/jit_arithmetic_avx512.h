// Arithmetic of segments that takes more than one instruction. Private to runtime/ptx.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_access_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class Arithmetic : public Moves {
 public:
  using Moves::Moves;

 protected:
  void canonicalize(const LocalInst& i, const Zmm& d) {
    if (!value(i.dst[0]).canonical && i.guard == kNoValue) return;
    vcmpps(k7, d, d, 3);
    vpbroadcastd(d | k7, ptr[rbp + CONTEXT(canonical_nan)]);
  }
  // A product by a power of two is a shift, which takes one cycle instead of two multiplications.
  void multiply(const Zmm& d, const Zmm& a, const Xbyak::Operand& b, const LocalInst& i) {
    for (int s = 0; s < 2; ++s) {
      const Value& x = value(i.src[s]);
      if (x.from != Value::From::kUniform || !code_.regs[x.reg].is_constant) continue;
      const std::uint32_t bits = static_cast<std::uint32_t>(code_.regs[x.reg].bits);
      if (bits == 0 || (bits & (bits - 1)) != 0 || value(i.src[1 - s]).from == x.from) continue;
      return vpslld(d, a, static_cast<std::uint8_t>(__builtin_ctz(bits)));
    }
    vpmulld(d, a, b);
  }
  template <class Target>
  void mad(const LocalInst& i, Target target) {
    ValueId a = i.src[0], b = i.src[1];
    if (value(a).from == Value::From::kUniform) std::swap(a, b);
    const Zmm x = vec(a);
    multiply(zmm30, x, source(b), i);
    const Xbyak::Operand& c = source(i.src[2]);
    vpaddd(target(), zmm30, c);
  }
  template <class Target>
  void multiply_high(const LocalInst& i, Target target) {
    const bool is_signed = i.inst->op == Op::kMulHiS32;
    const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
    vpsrlq(zmm29, a, 32);
    vpsrlq(zmm28, b, 32);
    if (is_signed) {
      vpmuldq(zmm30, a, b);
      vpmuldq(zmm29, zmm29, zmm28);
    } else {
      vpmuludq(zmm30, a, b);
      vpmuludq(zmm29, zmm29, zmm28);
    }
    vpsrlq(zmm30, zmm30, 32);
    mov(eax, 0xAAAA);
    kmovw(k7, eax);
    vmovdqa32(zmm30 | k7, zmm29);
    vmovdqa32(target(), zmm30);
  }
  template <class Target>
  void divide_by_uniform(const LocalInst& i, int slot, Target target) {
    const Op op = i.inst->op;
    const bool is_signed = op == Op::kDivS32 || op == Op::kRemS32;
    const int at = CONTEXT(roots) + slot * static_cast<int>(sizeof(JitContext::Root));
    const Zmm a = vec(i.src[0]);
    const Xbyak::Ymm y29(29), y30(30);
    vextracti64x4(y30, a, 1);
    if (is_signed) {
      vcvtdq2pd(zmm29, Xbyak::Ymm(a.getIdx()));
      vcvtdq2pd(zmm30, y30);
    } else {
      vcvtudq2pd(zmm29, Xbyak::Ymm(a.getIdx()));
      vcvtudq2pd(zmm30, y30);
    }
    vmulpd(zmm29, zmm29, ptr_b[rbp + at]);
    vmulpd(zmm30, zmm30, ptr_b[rbp + at]);
    if (is_signed) {
      vcvttpd2dq(y29, zmm29);
      vcvttpd2dq(y30, zmm30);
    } else {
      vcvttpd2udq(y29, zmm29);
      vcvttpd2udq(y30, zmm30);
    }
    vinserti64x4(zmm29, zmm29, y30, 1);
    if (op == Op::kDivS32 || op == Op::kDivU32) {
      vpord(target(), zmm29, ptr_b[rbp + at + 8]);
      return;
    }
    vpord(zmm29, zmm29, ptr_b[rbp + at + 8]);
    vpmulld(zmm29, zmm29, source(i.src[1]));
    vpsubd(target(), a, zmm29);
  }
  // Exact through double (exec_plain.cpp); division by zero gives all ones.
  template <class Target>
  void divide(const LocalInst& i, Target target) {
    const Op op = i.inst->op;
    const bool is_signed = op == Op::kDivS32 || op == Op::kRemS32;
    if (value(i.src[1]).from == Value::From::kUniform)
      if (const int slot = reciprocal_of(i); slot >= 0) return divide_by_uniform(i, slot, target);
    const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
    const Xbyak::Ymm y28(28), y29(29), y30(30);
    auto quotients = [&](const Xbyak::Ymm& x, const Xbyak::Ymm& y, const Xbyak::Ymm& q) {
      const Zmm wide_x(x.getIdx()), wide_y(y.getIdx());
      if (is_signed) {
        vcvtdq2pd(wide_x, x);
        vcvtdq2pd(wide_y, y);
        vdivpd(wide_x, wide_x, wide_y);
        vcvttpd2dq(q, wide_x);
      } else {
        vcvtudq2pd(wide_x, x);
        vcvtudq2pd(wide_y, y);
        vdivpd(wide_x, wide_x, wide_y);
        vcvttpd2udq(q, wide_x);
      }
    };
    vextracti64x4(y29, a, 1);
    vextracti64x4(y30, b, 1);
    quotients(y29, y30, y28);
    vmovdqa32(zmm29, a);
    vmovdqa32(zmm30, b);
    quotients(y29, y30, y29);
    vinserti64x4(zmm30, zmm29, y28, 1);
    vptestnmd(k7, b, b);
    vpbroadcastd(zmm30 | k7, ptr[rbp + CONTEXT(all_ones)]);
    if (op == Op::kDivS32 || op == Op::kDivU32) {
      vmovdqa32(target(), zmm30);
      return;
    }
    vpmulld(zmm30, zmm30, b);
    vpsubd(target(), a, zmm30);
  }
  template <class Target>
  void min_max(const LocalInst& i, Target target) {
    const Op op = i.inst->op;
    const bool is_max = op == Op::kMaxF32 || op == Op::kMaxNanF32;
    const bool propagate = op == Op::kMinNanF32 || op == Op::kMaxNanF32;
    const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
    vmovaps(zmm30, b);
    vcmpps(k7, a, b, is_max ? 0x1E : 0x11);
    vmovaps(zmm30 | k7, a);
    vcmpps(k7, a, b, 0);  // equal operands differ at most in the sign of zero
    if (is_max)
      vandps(zmm30 | k7, a, b);
    else
      vorps(zmm30 | k7, a, b);
    vcmpps(k7, a, a, 3);
    vmovaps(zmm30 | k7, propagate ? a : b);
    vcmpps(k7, b, b, 3);
    vmovaps(zmm30 | k7, propagate ? b : a);
    vcmpps(k7, zmm30, zmm30, 3);
    vpbroadcastd(zmm30 | k7, ptr[rbp + CONTEXT(canonical_nan)]);
    vmovaps(target(), zmm30);
  }
  void fma(LocalInst& i, std::optional<Zmm> temporary) {
    ValueId a = i.src[0], b = i.src[1];
    const ValueId c = i.src[2];
    if (value(a).from == Value::From::kUniform) std::swap(a, b);
    const Zmm x = vec(a);
    const Xbyak::Operand& y = source(b);
    Zmm d = zmm31;
    if (!temporary && dies(c) && place(c).reg[0] >= 0 && c != a && c != b) {
      // The sum stays where it is.
      const int r = place(c).reg[0];
      place(c).reg[0] = -1;
      drop(vectors_, c);
      own(i.dst[0], 0, r);
      vectors_.lock(r);
      d = Zmm(r);
    } else {
      if (!temporary) {
        const int r = free_vector();
        own(i.dst[0], 0, r);
        d = Zmm(r);
      }
      const Value& z = value(c);
      if (z.from == Value::From::kUniform && place(c).reg[0] < 0)
        vbroadcastss(d, in_file(z.reg));
      else
        vmovaps(d, vec(c));
    }
    vfmadd231ps(d, x, y);
    canonicalize(i, d);
  }
  // The operand formats of tensor cores, as ir/support/half.h defines them.
  void narrow(Op op, const Zmm& d, const Zmm& a) {
    switch (op) {
      case Op::kF32ToTf32:  // half of the last place is added, but not to Inf and NaN
        vpandd(zmm29, a, ptr_b[rbp + CONTEXT(exponent)]);
        vpcmpd(k7, zmm29, ptr_b[rbp + CONTEXT(exponent)], 4);
        vmovdqa32(zmm30, a);
        vpaddd(zmm30 | k7, a, ptr_b[rbp + CONTEXT(tf32_half)]);
        vpsrld(zmm30, zmm30, 13);
        vpslld(d, zmm30, 13);
        return;
      case Op::kF32ToF16:
        vcmpps(k7, a, a, 3);
        vcvtps2ph(Xbyak::Ymm(30), a, 0);  // to nearest even
        vpmovzxwd(d, Xbyak::Ymm(30));
        break;
      default:  // kF32ToBf16: to nearest even, by the bits
        vcmpps(k7, a, a, 3);
        vpslld(zmm30, a, 15);
        vpsrld(zmm30, zmm30, 31);
        vpaddd(zmm30, zmm30, a);
        vpaddd(zmm30, zmm30, ptr_b[rbp + CONTEXT(half_nan)]);
        vpsrld(d, zmm30, 16);
        break;
    }
    vpbroadcastd(d | k7, ptr[rbp + CONTEXT(half_nan)]);
  }
  // 64-bit values that an access cannot take apart.
  void wide(LocalInst& i) {
    const Op op = i.inst->op;
    for (int half = 0; half < 2; ++half) {
      auto halves = [&](ValueId v, const Zmm& into, bool sign) {
        const Zmm a = vec(v);
        Xbyak::Ymm y(into.getIdx());
        if (half == 0) {
          y = Xbyak::Ymm(a.getIdx());
        } else {
          vextracti64x4(y, a, 1);
        }
        if (sign)
          vpmovsxdq(into, y);
        else
          vpmovzxdq(into, y);
      };
      switch (op) {
        case Op::kMov64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half));
          vmovdqa64(result(i, 0, half), a);
          break;
        }
        case Op::kSextW:
        case Op::kZextW:
          halves(i.src[0], zmm30, op == Op::kSextW);
          vmovdqa64(result(i, 0, half), zmm30);
          break;
        case Op::kMulWideS32:
        case Op::kMulWideU32:
        case Op::kMadWideS32:
        case Op::kMadWideU32: {
          const bool sign = op == Op::kMulWideS32 || op == Op::kMadWideS32;
          halves(i.src[0], zmm30, sign);
          halves(i.src[1], zmm29, sign);
          if (sign)
            vpmuldq(zmm30, zmm30, zmm29);
          else
            vpmuludq(zmm30, zmm30, zmm29);
          if (op == Op::kMadWideS32 || op == Op::kMadWideU32)
            vpaddq(zmm30, zmm30, vec(i.src[2], half_of(i.src[2], half)));
          vmovdqa64(result(i, 0, half), zmm30);
          break;
        }
        case Op::kAdd64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half)),
                    b = vec(i.src[1], half_of(i.src[1], half));
          vpaddq(result(i, 0, half), a, b);
          break;
        }
        case Op::kSub64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half)),
                    b = vec(i.src[1], half_of(i.src[1], half));
          vpsubq(result(i, 0, half), a, b);
          break;
        }
        case Op::kShl64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half));
          const std::uint64_t bits = code_.regs[value(i.src[1]).reg].bits & 0xFFFFFFFFu;
          const Zmm d = result(i, 0, half);
          if (bits > 63)
            vpxord(d, d, d);
          else
            vpsllq(d, a, static_cast<std::uint8_t>(bits));
          break;
        }
        default:
          failed_ = true;
      }
    }
  }
};

}  // namespace driftc::runtime::ptx::avx512
