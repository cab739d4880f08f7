// How the data of accesses moves between memory and vectors, for AVX2. Private to runtime/ptx.
#pragma once

#include <memory>

#include "runtime/ptx/jit_scattered_avx2.h"

namespace driftc::runtime::ptx::avx2 {

class Moves : public ScatteredAccesses {
 public:
  using ScatteredAccesses::ScatteredAccesses;

 protected:
  int register_of(ValueId v) override { return vec(v).getIdx(); }
  void take_registers(const LocalInst& i, AccessPlan& a) override {
    if (a.root != kNoValue) a.root_register = vec(a.root).getIdx();
    if (a.guarded) {
      a.mask = vec(i.guard).getIdx();
      a.negated = guard_is_opposite(i);
    }
    if (a.wide) {
      a.wide_root = i.src[0];
      a.low = vec(i.src[0], 0).getIdx();
      a.high = vec(i.src[0], half_of(i.src[0], 1)).getIdx();
    }
    for (int e = 0; e < a.count; ++e)
      a.data[e] = (a.store ? vec(i.src[1 + e]) : result(i, e)).getIdx();
  }
  void whole_group(const AccessPlan& a, const Label& otherwise) override {
    lane_bits_of(eax, a, ymm13);
    cmp(eax, 0xFF);
    jne(otherwise, T_NEAR);
  }
  // Every lane's place is inside the buffer, so lanes that are off may be read, but not written.
  void move_window(const AccessPlan& a) override {
    if (a.packed) {
      for (int e = 0; e < a.count; ++e) {
        if (a.store)
          vmovups(memory_at(a, 32 * e), Ymm(a.data[e]));
        else
          vmovups(Ymm(a.data[e]), memory_at(a, 32 * e));
      }
    } else if (a.count > 1) {
      // All lanes make the access. Their elements lie one behind the other.
      if (a.store)
        a.count == 2 ? interleave_two(a) : interleave_four(a);
      else
        a.count == 2 ? deinterleave_two(a) : deinterleave_four(a);
    } else if (a.store) {
      store_window(a);
    } else if (a.guarded && !a.negated) {
      const Ymm d(a.data[0]);
      vblendvps(d, d, memory_at(a, 0), Ymm(a.mask));
    } else if (a.guarded) {
      vmovups(ymm13, memory_at(a, 0));
      take(a, 0, ymm13);
    } else {
      vmovups(Ymm(a.data[0]), memory_at(a, 0));
    }
  }
  void load_apart(const AccessPlan& a) override {
    even_elements(ymm13, a);
    take(a, 0, ymm13);
  }
  void fast_load(const LocalInst& i, const AccessPlan& a, bool splat, bool apart) override {
    auto load = [&](const Ymm& d) {
      if (splat)
        vbroadcastss(d, memory_at(a, 0));
      else if (apart)
        even_elements(d, a);
      else
        vmovups(d, memory_at(a, 0));
    };
    if (!a.guarded) return load(fresh(i.dst[0]));
    const bool direct = !splat && !apart, off = guard_is_opposite(i);
    if (is_zero(i.old[0])) {
      const Ymm g = vec(i.guard), d = fresh(i.dst[0]);
      if (!direct) load(ymm13);
      if (off)
        direct ? vandnps(d, g, memory_at(a, 0)) : vandnps(d, g, ymm13);
      else
        direct ? vandps(d, g, memory_at(a, 0)) : vandps(d, g, ymm13);
      return;
    }
    // A value that all lanes share stays in memory.
    if (off && value(i.old[0]).from == Value::From::kUniform) {
      const Ymm g = vec(i.guard), d = fresh(i.dst[0]);
      load(ymm13);
      vblendvps(d, ymm13, in_file(value(i.old[0]).reg), g);
      return;
    }
    const Ymm g = vec(i.guard), d = result(i, 0);
    if (direct && !off) {
      vblendvps(d, d, memory_at(a, 0), g);
      return;
    }
    load(ymm13);
    if (off)
      vblendvps(d, ymm13, d, g);
    else
      vblendvps(d, d, ymm13, g);
  }

