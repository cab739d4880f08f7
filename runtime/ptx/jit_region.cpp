// Regions (region.h) as machine code: one tile of sums in vector registers through all steps,
// multiplicands read where they lie. How the lanes see an address is looked at when the code is
// made and checked by the code for every group, before anything is written; a group that looks
// different is left to the interpreter.
#if defined(__x86_64__)

#include <xbyak/xbyak.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "runtime/ptx/jit_emit.h"

namespace driftc::runtime::ptx {
namespace {

using namespace Xbyak::util;
using Xbyak::Label;
using Xbyak::Xmm;
using Xbyak::Ymm;
using Xbyak::Zmm;

constexpr std::size_t kCodeBytes = 256 * 1024;
// Longer runs of steps become a loop, so that code stays in the instruction cache.
constexpr std::size_t kMaxUnrolledFmas = 1600;
constexpr std::uint32_t kLoopSteps = 8;

#define CONTEXT(field) static_cast<int>(offsetof(JitContext, field))

// How `lanes` lanes see a base.
struct Seen {
  BaseForm form = BaseForm::kSplat;
  std::int32_t low = 0, high = 0;  // of the lanes' addresses relative to lane 0
  std::vector<std::int32_t> relative;
};

class RegionCode : public Xbyak::CodeGenerator {
 public:
  RegionCode(const BoundRegion& region, const Frame& frame, std::uint32_t group, bool avx512,
             std::uint8_t* buffer)
      : Xbyak::CodeGenerator(kCodeBytes, buffer),
        region_(region),
        avx512_(avx512),
        lanes_(avx512 ? 16 : 8),
        halves_(avx512 ? 1 : 2) {
    for (std::uint32_t h = 0; h < halves_; ++h)
      for (const BoundRegion::Base& b : region.bases) seen_.push_back(look(b, frame, group, h));
    joined_ = halves_ == 2 && can_join(frame, group);
  }

