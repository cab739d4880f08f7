// How the data of accesses moves between memory and vectors, for AVX-512. Private to runtime/ptx.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_families_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class Moves : public Families {
 public:
  using Families::Families;

 protected:
  int register_of(ValueId v) override { return vec(v).getIdx(); }
  void take_registers(const LocalInst& i, AccessPlan& a) override {
    if (a.root != kNoValue) a.root_register = vec(a.root).getIdx();
    for (int e = 0; e < a.count; ++e)
      a.data[e] = (a.store ? vec(i.src[1 + e]) : result(i, e)).getIdx();
    if (a.wide) {
      a.wide_root = i.src[0];
      a.low = vec(i.src[0], 0).getIdx();
      a.high = vec(i.src[0], 1).getIdx();
    }
    a.mask = access_mask(i).getIdx();
  }
  void fast_load(const LocalInst& i, const AccessPlan& a, bool splat, bool apart) override {
    const bool guarded = i.guard != kNoValue;
    const bool constant = guarded && value(i.old[0]).from == Value::From::kUniform;
    const bool zero = constant && is_zero(i.old[0]);
    // Off lanes keep a value that all share: chosen after the load.
    const bool blend = constant && guard_is_off(i) && (apart || !zero) && !splat;
    const Zmm d = blend || zero ? fresh(i.dst[0]) : result(i, 0);
    Zmm into = blend ? zmm29 : d;
    if (guarded && !blend) into = d | guard(i);
    if (zero && !blend) into = into | T_z;
    if (splat) {
      vbroadcastss(into, memory_at(a, 0));
    } else if (!apart) {
      vmovups(into, memory_at(a, 0));
    } else {
      const bool direct_result = blend || zero || !guarded;  // nothing to keep in it
      const Zmm pair = blend || !direct_result ? zmm29 : d;
      vmovups(pair, memory_at(a, 0));
      vpermt2d(direct_result ? into : pair, zmm27, memory_at(a, 64));
      if (!direct_result) vmovdqa32(into, zmm29);
    }
    if (blend)
      vpblendmd(d | mask(i.guard), zmm29,
                ptr_b[rbx + static_cast<int>(file(value(i.old[0]).reg).offset)]);
  }
  Zmm fresh(ValueId v) {
    const int r = free_vector();
    own(v, 0, r);
    return Zmm(r);
  }

  void whole_group(const AccessPlan& a, const Label& otherwise) override {
    kmovw(eax, lanes(a));
    cmp(eax, 0xFFFF);
    jne(otherwise, T_NEAR);
  }
  // Access of a lane that is off must not be made, so registers are loaded and stored under the
  // mask.
  void move_window(const AccessPlan& a) override {
    if (a.count == 1) {
      if (a.store)
        store_window(a);
      else if (a.guarded)
        vmovups(Zmm(a.data[0]) | lanes(a), memory_at(a, 0));
      else
        vmovups(Zmm(a.data[0]) | lanes(a) | T_z, memory_at(a, 0));
      return;
    }
    if (a.packed) {
      for (int e = 0; e < a.count; ++e) {
        if (a.store)
          vmovups(memory_at(a, 64 * e), Zmm(a.data[e]));
        else
          vmovups(Zmm(a.data[e]), memory_at(a, 64 * e));
      }
      return;
    }
    // Lanes' vectors lie one behind the other; the tables pick element e of every lane.
    if (a.store) {
      interleave(a);
    } else {
      deinterleave(a);
    }
  }
  // A store under a mask costs many times a plain one on some machines.
  void store_window(const AccessPlan& a) {
    auto masked = std::make_shared<Label>(), back = std::make_shared<Label>();
    if (a.guarded) {
      kmovw(eax, lanes(a));
      cmp(eax, 0xFFFF);
    } else {
      cmp(r10d, 0xFFFF);
    }
    jne(*masked, T_NEAR);
    vmovups(memory_at(a, 0), Zmm(a.data[0]));
    L(*back);
    later_.push_back([this, a, masked, back] {
      L(*masked);
      if (a.guarded) {
        test(eax, eax);  // nobody's store costs as much
        jz(*back, T_NEAR);
      }
      vmovups(memory_at(a, 0) | lanes(a), Zmm(a.data[0]));
      jmp(*back, T_NEAR);
    });
  }
  auto table(int n) { return ptr[rbp + CONTEXT(interleave) + 64 * n]; }
  void deinterleave(const AccessPlan& a) {
    if (a.count == 2) {
      vmovups(zmm30, memory_at(a, 0));
      for (int e = 0; e < 2; ++e) {
        vmovdqa32(zmm29, table(e));
        vpermi2d(zmm29, zmm30, memory_at(a, 64));
        vmovdqa32(Zmm(a.data[e]), zmm29);
      }
      return;
    }
    // Even and odd elements of either half, then the same again.
    for (int e = 0; e < 2; ++e) {
      vmovups(zmm31, memory_at(a, 0));
      vmovdqa32(zmm30, table(e));
      vpermi2d(zmm30, zmm31, memory_at(a, 64));
      vmovups(zmm31, memory_at(a, 128));
      vmovdqa32(zmm29, table(e));
      vpermi2d(zmm29, zmm31, memory_at(a, 192));
      for (int h = 0; h < 2; ++h) {
        vmovdqa32(zmm28, table(h));
        vpermi2d(zmm28, zmm30, zmm29);
        vmovdqa32(Zmm(a.data[e + 2 * h]), zmm28);
      }
    }
  }
  void interleave(const AccessPlan& a) {
    if (a.count == 2) {
      for (int h = 0; h < 2; ++h) {
        vmovdqa32(zmm30, table(2 + h));
        vpermi2d(zmm30, Zmm(a.data[0]), Zmm(a.data[1]));
        vmovups(memory_at(a, 64 * h), zmm30);
      }
      return;
    }
    for (int h = 0; h < 2; ++h) {
      vmovdqa32(zmm30, table(2 + h));
      vpermi2d(zmm30, Zmm(a.data[0]), Zmm(a.data[2]));  // a0 c0 a1 c1 ...
      vmovdqa32(zmm29, table(2 + h));
      vpermi2d(zmm29, Zmm(a.data[1]), Zmm(a.data[3]));  // b0 d0 b1 d1 ...
      for (int q = 0; q < 2; ++q) {
        vmovdqa32(zmm28, table(2 + q));
        vpermi2d(zmm28, zmm30, zmm29);  // a0 b0 c0 d0 ...
        vmovups(memory_at(a, 128 * h + 64 * q), zmm28);
      }
    }
  }
  void permute(int to, int which, int low, int high) {
    vmovdqa32(Zmm(to), table(which));
    vpermi2d(Zmm(to), Zmm(low), Zmm(high));
  }
  void pack(const AccessPlan& a) override {
    permute(30, 2, a.data[0], a.data[2]);
    permute(29, 2, a.data[1], a.data[3]);
    permute(28, 3, a.data[0], a.data[2]);
    permute(31, 3, a.data[1], a.data[3]);
    for (int q = 0; q < 2; ++q) permute(a.data[q], 2 + q, 30, 29);
    for (int q = 0; q < 2; ++q) permute(a.data[2 + q], 2 + q, 28, 31);
  }
  void unpack(const AccessPlan& a) override {
    for (int e = 0; e < 2; ++e) permute(30 - 2 * e, e, a.data[0], a.data[1]);
    permute(29, 0, a.data[2], a.data[3]);
    permute(31, 1, a.data[2], a.data[3]);
    for (int h = 0; h < 2; ++h) permute(a.data[2 * h], h, 30, 29);
    for (int h = 0; h < 2; ++h) permute(a.data[1 + 2 * h], h, 28, 31);
  }
};

}  // namespace driftc::runtime::ptx::avx512