  void pack(const AccessPlan& a) override {
    transpose(a);
    // Quads 0|4, 1|5, 2|6, 3|7 to pairs of neighbours.
    for (int n = 0; n < 2; ++n) vmovaps(Ymm(13 + n), Ymm(a.data[2 * n]));
    vmovaps(ymm15, Ymm(a.data[1]));
    vperm2f128(Ymm(a.data[0]), ymm13, ymm15, 0x20);
    vperm2f128(Ymm(a.data[2]), ymm13, ymm15, 0x31);
    vmovaps(ymm13, Ymm(a.data[3]));
    vperm2f128(Ymm(a.data[1]), ymm14, ymm13, 0x20);
    vperm2f128(Ymm(a.data[3]), ymm14, ymm13, 0x31);
  }
  // The data of a packed store is not read again, so it is spread out where it is.
  void unpack(const AccessPlan& a) override {
    vmovaps(ymm13, Ymm(a.data[0]));
    vmovaps(ymm14, Ymm(a.data[1]));
    vmovaps(ymm15, Ymm(a.data[2]));
    vperm2f128(Ymm(a.data[0]), ymm13, ymm15, 0x20);
    vperm2f128(Ymm(a.data[1]), ymm13, ymm15, 0x31);
    vmovaps(ymm13, Ymm(a.data[3]));
    vperm2f128(Ymm(a.data[2]), ymm14, ymm13, 0x20);
    vperm2f128(Ymm(a.data[3]), ymm14, ymm13, 0x31);
    transpose(a);
  }

 private:
  static Xmm low(const Ymm& y) { return Xmm(y.getIdx()); }

  // Even elements of the 16 that begin at an access.
  void even_elements(const Ymm& d, const AccessPlan& a) {
    halves(d, a, 0, 32);
    halves(ymm14, a, 16, 48);
    vshufps(d, d, ymm14, 0x88);
  }
  // d = 16 bytes from each of two places.
  void halves(const Ymm& d, const AccessPlan& a, int first, int second) {
    vmovups(low(d), memory_at(a, first));
    vinsertf128(d, d, memory_at(a, second), 1);
  }
  void deinterleave_two(const AccessPlan& a) {
    halves(ymm13, a, 0, 32);
    halves(ymm14, a, 16, 48);
    vshufps(Ymm(a.data[0]), ymm13, ymm14, 0x88);
    vshufps(Ymm(a.data[1]), ymm13, ymm14, 0xDD);
  }
  void deinterleave_four(const AccessPlan& a) {
    for (int q = 0; q < 4; ++q) halves(Ymm(a.data[q]), a, 16 * q, 64 + 16 * q);
    transpose(a);
  }
  // 4x4 words in either half of four registers, where they are.
  void transpose(const AccessPlan& access) {
    const int* r = access.data;
    const Ymm a(r[0]), b(r[1]), c(r[2]), d(r[3]);
    vunpcklps(ymm13, a, b);
    vunpckhps(a, a, b);
    vunpcklps(ymm14, c, d);
    vunpckhps(c, c, d);
    vunpckhpd(b, ymm13, ymm14);
    vunpckhpd(d, a, c);
    vunpcklpd(c, a, c);
    vunpcklpd(a, ymm13, ymm14);
  }
  void interleave_two(const AccessPlan& a) {
    vunpcklps(ymm13, Ymm(a.data[0]), Ymm(a.data[1]));
    vunpckhps(ymm14, Ymm(a.data[0]), Ymm(a.data[1]));
    vmovups(memory_at(a, 0), xmm13);
    vmovups(memory_at(a, 16), xmm14);
    vextractf128(memory_at(a, 32), ymm13, 1);
    vextractf128(memory_at(a, 48), ymm14, 1);
  }
  void interleave_four(const AccessPlan& a) {
    for (int h = 0; h < 2; ++h) {
      const Ymm e0(a.data[0]), e1(a.data[1]), e2(a.data[2]), e3(a.data[3]);
      h ? vunpckhps(ymm13, e0, e1) : vunpcklps(ymm13, e0, e1);
      h ? vunpckhps(ymm14, e2, e3) : vunpcklps(ymm14, e2, e3);
      for (int q = 0; q < 2; ++q) {
        q ? vunpckhpd(ymm15, ymm13, ymm14) : vunpcklpd(ymm15, ymm13, ymm14);
        const int at = 32 * h + 16 * q;
        vmovups(memory_at(a, at), xmm15);
        vextractf128(memory_at(a, 64 + at), ymm15, 1);
      }
    }
  }
  // A store under a mask costs many times a plain one on some machines.
  void store_window(const AccessPlan& a) {
    auto masked = std::make_shared<Label>(), back = std::make_shared<Label>();
    if (a.guarded) {
      lane_bits_of(eax, a, ymm13);
      cmp(eax, 0xFF);
    } else {
      cmp(r10d, 0xFF);
    }
    jne(*masked, T_NEAR);
    vmovups(memory_at(a, 0), Ymm(a.data[0]));
    L(*back);
    later_.push_back([this, a, masked, back] {
      L(*masked);
      if (a.guarded) {
        test(eax, eax);  // nobody's store costs as much
        jz(*back, T_NEAR);
      }
      lanes_of(ymm13, a);
      vmaskmovps(memory_at(a, 0), ymm13, Ymm(a.data[0]));
      jmp(*back, T_NEAR);
    });
  }
};

}  // namespace driftc::runtime::ptx::avx2
