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
  Accesses(const BoundProgram& bound, UnitValues values, std::uint32_t first_access,
           std::vector<JitAccess>& accesses, std::uint8_t* buffer)
      : Families(bound, std::move(values), buffer),
        next_access_(first_access),
        accesses_(accesses) {
    first_id_ = first_access;
  }

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
      } else {
        jmp(*otherwise, T_NEAR);
      }
    }
    L(*back);
    later_.push_back([this, a, back, otherwise] {
      L(*otherwise);
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
  // ---- the fast form
  // A unit's code for groups whose accesses all are as when it was translated: the proof of a
  // family goes to the general form when it fails, which begins the group again. That is possible
  // as long as the group has stored nothing, or only what it does not read: that is stored again.
  // A family of one costs as much in either form, unless its lanes are two apart.
  bool wants_fast_form() {
    if (v_.uniform) return false;
    rereads_shared_ = std::any_of(v_.insts.begin(), v_.insts.end(), [](const LocalInst& i) {
      return i.inst->op == Op::kLoad && i.inst->memory.space == Space::kShared;
    });
    return std::any_of(families_.begin(), families_.end(), [&](const Family& f) {
      const Shape guess = value(f.root).guess;
      return f.members > 1 || (guess.is_linear() && guess.step == 2 && !f.store);
    });
  }
  bool lasting(const Access& a) const { return a.store && (!a.shared || rereads_shared_); }
  void begin_fast() {
    fast_ = true;
    looked_before_ = looked_.size();
    cmp(dword[rbp + misses_at()], 0);
    jne(careful_, T_NEAR);
    L(try_);
    test(r10d, 1);  // the first lane stands for all
    jz(general_, T_NEAR);
  }
  void end_fast() {
    fast_ = false;
    jmp(next_, T_NEAR);
  }
  // Groups that do not fit cost a part of the fast form, so it is left alone for a while when more
  // than one in six did not.
  void general_entry() {
    L(careful_);
    dec(dword[rbp + misses_at()]);
    cmp(dword[rbp + misses_at()], 32);
    jb(try_, T_NEAR);
    jmp(general_, T_NEAR);
    L(missed_);
    add(dword[rbp + misses_at()], 5);
    L(general_);
  }
  void restart_accesses() {
    next_access_ = first_id_;
    looked_.resize(looked_before_);
    flag_of_.clear();
    for (Range& r : ranges_) r.slot = -1;
    stores_made_ = false;
    pointers_used_ = 0;
    slot_in_rdx_ = -1;
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
    if (blend)
      vpblendmd(d | mask(i.guard), zmm29,
                ptr_b[rbx + static_cast<int>(file(value(i.old[0]).reg).offset)]);
    return true;
  }
  // Once per run of the unit: where what was assumed does not hold, the general form is for all
  // groups. The counter of misses says so, and is put back when the assumptions hold again.
  void check_assumptions() {
    if (v_.assumptions.empty()) return;
    constexpr int kNever = 1 << 30;
    Label differ, done;
    for (const Assumption& a : v_.assumptions) {
      cmp(dword[rbx + static_cast<int>(file(a.reg).offset)], static_cast<int>(a.bits));
      jne(differ);
    }
    cmp(dword[rbp + misses_at()], kNever / 2);
    jb(done);
    mov(dword[rbp + misses_at()], 0);
    jmp(done);
    L(differ);
    mov(dword[rbp + misses_at()], kNever);
    L(done);
  }
  int misses_at() const {
    return static_cast<int>(sizeof(JitContext) + own_access() * sizeof(JitCache) +
                            offsetof(JitCache, misses));
  }
  std::size_t own_access() const { return first_id_ + family_of_.size(); }
  bool is_zero(ValueId v) const {
    const Value& x = value(v);
    return x.from == Value::From::kUniform && code_.regs[x.reg].is_constant &&
           code_.regs[x.reg].bits == 0;
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
    if (!splat)
      move_window(member(f, a));
    else if (a.store)
      jmp(*otherwise, T_NEAR);  // the last lane wins
    else
      broadcast(member(f, a));
    L(*back);
    const int flag = f.look >= 0 ? flag_slot(f.look) : -1;
    later_.push_back([this, f, a, splat, flag, back, otherwise] {
      Label alone, scattered_lanes;
      L(*otherwise);
      if (!splat && !a.store) {
        mov(rcx, second_at(f.slot));
        test(rcx, rcx);
        jz(alone, T_NEAR);
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
  // Shared accesses that differ in their constant offset only are checked together, once: rcx = the
  // place in this process that the first lane's address stands for, 0 when one of them may not be
  // made as a window. False: they have no common pointer.
  bool shared_pointer(const Access& a, int root) {
    const Range* range = nullptr;
    for (const Range& r : ranges_)
      if (r.index_root == a.root && r.addends == a.addends && r.constant == a.constant &&
          r.log_count == a.log_count)
        range = &r;
    const int bytes = 4 << a.log_count;
    if (!range || range->count < 2 || (range->bits & (bytes - 1)) != 0) return false;
    const auto n = static_cast<std::size_t>(range - ranges_.data());
    const int at = CONTEXT(roots) + range->slot * static_cast<int>(sizeof(JitContext::Root));
    if (ranges_[n].slot >= 0) {
      mov(rcx, ptr[rbp + at]);
      return true;
    }
    ranges_[n].slot = take_slot();
    if (ranges_[n].slot < 0) return false;
    Access base = a;
    base.offset = 0;
    Label bad, good;
    place_of_first(base, root, flag_slot(root), bad);
    for (const std::int64_t offset : {range->low, range->high}) {
      lea(rdx, ptr[rcx + static_cast<int>(offset)]);
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + CONTEXT(shared_window) + 8 * a.log_count]);
      jae(bad);
    }
    add(rcx, r13);
    jmp(good);
    L(bad);
    xor_(ecx, ecx);
    L(good);
    mov(ptr[rbp + CONTEXT(roots) + ranges_[n].slot * static_cast<int>(sizeof(JitContext::Root))],
        rcx);
    return true;
  }
  // What shared_pointer() needs to know before the first access.
  void find_ranges() {
    for (const LocalInst& i : v_.insts) {
      if (!i.emit || (i.inst->op != Op::kLoad && i.inst->op != Op::kStore) ||
          i.inst->memory.space != Space::kShared)
        continue;
      const Value& x = value(i.src[0]);
      if (value(x.root).from == Value::From::kUniform) continue;
      const int log_count = i.inst->memory.count == 4 ? 2 : i.inst->memory.count - 1;
      if (i.inst->imm < -(1 << 20) || i.inst->imm > (1 << 20)) continue;
      Range* found = nullptr;
      for (Range& r : ranges_)
        if (r.index_root == x.root && r.addends == x.addends && r.constant == x.constant &&
            r.log_count == log_count)
          found = &r;
      if (!found) {
        ranges_.push_back({x.root, x.addends, x.constant, log_count, i.inst->imm, i.inst->imm});
        found = &ranges_.back();
      }
      found->low = std::min(found->low, i.inst->imm);
      found->high = std::max(found->high, i.inst->imm);
      found->bits |= static_cast<std::uint64_t>(i.inst->imm);
      ++found->count;
    }
  }
  void check_window(const Access& a, const Label& otherwise) {
    mov(rdx, rcx);
    if (a.shared) {
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + CONTEXT(shared_window) + 8 * a.log_count]);
    } else {
      sub(rdx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, window))]);
    }
    jae(otherwise, T_NEAR);
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
  // Vectors of four that are only stored again, as they were loaded, stay in the order of memory.
  void find_packed() {
    packed_.assign(v_.insts.size(), 0);
    for (std::size_t n = 0; n < v_.insts.size(); ++n) {
      const LocalInst& load = v_.insts[n];
      if (load.inst->op != Op::kLoad || load.inst->memory.count != 4) continue;
      const auto& uses = value(load.dst[0]).uses;
      if (uses.size() != 1 || uses[0] >= static_cast<std::int32_t>(v_.insts.size())) continue;
      const auto at = static_cast<std::size_t>(uses[0]);
      const LocalInst& store = v_.insts[at];
      bool same = store.inst->op == Op::kStore && store.inst->memory.count == 4;
      for (int e = 0; same && e < 4; ++e)
        same = store.src[1 + e] == load.dst[e] && value(load.dst[e]).uses == uses;
      if (same) packed_[n] = packed_[at] = 1;
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

  struct Range {
    ValueId index_root;
    std::vector<Reg> addends;
    std::uint32_t constant;
    int log_count;
    std::int64_t low, high;
    std::uint64_t bits = 0;
    int count = 0;
    int slot = -1;
  };

  bool has_fast_form_ = false;
  bool stores_made_ = false;  // lasting ones, before the running instruction
  bool rereads_shared_ = false;
  std::size_t looked_before_ = 0;
  Label careful_, try_, missed_, general_;
  std::uint32_t next_access_;
  std::vector<JitAccess>& accesses_;
  std::vector<Range> ranges_;
  std::vector<char> packed_;  // by instruction
};

}  // namespace driftc::runtime::ptx::avx512
