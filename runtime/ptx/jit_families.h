// Accesses to global memory whose addresses differ by what all lanes share: the taps of a window,
// the rows of a tile. One proof per group, that the lowest and the highest of them lie in the
// buffer, serves the whole family; an access is then one instruction. Lanes two elements apart (a
// window with stride 2) are two loads and a permutation. Whatever the instruction set. Private to
// runtime/ptx.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/ptx/jit_addresses.h"

namespace driftc::runtime::ptx::segment {

// Hold addresses through a group's run.
inline const Xbyak::Reg64 kPointers[] = {rsi, rdi, r11};

class Families : public Addresses {
 public:
  using Addresses::Addresses;

 protected:
  // Members with the same uniform registers in their index.
  struct Row {
    std::vector<Reg> addends;
    std::int64_t low = 0, high = 0;  // displacements of its members, in bytes
    int slot = -1;                   // holds the bytes its registers add
  };
  struct Family {
    ValueId root = kNoValue;
    std::vector<Reg> bases;
    bool sign = true, store = false;
    std::uint32_t leader = 0;  // the access whose cache holds the buffer
    std::int32_t lowest = 0;   // of the constants in indices
    std::size_t members = 0;
    std::vector<Row> rows;
    int look = -1;    // slot: whether lanes are in line
    int bounds = -1;  // slot: lowest and highest displacement of all rows, in bytes
    int slot = -1;    // address of lane 0 for lanes in line; for lanes two apart; 0: neither
    // In the fast form of a unit.
    bool proven = false, apart = false;
    int pointer = -1;  // index into kPointers, or the address is in `slot`
  };

  // ---- what the instruction set does
  // The slot of what lane 0 of a value has, or would have, if lanes in line follow each other by
  // 1 << log_step; whether they do is in flag_slot(). -1: they do not, or there is no room.
  virtual int in_line(ValueId v, int log_step) = 0;
  // eax = what all lanes have (log_step 0), or what lane 0 would have if lanes were 1 << log_step
  // apart.
  virtual void first_of(int root_register, int log_step) = 0;
  // The same for lanes two apart; goes to `otherwise` when they are not.
  virtual void two_apart(int root_register, const Label& otherwise) = 0;

  // Before the first access: who belongs together.
  void find_families() {
    std::uint32_t next = first_id_;
    for (const LocalInst& i : v_.insts) {
      if (i.inst->op != Op::kLoad && i.inst->op != Op::kStore) continue;
      const std::uint32_t id = next++;
      family_of_.push_back(-1);
      const AccessPlan a = plan_access(i, id);
      if (a.shared || a.wide || a.count != 1 || a.root == kNoValue || a.shift != 2) continue;
      const auto constant = static_cast<std::int32_t>(a.constant);
      if (constant < -kReach || constant > kReach || a.offset < -kReach || a.offset > kReach ||
          a.offset % 4 != 0)
        continue;
      const std::int64_t at = displacement(a);
      const auto same = std::find_if(families_.begin(), families_.end(), [&](const Family& f) {
        return f.root == a.root && f.bases == a.bases && f.sign == a.sign && f.store == a.store &&
               (a.sign || f.rows[0].addends == a.addends);
      });
      if (same == families_.end()) {
        families_.push_back({.root = a.root,
                             .bases = a.bases,
                             .sign = a.sign,
                             .store = a.store,
                             .leader = id,
                             .lowest = constant,
                             .members = 1,
                             .rows = {{a.addends, at, at}}});
        family_of_.back() = static_cast<int>(families_.size()) - 1;
        continue;
      }
      ++same->members;
      same->lowest = std::min(same->lowest, constant);
      Row& row = row_of(*same, a);
      row.low = std::min(row.low, at);
      row.high = std::max(row.high, at);
      family_of_.back() = static_cast<int>(same - families_.begin());
    }
  }

