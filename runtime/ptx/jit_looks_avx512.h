// Whether the lanes of a value follow each other: proved, or looked at once per group and value
// that says how they differ. Private to runtime/ptx.
#pragma once

#include "runtime/ptx/jit_scattered_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class Looks : public ScatteredAccesses {
 public:
  using ScatteredAccesses::ScatteredAccesses;

 protected:
  // As look(), but does not look at what is proved, and only once at values that differ by what all
  // lanes share.
  int in_line(ValueId v, int log_step) override {
    const Value& x = value(v);
    const Shape known = shape(v);
    if (log_step < 0 || log_step > 4) return -1;
    if (!known.is_linear() && x.pattern == v) return look(v, log_step);
    if (known.is_linear() && known.step != 1 << log_step) return -1;
    for (std::size_t n = 0; n < looked_.size(); ++n)
      if (looked_[n].first == v && looked_[n].second == log_step) return static_cast<int>(n);
    int pattern = -1;
    if (!known.is_linear()) {
      pattern = look(x.pattern, log_step);
      if (pattern < 0) return -1;
    }
    if (looked_.size() == JitContext::kRoots) return -1;
    const int n = static_cast<int>(looked_.size());
    looked_.emplace_back(v, log_step);
    const int at = CONTEXT(roots) + n * static_cast<int>(sizeof(JitContext::Root));
    if (fast_) {  // lane 0 is active
      vmovd(eax, Xbyak::Xmm(vec(v).getIdx()));
    } else {
      vpsubd(zmm30, vec(v), ptr[rbp + CONTEXT(lanes) + 64 * log_step]);
      vpcompressd(zmm29 | k1 | T_z, zmm30);
      vmovd(eax, Xbyak::Xmm(29));
    }
    mov(dword[rbp + at], eax);
    in_eax(n);
    flag_of_[n] = pattern;
    return n;
  }
  // Looks once whether the lanes of a value follow each other by 1 << log_step; the answer is in
  // context.roots. -1: such a step does not exist, or there is no room for the answer.
  int look(ValueId v, int log_step) {
    if (log_step < 0 || log_step > 4) return -1;
    for (std::size_t n = 0; n < looked_.size(); ++n)
      if (looked_[n].first == v && looked_[n].second == log_step) return static_cast<int>(n);
    if (looked_.size() == JitContext::kRoots) return -1;
    const int n = static_cast<int>(looked_.size());
    looked_.emplace_back(v, log_step);
    const Zmm a = vec(v);
    const int at = CONTEXT(roots) + n * static_cast<int>(sizeof(JitContext::Root));
    vpsubd(zmm30, a, ptr[rbp + CONTEXT(lanes) + 64 * log_step]);
    if (fast_) {  // lane 0 is active
      vpbroadcastd(zmm29, Xbyak::Xmm(30));
    } else {
      vpcompressd(zmm29 | k1 | T_z, zmm30);
      vpbroadcastd(zmm29, Xbyak::Xmm(29));
    }
    vpcmpeqd(k7 | k1, zmm30, zmm29);
    kmovw(ecx, k7);
    vmovd(dword[rbp + at], Xbyak::Xmm(29));
    xor_(eax, eax);
    cmp(ecx, r10d);
    setne(al);
    neg(rax);
    mov(ptr[rbp + at + 8], rax);
    return n;
  }
  // The same for 64-bit addresses.
  int look_wide(const AccessPlan& a) override {
    const int log_step = 2 + a.log_count;
    for (std::size_t n = 0; n < looked_.size(); ++n)
      if (looked_[n].first == a.wide_root && looked_[n].second == log_step)
        return static_cast<int>(n);
    if (looked_.size() == JitContext::kRoots) return -1;
    const int n = static_cast<int>(looked_.size());
    looked_.emplace_back(a.wide_root, log_step);
    const int at = CONTEXT(roots) + n * static_cast<int>(sizeof(JitContext::Root));
    first_wide(a);
    shl(ecx, log_step);
    sub(rax, rcx);
    mov(ptr[rbp + at], rax);
    vpbroadcastq(zmm30, rax);
    vpaddq(zmm29, zmm30, ptr[rbp + CONTEXT(wide_lanes) + 128 * log_step]);
    vpaddq(zmm28, zmm30, ptr[rbp + CONTEXT(wide_lanes) + 128 * log_step + 64]);
    equal_wide(a, zmm29, zmm28);
    and_(ecx, r10d);
    xor_(eax, eax);
    cmp(ecx, r10d);
    setne(al);
    neg(rax);
    mov(ptr[rbp + at + 8], rax);
    return n;
  }
};

}  // namespace driftc::runtime::ptx::avx512
