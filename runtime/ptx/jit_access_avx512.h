// Loads and stores of segments: whether the lanes are in line is proved, or looked at once per
// value that says how they differ; then one check of the place serves all 16 lanes. Private to
// runtime/ptx.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_families_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class Accesses : public Families {
 public:
  using Families::Families;

 protected:
  void access(LocalInst& i) {
    Access a = describe(i, next_access_++);
    a.packed = packed_[static_cast<std::size_t>(now_)];
    Family* const together = family(a);
    accesses_[a.id] = {i.inst, static_cast<std::uint8_t>(a.shift), a.sign, a.store,
                       a.wide, together ? together->leader : a.id};
    if (a.offset != static_cast<std::int32_t>(a.offset)) {
      failed_ = true;
      return;
    }

    if (fast_ && together && fast_access(i, a, *together)) return;
    slot_in_rdx_ = -1;
    stores_made_ |= lasting(a);
    if (a.root != kNoValue) a.root_register = vec(a.root).getIdx();
    if (a.store) {
      for (int e = 0; e < a.count; ++e) a.data[e] = vec(i.src[1 + e]).getIdx();
    } else {
      for (int e = 0; e < a.count; ++e) a.data[e] = result(i, e).getIdx();
    }
    if (a.wide) {
      a.wide_root = i.src[0];
      a.low = vec(i.src[0], 0).getIdx();
      a.high = vec(i.src[0], 1).getIdx();
    }
    a.lanes = access_mask(i);
    if (a.wide && v_.uniform && !a.store) return uniform_wide(a);
    if (together && together->members > 1 && !together->proven && family_pointer(*together, a))
      return by_family(*together, a);
    auto back = std::make_shared<Label>(), otherwise = std::make_shared<Label>();
    int alone = -1;  // the look, where the access can be in place although its range is not
    if (!a.wide && (a.root == kNoValue || shape(a.root).is_splat())) {
      if (a.packed)
        jmp(*otherwise, T_NEAR);
      else
        one_place(a, *otherwise);
    } else {
      const int root =
          a.wide ? look_wide(a)
                 : in_line(a.root, a.shared ? 2 + a.log_count : a.log_count + 2 - a.shift);
      if (root >= 0 && a.shared && shared_pointer(a, root)) {
        alone = root;
        test(rcx, rcx);
        jz(*otherwise, T_NEAR);
        Access direct = a;
        direct.pointer = true;
        if (a.count > 1) whole_group(a, *otherwise);
        move_window(direct);
      } else if (root >= 0) {
        place_of_first(a, root, flag_slot(root), *otherwise);
        check_window(a, *otherwise);
        if (a.count > 1) whole_group(a, *otherwise);
        move_window(a);
        if (!a.store) note_ahead(a, a.count);
      } else {
        jmp(*otherwise, T_NEAR);
      }
    }
    L(*back);
    const int flag = alone < 0 ? -1 : flag_slot(alone);
    later_.push_back([this, a, alone, flag, back, otherwise] {
      L(*otherwise);
      // A tile's last pass is off for the groups whose place of it lies behind the tile.
      Label one_by_one;
      if (alone >= 0) {
        place_of_first(a, alone, flag, one_by_one);
        check_window(a, one_by_one);
        if (a.count > 1) whole_group(a, one_by_one);
        move_window(a);
        jmp(*back, T_NEAR);
      }
      L(one_by_one);
      if (!a.packed) {
        scattered(a, *back);
      } else if (a.store) {
        unpack(a);
        scattered(a, *back);
      } else {
        Label lanes;
        scattered(a, lanes);
        L(lanes);
        pack(a);
      }
      jmp(*back, T_NEAR);
    });
  }
  bool fast_access(LocalInst& i, Access& a, Family& f) {
    if (!f.proven) {
      if (stores_made_) return false;
      a.root_register = vec(a.root).getIdx();
      if (!prove(f, a, missed_)) return false;
    }
    const bool splat = shape(a.root).is_splat();
    if (a.store) {
      if (splat) return false;  // the last lane wins
      stores_made_ = true;
      a.data[0] = vec(i.src[1]).getIdx();
      a.lanes = access_mask(i);
      if (f.pointer < 0) mov(rcx, first_at(f.slot));
      store_window(member(f, a));
      return true;
    }
    // What lanes read that are off does no harm, and nobody sees it.
    const bool guarded = i.guard != kNoValue;
    const bool constant = guarded && value(i.old[0]).from == Value::From::kUniform;
    const bool zero = constant && is_zero(i.old[0]);
    // Off lanes keep a value that all share: chosen after the load.
    const bool blend = constant && guard_is_off(i) && (f.apart || !zero) && !splat;
    const Zmm d = blend || zero ? fresh(i.dst[0]) : result(i, 0);
    Zmm into = blend ? zmm29 : d;
    if (guarded && !blend) into = d | guard(i);
    if (zero && !blend) into = into | T_z;
    if (f.pointer < 0) mov(rcx, first_at(f.slot));
    const Access direct = member(f, a);
    if (splat) {
      vbroadcastss(into, memory_at(direct, 0));
    } else if (!f.apart) {
      vmovups(into, memory_at(direct, 0));
    } else {
      const bool direct_result = blend || zero || !guarded;  // nothing to keep in it
      const Zmm pair = blend || !direct_result ? zmm29 : d;
      vmovups(pair, memory_at(direct, 0));
      vpermt2d(direct_result ? into : pair, zmm27, memory_at(direct, 64));
      if (!direct_result) vmovdqa32(into, zmm29);
    }
    if (!splat) note_ahead(direct, 1);
    if (blend)
      vpblendmd(d | mask(i.guard), zmm29,
                ptr_b[rbx + static_cast<int>(file(value(i.old[0]).reg).offset)]);
    return true;
  }
  Zmm fresh(ValueId v) {
    const int r = free_vector();
    own(v, 0, r);
    return Zmm(r);
  }

  // A load by a 64-bit address that all lanes share.
  void uniform_wide(const Access& a) {
    auto back = std::make_shared<Label>(), otherwise = std::make_shared<Label>();
    vmovq(rcx, Xbyak::Xmm(a.low));
    if (a.offset) add(rcx, static_cast<int>(a.offset));
    check_single(a, *otherwise);
    broadcast(a);
    L(*back);
    later_.push_back([this, a, back, otherwise] {
      L(*otherwise);
      scattered(a, *back);
      jmp(*back, T_NEAR);
    });
  }
  void by_family(Family& f, const Access& a) {
    auto back = std::make_shared<Label>(), otherwise = std::make_shared<Label>();
    const bool splat = shape(a.root).is_splat();
    test(rcx, rcx);
    jz(*otherwise, T_NEAR);
    if (!splat) {
      const Access direct = member(f, a);
      move_window(direct);
      if (!a.store) note_ahead(direct, 1);
    } else if (a.store) {
      jmp(*otherwise, T_NEAR);  // the last lane wins
    } else {
      broadcast(member(f, a));
    }
    L(*back);
    const int flag = f.look >= 0 ? flag_slot(f.look) : -1;
    later_.push_back([this, f, a, splat, flag, back, otherwise] {
      Label alone, scattered_lanes;
      L(*otherwise);
      if (!splat && !a.store) {
        mov(rcx, second_at(f.slot));
        test(rcx, rcx);
        jz(alone, T_NEAR);
        slot_in_rdx_ = -1;
        load_apart(f, a);
        jmp(*back, T_NEAR);
      }
      L(alone);
      if (splat && !a.store) {
        one_place(a, scattered_lanes);
        jmp(*back, T_NEAR);
      } else if (f.look >= 0) {
        place_of_first(a, f.look, flag, scattered_lanes);
        check_window(a, scattered_lanes);
        move_window(a);
        jmp(*back, T_NEAR);
      }
      L(scattered_lanes);
      scattered(a, *back);
      jmp(*back, T_NEAR);
    });
  }
  void whole_group(const Access& a, const Label& otherwise) {
    kmovw(eax, a.lanes);
    cmp(eax, 0xFFFF);
    jne(otherwise, T_NEAR);
  }
  // Access of a lane that is off must not be made, so registers are loaded and stored under the
  // mask.
  void move_window(const Access& a) {
    if (a.count == 1) {
      if (a.store)
        store_window(a);
      else if (a.guarded)
        vmovups(Zmm(a.data[0]) | a.lanes, memory_at(a, 0));
      else
        vmovups(Zmm(a.data[0]) | a.lanes | T_z, memory_at(a, 0));
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
  void store_window(const Access& a) {
    auto masked = std::make_shared<Label>(), back = std::make_shared<Label>();
    if (a.guarded) {
      kmovw(eax, a.lanes);
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
      vmovups(memory_at(a, 0) | a.lanes, Zmm(a.data[0]));
      jmp(*back, T_NEAR);
    });
  }
  auto table(int n) { return ptr[rbp + CONTEXT(interleave) + 64 * n]; }
  void deinterleave(const Access& a) {
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
  void interleave(const Access& a) {
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
  void pack(const Access& a) {
    permute(30, 2, a.data[0], a.data[2]);
    permute(29, 2, a.data[1], a.data[3]);
    permute(28, 3, a.data[0], a.data[2]);
    permute(31, 3, a.data[1], a.data[3]);
    for (int q = 0; q < 2; ++q) permute(a.data[q], 2 + q, 30, 29);
    for (int q = 0; q < 2; ++q) permute(a.data[2 + q], 2 + q, 28, 31);
  }
  void unpack(const Access& a) {
    for (int e = 0; e < 2; ++e) permute(30 - 2 * e, e, a.data[0], a.data[1]);
    permute(29, 0, a.data[2], a.data[3]);
    permute(31, 1, a.data[2], a.data[3]);
    for (int h = 0; h < 2; ++h) permute(a.data[2 * h], h, 30, 29);
    for (int h = 0; h < 2; ++h) permute(a.data[1 + 2 * h], h, 28, 31);
  }

  // All lanes at one address.
  void one_place(const Access& a, const Label& otherwise) {
    if (a.root == kNoValue) {
      xor_(eax, eax);
    } else {
      first_of(a.root_register, 0);
    }
    add_terms(a);
    extended(a);
    check_single(a, otherwise);
    if (a.store) {
      // The last lane wins.
      jmp(otherwise, T_NEAR);
      return;
    }
    broadcast(a);
  }
};

}  // namespace driftc::runtime::ptx::avx512