  bool run() {
    for (const BoundRegion::Base& b : region_.bases)
      if (b.is_address && (b.offset_bits & 3)) return false;
    for (const auto& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    mov(rbp, rdi);
    mov(rbx, ptr[rbp + CONTEXT(regs)]);
    mov(r13, ptr[rbp + CONTEXT(shared)]);
    mov(r12, ptr[rbp + CONTEXT(first)]);
    mov(r15, r12);
    shl(r15, 6);
    Label next, leave;
    L(next);
    for (std::uint32_t h = 0; h < halves_; ++h)
      for (std::size_t b = 0; b < region_.bases.size(); ++b) check(h, b, leave);
    inc(r12);
    add(r15, 64);
    cmp(r12, ptr[rbp + CONTEXT(last)]);
    jb(next, T_NEAR);
    L(leave);
    // Tile by tile: what all groups read for one fits the data cache sooner than what one group
    // reads for all.
    const auto end = ptr[rbp + CONTEXT(mask)];
    mov(end, r12);
    Label done;
    cmp(r12, ptr[rbp + CONTEXT(first)]);
    je(done, T_NEAR);
    for (const BoundRegion::Tile& t : region_.tiles) {
      Label group;
      mov(r12, ptr[rbp + CONTEXT(first)]);
      mov(r15, r12);
      shl(r15, 6);
      L(group);
      if (&t == region_.tiles.data()) bring_in();
      if (joined_) {
        joined_tile(t);
        add(r15, 64);
      } else if (halves_ == 2 && halves_alike()) {
        // One code for both: it fits the cache of instructions.
        Label half;
        L(half);
        tile(t, 0);
        add(r15, 32);
        test(r15d, 32);
        jnz(half, T_NEAR);
      } else {
        for (std::uint32_t h = 0; h < halves_; ++h) tile(t, h);
        add(r15, 64);
      }
      inc(r12);
      cmp(r12, end);
      jb(group, T_NEAR);
    }
    L(done);
    mov(rax, end);
    for (const auto& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    ret();
    for (const auto& out_of_line : later_) out_of_line();
    align(64);
    for (auto& [label, words] : tables_) {
      L(*label);
      for (std::uint32_t w : words) dd(w);
    }
    return true;
  }

 private:
  Xmm vec(int i) const { return avx512_ ? static_cast<Xmm>(Zmm(i)) : static_cast<Xmm>(Ymm(i)); }
  // Behind the sums of a tile.
  int first_temporary(std::size_t sums) const { return avx512_ ? 16 : static_cast<int>(sums); }

  Seen look(const BoundRegion::Base& b, const Frame& frame, std::uint32_t group,
            std::uint32_t half) const {
    Seen s;
    if (b.place.mask == 0) return s;
    s.form = BaseForm::kVector;
    if (!b.is_address) return s;
    const auto* a = reinterpret_cast<const std::uint32_t*>(frame.regs + b.place.offset) +
                    group * kGroupLanes + half * lanes_;
    bool same = true, consecutive = true;
    for (std::uint32_t j = 0; j < lanes_; ++j) {
      const std::int32_t r = static_cast<std::int32_t>(a[j] - a[0]);
      s.relative.push_back(r);
      s.low = std::min(s.low, r);
      s.high = std::max(s.high, r);
      same &= r == 0;
      consecutive &= r == static_cast<std::int32_t>(4 * j);
    }
    s.form = same ? BaseForm::kSplat : consecutive ? BaseForm::kVector : BaseForm::kPattern;
    return s;
  }
  bool halves_alike() const {
    const auto middle = seen_.begin() + static_cast<std::ptrdiff_t>(region_.bases.size());
    return std::equal(seen_.begin(), middle, middle, [](const Seen& a, const Seen& b) {
      return a.form == b.form && a.relative == b.relative;
    });
  }
  // Both halves of a group have the same values.
  bool is_shared(const BoundRegion::Base& b, const Frame& frame, std::uint32_t group) const {
    if (b.place.mask == 0) return true;
    if (!b.is_address) return false;
    const auto* a =
        reinterpret_cast<const std::uint32_t*>(frame.regs + b.place.offset) + group * kGroupLanes;
    return std::equal(a, a + lanes_, a + lanes_);
  }
  // Every tile has a side that both halves see alike: then they are one tile with the other side
  // twice as long, which needs fewer registers for multiplicands than two.
  bool can_join(const Frame& frame, std::uint32_t group) {
    for (const BoundRegion::Base& b : region_.bases) shared_.push_back(is_shared(b, frame, group));
    const bool patterns = std::any_of(seen_.begin(), seen_.end(), [](const Seen& s) {
      return s.form == BaseForm::kPattern && !repeats(s, 4);
    });
    return !patterns &&
           std::all_of(region_.tiles.begin(), region_.tiles.end(), [&](const BoundRegion::Tile& t) {
             return side_shared(t.a) || side_shared(t.b);
           });
  }
  bool side_shared(const BoundRegion::Side& side) const {
    return std::all_of(side.bases_used.begin(), side.bases_used.end(),
                       [&](std::uint32_t b) { return shared_[b]; });
  }
  const Seen& seen(std::uint32_t half, std::size_t base) const {
    return seen_[half * region_.bases.size() + base];
  }

  Xbyak::Address table(std::vector<std::uint32_t> words) {
    for (auto& [label, have] : tables_)
      if (have == words) return ptr[rip + *label];
    tables_.emplace_back(std::make_unique<Label>(), std::move(words));
    return ptr[rip + *tables_.back().first];
  }
  Xbyak::Address in_file(const Place& p, std::uint32_t half) const {
    const int at = static_cast<int>(p.offset);
    return p.mask == 0 ? ptr[rbx + at] : ptr[rbx + r15 + (at + static_cast<int>(half) * 32)];
  }
  Xbyak::Address dword_in_file(const Place& p, std::uint32_t half) const {
    const int at = static_cast<int>(p.offset);
    return p.mask == 0 ? dword[rbx + at] : dword[rbx + r15 + (at + static_cast<int>(half) * 32)];
  }

  // This group's share of the lines that the next segments will read.
  void bring_in() {
    Label more, enough;
    mov(rcx, ptr[rbp + CONTEXT(ahead_next)]);
    mov(rdx, ptr[rbp + CONTEXT(ahead_each)]);
    add(rdx, rcx);
    mov(rax, ptr[rbp + CONTEXT(ahead_count)]);
    cmp(rdx, rax);
    cmova(rdx, rax);
    mov(ptr[rbp + CONTEXT(ahead_next)], rdx);
    L(more);
    cmp(rcx, rdx);
    jae(enough);
    mov(rax, ptr[rbp + rcx * 8 + CONTEXT(ahead)]);
    prefetcht1(ptr[rax]);
    inc(rcx);
    jmp(more);
    L(enough);
  }

  // The base looks as expected and all its loads lie in shared memory.
  void check(std::uint32_t half, std::size_t base, const Label& leave) {
    const BoundRegion::Base& b = region_.bases[base];
    if (!b.is_address) return;
    const Seen& s = seen(half, base);
    mov(eax, in_file(b.place, half));
    if (joined_ && half == 1 && shared_[base]) {
      cmp(eax, in_file(b.place, 0));
      jne(leave, T_NEAR);
    }
    if (b.place.mask != 0) {
      const Xmm a = vec(0), expected = vec(1);
      vpbroadcastd(expected, in_file(b.place, half));
      if (s.form != BaseForm::kSplat) {
        std::vector<std::uint32_t> words(s.relative.begin(), s.relative.end());
        vpaddd(expected, expected, table(std::move(words)));
      }
      if (avx512_) {
        vpcmpeqd(k1, expected, in_file(b.place, half));
        kortestw(k1, k1);
        jnc(leave, T_NEAR);
      } else {
        vpcmpeqd(a, expected, in_file(b.place, half));
        vmovmskps(ecx, Ymm(0));
        cmp(ecx, 0xFF);
        jne(leave, T_NEAR);
      }
    }
    test(al, 3);
    jnz(leave, T_NEAR);
    movsxd(rax, eax);
    mov(rcx, rax);
    add(rcx, b.min_offset + s.low);
    js(leave, T_NEAR);
    lea(rcx, ptr[rax + (b.max_offset + s.high + 4)]);
    cmp(rcx, ptr[rbp + CONTEXT(shared_bytes)]);
    ja(leave, T_NEAR);
  }

  // ---- one tile
  // -------------------------------------------------------------------------------------
  void forget_pointers() {
    held_.clear();
    next_register_ = 0;
  }
  static constexpr std::size_t kPointerRegisters = 9;
  Xbyak::Reg64 pointer_register(std::uint32_t half, std::uint32_t base) {
    static const Xbyak::Reg64 kRegisters[kPointerRegisters] = {rax, rcx, rdx, rsi, rdi,
                                                               r8,  r9,  r10, r11};
    for (auto& [who, r] : held_)
      if (who == std::pair{half, base}) return kRegisters[r];
    const std::size_t r = next_register_++ % kPointerRegisters;
    std::erase_if(held_, [&](const auto& h) { return h.second == r; });
    held_.emplace_back(std::pair{half, base}, r);
    movsxd(kRegisters[r], dword_in_file(region_.bases[base].place, half));
    add(kRegisters[r], r13);
    return kRegisters[r];
  }

  void load(const Xmm& into, std::uint32_t half, std::uint32_t operand) {
    const Region::Operand& o = region_.operands[operand];
    const BoundRegion::Base& b = region_.bases[o.base];
    if (!b.is_address) {
      if (b.place.mask == 0)
        vbroadcastss(into, in_file(b.place, half));
      else
        vmovups(into, in_file(b.place, half));
      return;
    }
    const Seen& s = seen(half, o.base);
    const int at = o.offset;
    switch (s.form) {
      case BaseForm::kSplat:
        vbroadcastss(into, ptr[pointer_register(half, o.base) + at]);
        return;
      case BaseForm::kVector:
        vmovups(into, ptr[pointer_register(half, o.base) + at]);
        return;
      case BaseForm::kPattern:
        break;
    }
    // Eight or four values over and over, where as many threads lie in x.
    if (avx512_ && repeats(s, 8))
      return vbroadcastf32x8(Zmm(into.getIdx()), ptr[pointer_register(half, o.base) + at]);
    if (avx512_ && repeats(s, 4))
      return vbroadcastf32x4(Zmm(into.getIdx()), ptr[pointer_register(half, o.base) + at]);
    if (!avx512_ && repeats(s, 4))
      return vbroadcastf128(Ymm(into.getIdx()), ptr[pointer_register(half, o.base) + at]);
    // Shared memory is followed by 64 spare bytes, so a whole window may be read.
    const bool window = avx512_ && s.high - s.low <= 60 &&
                        std::all_of(s.relative.begin(), s.relative.end(),
                                    [](std::int32_t r) { return r % 4 == 0; });
    if (window) {
      std::vector<std::uint32_t> lanes;
      for (std::int32_t r : s.relative) lanes.push_back(static_cast<std::uint32_t>(r - s.low) / 4);
      const Zmm picked(pattern_register(std::move(lanes)));
      vpermps(Zmm(into.getIdx()), picked, ptr[pointer_register(half, o.base) + (at + s.low)]);
      return;
    }
    const Xmm index = vec(avx512_ ? 27 : 14);
    std::vector<std::uint32_t> words(s.relative.begin(), s.relative.end());
    vmovups(index, table(std::move(words)));
    const Xbyak::Reg64 p = pointer_register(half, o.base);
    if (avx512_) {
      kxnorw(k1, k1, k1);
      vgatherdps(Zmm(into.getIdx()) | k1, ptr[p + Zmm(27) + at]);
    } else {
      vpcmpeqd(Ymm(15), Ymm(15), Ymm(15));
      vgatherdps(Ymm(into.getIdx()), ptr[p + Ymm(14) + at], Ymm(15));
    }
  }
  static bool repeats(const Seen& s, std::int32_t count) {
    for (std::size_t j = 0; j < s.relative.size(); ++j)
      if (s.relative[j] != 4 * (static_cast<std::int32_t>(j) % count)) return false;
    return true;
  }
  int pattern_register(std::vector<std::uint32_t> lanes) {
    constexpr int kFirst = 23, kCount = 4;  // zmm23..zmm26
    for (std::size_t n = 0; n < patterns_.size(); ++n)
      if (patterns_[n] == lanes) return kFirst + static_cast<int>(n);
    if (patterns_.size() == kCount) patterns_.clear();
    const int r = kFirst + static_cast<int>(patterns_.size());
    patterns_.push_back(lanes);
    vmovups(Zmm(r), table(std::move(lanes)));
    return r;
  }

  // A row or a column of a tile, as the lanes of one half see it.
  struct Line {
    std::uint32_t half, number;
  };
  static void append(std::vector<Line>& lines, std::uint32_t half, std::uint32_t count) {
    for (std::uint32_t n = 0; n < count; ++n) lines.push_back({half, n});
  }
  void tile(const BoundRegion::Tile& t, std::uint32_t half) {
    std::vector<Line> rows, columns;
    append(rows, half, t.rows);
    append(columns, half, t.columns);
    parts(t, rows, columns);
  }
  void joined_tile(const BoundRegion::Tile& t) {
    std::vector<Line> rows, columns;
    append(rows, 0, t.rows);
    append(columns, 0, t.columns);
    if (side_shared(t.b))
      append(rows, 1, t.rows);
    else
      append(columns, 1, t.columns);
    parts(t, rows, columns);
  }
  // Parts whose sums have registers, and enough of them that a sum is ready before its next FMA.
  void parts(const BoundRegion::Tile& t, const std::vector<Line>& rows,
             const std::vector<Line>& columns) {
    std::size_t high = rows.size(), wide = columns.size();
    if (!avx512_) {
      // Two temporaries are for patterns.
      const std::size_t registers = joined_ ? 16 : 14, chains = 8;
      std::size_t best = ~std::size_t{0};
      for (std::size_t r = 1; r <= rows.size(); ++r)
        for (std::size_t c = 1; c <= columns.size(); ++c) {
          if (r * c + std::min(r, c) + 1 > registers) continue;
          std::size_t cost = 0;
          for (std::size_t i = 0; i < rows.size(); i += r)
            for (std::size_t j = 0; j < columns.size(); j += c) {
              const std::size_t h = std::min(r, rows.size() - i),
                                w = std::min(c, columns.size() - j);
              cost += 10 * std::max(h * w, chains + 1) + h + w;
            }
          if (cost < best) best = cost, high = r, wide = c;
        }
    }
    for (std::size_t j = 0; j < columns.size(); j += wide)
      for (std::size_t i = 0; i < rows.size(); i += high)
        part(t, std::span(rows).subspan(i, std::min(high, rows.size() - i)),
             std::span(columns).subspan(j, std::min(wide, columns.size() - j)));
  }
  void part(const BoundRegion::Tile& t, std::span<const Line> rows, std::span<const Line> columns) {
    forget_pointers();
    patterns_.clear();
    auto sum = [&](std::size_t i, std::size_t j) {
      return vec(static_cast<int>(i * columns.size() + j));
    };
    auto in_tile = [&](std::size_t i, std::size_t j) {
      return rows[i].number * t.columns + columns[j].number;
    };
    // Only one of them has more than one half.
    auto half = [&](std::size_t i, std::size_t j) { return rows[i].half | columns[j].half; };
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t j = 0; j < columns.size(); ++j) {
        const Place& p = t.in[in_tile(i, j)];
        if (p.mask == 0)
          vbroadcastss(sum(i, j), in_file(p, half(i, j)));
        else
          vmovups(sum(i, j), in_file(p, half(i, j)));
      }
    // The shorter side is held in registers for a step; of the other one, one at a time.
    const bool hold_rows = rows.size() <= columns.size();
    const int temporaries = first_temporary(rows.size() * columns.size());
    const Xmm other = vec(temporaries + static_cast<int>(std::min(rows.size(), columns.size())));
    auto held = [&](std::size_t n) { return vec(temporaries + static_cast<int>(n)); };
    auto load_row = [&](const Xmm& into, std::uint32_t s, const Line& row) {
      load(into, row.half, t.a.operands[s * t.rows + row.number]);
    };
    auto load_column = [&](const Xmm& into, std::uint32_t s, const Line& column) {
      load(into, column.half, t.b.operands[s * t.columns + column.number]);
    };
    auto steps = [&](std::uint32_t from, std::uint32_t to) {
      for (std::uint32_t s = from; s < to; ++s) {
        if (hold_rows) {
          for (std::size_t i = 0; i < rows.size(); ++i) load_row(held(i), s, rows[i]);
          for (std::size_t j = 0; j < columns.size(); ++j) {
            load_column(other, s, columns[j]);
            for (std::size_t i = 0; i < rows.size(); ++i) vfmadd231ps(sum(i, j), held(i), other);
          }
        } else {
          for (std::size_t j = 0; j < columns.size(); ++j) load_column(held(j), s, columns[j]);
          for (std::size_t i = 0; i < rows.size(); ++i) {
            load_row(other, s, rows[i]);
            for (std::size_t j = 0; j < columns.size(); ++j) vfmadd231ps(sum(i, j), other, held(j));
          }
        }
      }
    };
    std::vector<Moving> moving;
    const std::uint32_t loop = loop_steps(t);
    if (loop > 0 && can_loop(t, rows, columns, moving)) {
      for (const Moving& m : moving) pointer_register(m.half, m.base);
      mov(r14d, t.steps / loop);
      Label again;
      L(again);
      steps(0, loop);
      for (const Moving& m : moving)
        add(pointer_register(m.half, m.base), m.stride * static_cast<std::int32_t>(loop));
      dec(r14d);
      jnz(again, T_NEAR);
    } else {
      steps(0, t.steps);
    }
    canonicalize(static_cast<int>(rows.size() * columns.size()), temporaries);
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t j = 0; j < columns.size(); ++j)
        vmovups(in_file(t.out[in_tile(i, j)], half(i, j)), sum(i, j));
  }
  // A NaN stays one through the rest of its chain, so its bits are made canonical at the end. A sum
  // of all is NaN when one of them is, or when infinities meet; only then they are looked at.
  void canonicalize(int sums, int temporaries) {
    auto found = std::make_shared<Label>(), back = std::make_shared<Label>();
    auto temporary = [&](int n) { return vec(temporaries + n); };
    int left = std::clamp(sums / 2, 1, (avx512_ ? 32 : 16) - temporaries);
    for (int n = 0; n < left; ++n)
      vaddps(temporary(n), vec(2 * n), vec(std::min(2 * n + 1, sums - 1)));
    for (int n = 2 * left; n < sums; ++n) vaddps(temporary(n % left), temporary(n % left), vec(n));
    for (; left > 1; left = (left + 1) / 2)
      for (int n = 0; n < left / 2; ++n)
        vaddps(temporary(n), temporary(n), temporary((left + 1) / 2 + n));
    const Xmm any = temporary(0);
    if (avx512_) {
      vcmpps(k1, any, any, 3);
      kortestw(k1, k1);
    } else {
      const Ymm y(any.getIdx());
      vcmpps(y, y, y, 3);
      vptest(y, y);
    }
    jnz(*found, T_NEAR);
    L(*back);
    later_.push_back([this, sums, temporaries, found, back] {
      L(*found);
      const Xmm nan = vec(temporaries);
      vbroadcastss(nan, ptr[rbp + CONTEXT(canonical_nan)]);
      for (int n = 0; n < sums; ++n) {
        const Xmm v = vec(n);
        if (avx512_) {
          vcmpps(k1, v, v, 3);
          vmovaps(v | k1, nan);
        } else {
          const Ymm y(n), m(temporaries + 1);
          vcmpps(m, y, y, 3);
          vblendvps(y, y, Ymm(nan.getIdx()), m);
        }
      }
      jmp(*back, T_NEAR);
    });
  }