  // Once per run of the unit: what the uniform registers add, and the bounds over all rows.
  void family_bounds() {
    for (Family& f : families_) {
      if (f.rows.size() < 2) continue;
      f.bounds = take_slot();
      for (Row& row : f.rows) row.slot = take_slot();
      if (f.rows.back().slot < 0) {
        f.members = 0;  // no room: its accesses are checked one by one, never together
        continue;
      }
      Label bad, done;
      for (std::size_t n = 0; n < f.rows.size(); ++n) {
        const Row& row = f.rows[n];
        sum_of(row.addends);
        movsxd(rcx, eax);
        lea(rdx, ptr[rcx + kReach]);
        cmp(rdx, 2 * kReach);
        jae(bad, T_NEAR);
        shl(rcx, 2);
        mov(first_at(row.slot), rcx);
        lea(rdx, ptr[rcx + static_cast<int>(row.low)]);
        lea(rcx, ptr[rcx + static_cast<int>(row.high)]);
        if (n == 0) {
          mov(r8, rdx);
          mov(r9, rcx);
        } else {
          cmp(rdx, r8);
          cmovl(r8, rdx);
          cmp(rcx, r9);
          cmovg(r9, rcx);
        }
      }
      jmp(done);
      L(bad);
      mov(r8, std::uint64_t{1} << 62);  // from here no buffer is reached
      mov(r9, r8);
      L(done);
      mov(first_at(f.bounds), r8);
      mov(second_at(f.bounds), r9);
    }
  }

  Family* family(const AccessPlan& a) {
    const int n = family_of_[a.id - first_id_];
    if (n < 0 || families_[static_cast<std::size_t>(n)].members == 0) return nullptr;
    return &families_[static_cast<std::size_t>(n)];
  }

  // rcx = the address that the family's displacements count from, 0 when its accesses are not to be
  // made as windows. False: there is no room for it.
  bool family_pointer(Family& f, const AccessPlan& a) {
    if (f.slot >= 0) {
      mov(rcx, first_at(f.slot));
      return true;
    }
    const Shape known = shape(f.root);
    const bool splat = known.is_splat();
    const bool apart = known.is_linear() && known.step == 2;
    if (!splat && !apart) {
      f.look = in_line(f.root, 0);
      if (f.look < 0) return false;
    }
    const int slot = take_slot();
    if (slot < 0) return false;
    f.slot = slot;
    auto bad = std::make_shared<Label>(), scattered = std::make_shared<Label>(),
         good = std::make_shared<Label>();
    if (apart) {
      jmp(*scattered, T_NEAR);
    } else {
      if (splat)
        first_of(a.root_register, 0);
      else
        first_word(f.look);
      const int looked = splat ? -1 : flag_slot(f.look);
      if (looked >= 0) {
        cmp(qword[rbp + (slot_at(looked) + 8)], 0);
        jne(*scattered, T_NEAR);
      }
      address(f, a, splat, 0, *bad);
    }
    L(*good);
    mov(first_at(f.slot), rcx);
    later_.push_back([this, f, a, splat, bad, scattered, good] {
      L(*scattered);
      if (!splat && !f.store) {
        two_apart(a.root_register, *bad);
        address(f, a, false, 4 * lanes_, *bad);
        mov(second_at(f.slot), rcx);
        xor_(ecx, ecx);
        jmp(*good, T_NEAR);
      }
      L(*bad);
      xor_(ecx, ecx);
      mov(second_at(f.slot), rcx);
      jmp(*good, T_NEAR);
    });
    return true;
  }
  // The access by the family's address in rcx; rdx = what its row adds.
  template <class Access>
  Access member(const Family& f, const Access& a) {
    Access direct = a;
    direct.pointer = true;
    if (f.pointer >= 0) direct.at = kPointers[f.pointer];
    direct.offset = displacement(a);
    if (f.rows.size() > 1) {
      direct.indexed = true;
      const int slot = row_slot(f, a);
      if (slot != slot_in_rdx_) mov(rdx, first_at(slot));
      slot_in_rdx_ = slot;
    }
    return direct;
  }
  // Code that goes to `otherwise` unless all accesses of the family may be made as windows (or,
  // when all lanes are at one place, there); its address is then where member() expects it. False:
  // that cannot be hoped for.
  bool prove(Family& f, const AccessPlan& a, const Label& otherwise) {
    const Shape guess = value(f.root).guess;
    const bool splat = shape(f.root).is_splat();
    f.apart = !splat && guess.is_linear() && guess.step == 2 && !f.store;
    if (!splat && !f.apart && !(guess.is_linear() && guess.step == 1)) return false;
    const bool known = shape(f.root).is_linear();
    if (!known) {
      f.look = in_line(f.root, f.apart ? 1 : 0);
      if (f.look < 0) return false;
    }
    slot_in_rdx_ = -1;
    if (pointers_used_ == std::size(kPointers)) {
      f.slot = take_slot();
      if (f.slot < 0) return false;
    } else {
      f.pointer = static_cast<int>(pointers_used_++);
    }
    // What is known holds for all 16 lanes, so the first half's proof serves the second one too.
    const bool both = known && halves_;
    const int vector = splat ? 0 : (f.apart ? 8 : 4) * lanes_;
    Label first, done;
    if (both) {
      test(r12d, 1);
      jz(first, T_NEAR);
      if (f.pointer >= 0)
        add(kPointers[f.pointer], vector);
      else
        add(qword[rbp + slot_at(f.slot)], vector);
      jmp(done, T_NEAR);
      L(first);
    }
    if (known) {
      first_of(a.root_register, 0);
    } else {
      first_word(f.look);
      const int looked = flag_slot(f.look);
      if (looked >= 0) {
        cmp(qword[rbp + (slot_at(looked) + 8)], 0);
        jne(otherwise, T_NEAR);
      }
    }
    address(f, a, splat, (f.apart ? 4 * lanes_ : 0) + (both ? vector : 0), otherwise);
    if (f.pointer >= 0)
      mov(kPointers[f.pointer], rcx);
    else
      mov(first_at(f.slot), rcx);
    L(done);
    return f.proven = true;
  }

