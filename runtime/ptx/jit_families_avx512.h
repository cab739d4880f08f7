// Lanes of a family as AVX-512 sees them. Private to runtime/ptx.
#pragma once

#include "runtime/ptx/jit_looks_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class Families : public Looks {
 public:
  using Looks::Looks;

 protected:
  // rcx = the family's address for lanes two apart: their elements are in two vectors.
  void load_apart(const Family& f, const Access& a) {
    const Access direct = member(f, a);
    vmovups(zmm29, memory_at(direct, 0));
    vpermt2d(zmm29, zmm27, memory_at(direct, 64));
    if (a.guarded)
      vmovdqa32(Zmm(a.data[0]) | a.lanes, zmm29);
    else
      vmovdqa32(Zmm(a.data[0]), zmm29);
  }

  // Also: zmm30 = the lanes less their steps, zmm29 = the first active one of them.
  void first_of(int root_register, int log_step) override {
    if (v_.uniform || (fast_ && log_step == 0)) return vmovd(eax, Xbyak::Xmm(root_register));
    Zmm lanes(root_register);
    if (log_step > 0) {
      vpsubd(zmm30, lanes, ptr[rbp + CONTEXT(lanes) + 64 * log_step]);
      lanes = zmm30;
    }
    vpcompressd(zmm29 | k1 | T_z, lanes);
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