  // Steps that a loop does at a time; 0: all are written out.
  std::uint32_t loop_steps(const BoundRegion::Tile& t) const {
    if (avx512_) {
      const bool loops = total_fmas() > kMaxUnrolledFmas && t.steps >= 2 * kLoopSteps;
      return loops && t.steps % kLoopSteps == 0 ? kLoopSteps : 0;
    }
    // A step is up to four times as many instructions as with the wider vectors.
    for (std::uint32_t n = kLoopSteps + 4; n >= 4; --n)
      if (t.steps % n == 0 && t.steps > n) return n;
    return 0;
  }
  std::size_t total_fmas() const {
    std::size_t n = 0;
    for (const BoundRegion::Tile& t : region_.tiles) n += std::size_t{t.rows} * t.columns * t.steps;
    return n * halves_;
  }
  // Addresses advance by one stride per base, and there is a register for every base.
  struct Moving {
    std::uint32_t half, base;
    std::int32_t stride;
  };
  bool can_loop(const BoundRegion::Tile& t, std::span<const Line> rows,
                std::span<const Line> columns, std::vector<Moving>& moving) const {
    if (!t.a.linear || !t.b.linear) return false;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::int32_t> strides;
    auto add_side = [&](const BoundRegion::Side& side, std::span<const Line> lines) {
      for (std::uint32_t b : side.bases_used) {
        if (!region_.bases[b].is_address) {
          if (side.stride != 0) return false;
          continue;
        }
        for (const Line& line : lines) {
          const auto [at, fresh] = strides.emplace(std::pair{line.half, b}, side.stride);
          if (!fresh && at->second != side.stride) return false;
        }
      }
      return true;
    };
    if (!add_side(t.a, rows) || !add_side(t.b, columns)) return false;
    if (strides.size() > kPointerRegisters) return false;
    for (const auto& [at, stride] : strides) moving.push_back({at.first, at.second, stride});
    return true;
  }

