// Loads and stores of segments: whether the lanes are in line is proved, or looked at once per
// value that says how they differ; then one check of the place serves all 16 lanes. Private to
// runtime/ptx.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_scattered_avx512.h"

namespace driftc::runtime::ptx::avx512 {

class Accesses : public ScatteredAccesses {
 public:
  Accesses(const BoundProgram& bound, UnitValues values, std::uint32_t first_access,
           std::vector<JitAccess>& accesses, std::uint8_t* buffer)
      : ScatteredAccesses(bound, std::move(values), buffer),
        next_access_(first_access),
        accesses_(accesses) {}

 protected:
  void access(LocalInst& i) {
    const Inst& inst = *i.inst;
    Access a;
    a.id = next_access_++;
    a.store = inst.op == Op::kStore;
    a.shared = inst.memory.space == Space::kShared;
    a.count = inst.memory.count;
    a.log_count = a.count == 4 ? 2 : a.count - 1;
    a.offset = inst.imm;
    a.guarded = i.guard != kNoValue;
    const Value& address = value(i.src[0]);
    if (a.shared) {
      a.index = i.src[0];
    } else if (address.is_address) {
      a.index = address.index;
      a.sign = address.sign;
      a.shift = address.shift;
      a.bases = address.bases;
      a.offset += address.offset;
    } else {
      a.wide = true;
    }
    if (a.index != kNoValue) {
      const Value& x = value(a.index);
      a.root = x.root;
      a.addends = x.addends;
      a.constant = x.constant;
      if (value(a.root).from == Value::From::kUniform) {
        a.addends.push_back(value(a.root).reg);
        a.root = kNoValue;
      }
    }
    a.packed = packed_[static_cast<std::size_t>(now_)];
    accesses_[a.id] = {&inst, static_cast<std::uint8_t>(a.shift), a.sign, a.store, a.wide};
    if (a.offset != static_cast<std::int32_t>(a.offset)) {
      failed_ = true;
      return;
    }

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
    auto back = std::make_shared<Label>(), otherwise = std::make_shared<Label>();
    if (!a.wide && (a.root == kNoValue || value(a.root).shape.is_splat())) {
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
        place_of_first(a, root, *otherwise);
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
  // As look(), but does not look at what is proved, and only once at values that differ by what all
  // lanes share.
  int in_line(ValueId v, int log_step) {
    const Value& x = value(v);
    if (log_step < 0 || log_step > 4) return -1;
    if (!x.shape.is_linear() && x.pattern == v) return look(v, log_step);
    if (x.shape.is_linear() && x.shape.step != 1 << log_step) return -1;
    for (std::size_t n = 0; n < looked_.size(); ++n)
      if (looked_[n].first == v && looked_[n].second == log_step) return static_cast<int>(n);
    int pattern = -1;
    if (!x.shape.is_linear()) {
      pattern = look(x.pattern, log_step);
      if (pattern < 0) return -1;
    }
    if (looked_.size() == JitContext::kRoots) return -1;
    const int n = static_cast<int>(looked_.size());
    looked_.emplace_back(v, log_step);
    const int at = CONTEXT(roots) + n * static_cast<int>(sizeof(JitContext::Root));
    vpsubd(zmm30, vec(v), ptr[rbp + CONTEXT(lanes) + 64 * log_step]);
    vpcompressd(zmm29 | k1 | T_z, zmm30);
    vmovd(dword[rbp + at], Xbyak::Xmm(29));
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
    vpcompressd(zmm29 | k1 | T_z, zmm30);
    vpbroadcastd(zmm29, Xbyak::Xmm(29));
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
  int look_wide(const Access& a) {
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
    if (looked_.size() == JitContext::kRoots) return false;
    ranges_[n].slot = static_cast<int>(looked_.size());
    looked_.emplace_back(kNoValue, 0);
    Access base = a;
    base.offset = 0;
    Label bad, good;
    place_of_first(base, root, bad);
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
  // rcx = address (global), offset (shared) of lane 0's access; -1 when the lanes are not in line.
  void place_of_first(const Access& a, int root, const Label& otherwise) {
    const int at = CONTEXT(roots) + root * static_cast<int>(sizeof(JitContext::Root));
    if (a.wide) {
      mov(rcx, ptr[rbp + at]);
      if (a.offset) add(rcx, static_cast<int>(a.offset));
    } else {
      mov(eax, dword[rbp + at]);
      add_terms(a);
      if (!a.shared) {
        // The index of the last lane must not wrap, or it would be extended to something else.
        const int reach = 15 << (a.log_count + 2 - a.shift);
        if (a.sign) {
          cmp(eax, 0x7FFFFFFF - reach);
          jg(otherwise, T_NEAR);
        } else {
          cmp(eax, static_cast<int>(0xFFFFFFFFu - static_cast<std::uint32_t>(reach)));
          ja(otherwise, T_NEAR);
        }
      }
      extended(a);
    }
    const auto flag = flag_of_.find(root);
    if (flag == flag_of_.end()) {
      or_(rcx, ptr[rbp + at + 8]);
    } else if (flag->second >= 0) {
      or_(rcx, ptr[rbp + CONTEXT(roots) +
                   flag->second * static_cast<int>(sizeof(JitContext::Root)) + 8]);
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
      vpcompressd(zmm29 | k1 | T_z, Zmm(a.root_register));
      vmovd(eax, Xbyak::Xmm(29));
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

  std::uint32_t next_access_;
  std::vector<JitAccess>& accesses_;
  // Places in context.roots: of values that were looked at, or (no value) of other things.
  std::vector<std::pair<ValueId, int>> looked_;
  std::vector<Range> ranges_;
  std::vector<char> packed_;    // by instruction
  std::map<int, int> flag_of_;  // root -> the root whose flag it shares, -1: in line by proof
};

}  // namespace driftc::runtime::ptx::avx512
