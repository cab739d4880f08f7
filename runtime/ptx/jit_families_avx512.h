// Lanes of a family as AVX-512 sees them. Private to runtime/ptx.
#pragma once

#include "runtime/ptx/jit_looks_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class Families : public Looks {
 public:
  using Looks::Looks;

 protected:
  void load_apart(const AccessPlan& a) override {
    vmovups(zmm29, memory_at(a, 0));
    vpermt2d(zmm29, zmm27, memory_at(a, 64));
    if (a.guarded)
      vmovdqa32(Zmm(a.data[0]) | lanes(a), zmm29);
    else
      vmovdqa32(Zmm(a.data[0]), zmm29);
  }

  // Also: zmm30 = the lanes less their steps, zmm29 = the first active one of them.
  void first_of(int root_register, int log_step) override {
    if (v_.uniform || (fast_ && log_step == 0)) return vmovd(eax, Xbyak::Xmm(root_register));
    Zmm all(root_register);
    if (log_step > 0) {
      vpsubd(zmm30, all, ptr[rbp + CONTEXT(lanes) + 64 * log_step]);
      all = zmm30;
    }
    vpcompressd(zmm29 | k1 | T_z, all);
    vmovd(eax, Xbyak::Xmm(29));
  }
  void two_apart(int root_register, const Label& otherwise) override {
    first_of(root_register, 1);
    vpbroadcastd(zmm29, Xbyak::Xmm(29));
    vpcmpeqd(k7 | k1, zmm30, zmm29);
    kmovw(ecx, k7);
    cmp(ecx, r10d);
    jne(otherwise, T_NEAR);
  }
};

}  // namespace driftc::runtime::ptx::avx512