  const BoundRegion& region_;
  const bool avx512_;
  const std::uint32_t lanes_, halves_;
  std::vector<Seen> seen_;
  std::vector<char> shared_;  // by base: both halves have one value
  bool joined_ = false;
  // By half and base: which register has its pointer.
  std::vector<std::pair<std::pair<std::uint32_t, std::uint32_t>, std::size_t>> held_;
  std::size_t next_register_ = 0;
  std::vector<std::vector<std::uint32_t>> patterns_;
  std::vector<std::function<void()>> later_;  // code behind the loop
  std::vector<std::pair<std::unique_ptr<Label>, std::vector<std::uint32_t>>> tables_;
};

}  // namespace

std::optional<std::vector<std::uint8_t>> emit_region(const BoundRegion& region, const Frame& frame,
                                                     std::uint32_t group, bool avx512) {
  const std::unique_ptr<std::uint8_t[]> buffer(new std::uint8_t[kCodeBytes]);
  try {
    RegionCode code(region, frame, group, avx512, buffer.get());
    if (!code.run()) return std::nullopt;
    return std::vector<std::uint8_t>(buffer.get(), buffer.get() + code.getSize());
  } catch (const Xbyak::Error&) {
    return std::nullopt;  // the code is larger than the buffer
  }
}

}  // namespace driftc::runtime::ptx

#endif