  std::vector<std::function<void()>> later_;  // code behind the loop over groups
  std::uint32_t first_id_ = 0;                // of the unit's accesses
  std::vector<Family> families_;
  std::vector<int> family_of_;  // by access, -1: none
  std::size_t pointers_used_ = 0;
  int slot_in_rdx_ = -1;  // of a row, in straight code
  bool halves_ = false;   // the fast form proves for both halves of a group at once

 private:
  // Indices and displacements stay below this, so that no sum of them wraps.
  static constexpr int kReach = 1 << 26;

  static std::int64_t displacement(const AccessPlan& a) {
    return static_cast<std::int64_t>(static_cast<std::int32_t>(a.constant)) * (1 << a.shift) +
           a.offset;
  }
  static Row& row_of(Family& f, const AccessPlan& a) {
    for (Row& row : f.rows)
      if (row.addends == a.addends) return row;
    const std::int64_t at = displacement(a);
    return f.rows.emplace_back(Row{a.addends, at, at});
  }
  static int row_slot(const Family& f, const AccessPlan& a) {
    for (const Row& row : f.rows)
      if (row.addends == a.addends) return row.slot;
    return f.rows[0].slot;
  }
  // eax = the sum.
  void sum_of(const std::vector<Reg>& addends) {
    xor_(eax, eax);
    for (Reg r : addends) add(eax, dword[rbx + static_cast<int>(file(r).offset)]);
  }
  // eax = index of lane 0 -> rcx = its address. `more`: bytes that a window needs besides a vector.
  void address(const Family& f, const AccessPlan& a, bool splat, int more, const Label& bad) {
    const bool one_row = f.rows.size() < 2;
    if (one_row)
      for (Reg r : f.rows[0].addends) add(eax, dword[rbx + static_cast<int>(file(r).offset)]);
    lea(edx, ptr[rax + 0x40000000]);
    test(edx, edx);
    js(bad, T_NEAR);
    if (!f.sign) {
      lea(edx, ptr[rax + f.lowest]);
      test(edx, edx);
      js(bad, T_NEAR);
    }
    AccessPlan base = a;
    base.offset = 0;
    extended(base);
    const auto limit = splat ? offsetof(JitCache, single) : offsetof(JitCache, window);
    const auto places = ptr[rbp + cache_field(f.leader, limit)];
    auto place_of_rdx = [&] {
      sub(rdx, ptr[rbp + cache_field(f.leader, offsetof(JitCache, begin))]);
      ror(rdx, 2);
      cmp(rdx, places);
      jae(bad, T_NEAR);
    };
    if (one_row) {
      lea(rdx, ptr[rcx + static_cast<int>(f.rows[0].low)]);
      place_of_rdx();
      // Displacements are multiples of an element.
      const std::int64_t span = f.rows[0].high - f.rows[0].low + more;
      if (span == 0) return;
      add(rdx, static_cast<int>(span / 4));
      cmp(rdx, places);
      jae(bad, T_NEAR);
      return;
    }
    for (int end = 0; end < 2; ++end) {
      mov(rdx, end ? second_at(f.bounds) : first_at(f.bounds));
      if (end && more)
        lea(rdx, ptr[rcx + rdx + more]);
      else
        add(rdx, rcx);
      place_of_rdx();
    }
  }
};

}  // namespace driftc::runtime::ptx::segment
