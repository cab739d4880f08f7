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
#include <map>
#include <memory>

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
  }

  bool run() {
    if (region_.bases.size() * halves_ * 8 > sizeof(JitContext::spills)) return false;
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
    bring_in();
    for (std::uint32_t h = 0; h < halves_; ++h)
      for (std::size_t b = 0; b < region_.bases.size(); ++b) check(h, b, leave);
    for (std::uint32_t h = 0; h < halves_; ++h)
      for (const BoundRegion::Tile& t : region_.tiles) tile(t, h);
    inc(r12);
    add(r15, 64);
    cmp(r12, ptr[rbp + CONTEXT(last)]);
    jb(next, T_NEAR);
    L(leave);
    mov(rax, r12);
    for (const auto& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    ret();
    align(64);
    for (auto& [label, words] : tables_) {
      L(*label);
      for (std::uint32_t w : words) dd(w);
    }
    return true;
  }

 private:
  Xmm vec(int i) const { return avx512_ ? static_cast<Xmm>(Zmm(i)) : static_cast<Xmm>(Ymm(i)); }
  int first_temporary() const { return avx512_ ? 16 : 8; }  // behind the sums of a tile

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
  Xbyak::Address pointer(std::uint32_t half, std::size_t base) const {
    return ptr[rbp + CONTEXT(spills) + 8 * static_cast<int>(half * region_.bases.size() + base)];
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

  // The base looks as expected and all its loads lie in shared memory; its pointer is kept.
  void check(std::uint32_t half, std::size_t base, const Label& leave) {
    const BoundRegion::Base& b = region_.bases[base];
    if (!b.is_address) return;
    const Seen& s = seen(half, base);
    mov(eax, in_file(b.place, half));
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
    add(rax, r13);
    mov(pointer(half, base), rax);
  }

  // ---- one tile
  // -------------------------------------------------------------------------------------
  void forget_pointers() {
    held_.clear();
    next_register_ = 0;
  }
  Xbyak::Reg64 pointer_register(std::uint32_t half, std::uint32_t base) {
    static const Xbyak::Reg64 kRegisters[] = {rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11};
    constexpr std::size_t kCount = 9;
    for (auto& [b, r] : held_)
      if (b == base) return kRegisters[r];
    const std::size_t r = next_register_++ % kCount;
    std::erase_if(held_, [&](const auto& h) { return h.second == r; });
    held_.emplace_back(base, r);
    mov(kRegisters[r], pointer(half, base));
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

  // AVX2 has half as many registers, so it takes two columns at a time.
  void tile(const BoundRegion::Tile& t, std::uint32_t half) {
    const std::uint32_t width = avx512_ ? t.columns : std::min<std::uint32_t>(2, t.columns);
    for (std::uint32_t j = 0; j < t.columns; j += width)
      part(t, half, j, std::min(t.columns, j + width));
  }
  void part(const BoundRegion::Tile& t, std::uint32_t half, std::uint32_t j0, std::uint32_t j1) {
    const std::uint32_t columns = j1 - j0;
    forget_pointers();
    patterns_.clear();
    auto sum = [&](std::uint32_t i, std::uint32_t j) {
      return vec(static_cast<int>(i * columns + (j - j0)));
    };
    for (std::uint32_t i = 0; i < t.rows; ++i)
      for (std::uint32_t j = j0; j < j1; ++j) {
        const Place& p = t.in[i * t.columns + j];
        if (p.mask == 0)
          vbroadcastss(sum(i, j), in_file(p, half));
        else
          vmovups(sum(i, j), in_file(p, half));
      }
    auto steps = [&](std::uint32_t from, std::uint32_t to) {
      for (std::uint32_t s = from; s < to; ++s) {
        for (std::uint32_t i = 0; i < t.rows; ++i)
          load(vec(first_temporary() + static_cast<int>(i)), half, t.a.operands[s * t.rows + i]);
        for (std::uint32_t j = j0; j < j1; ++j) {
          const Xmm b = vec(first_temporary() + 4);
          load(b, half, t.b.operands[s * t.columns + j]);
          for (std::uint32_t i = 0; i < t.rows; ++i)
            vfmadd231ps(sum(i, j), vec(first_temporary() + static_cast<int>(i)), b);
        }
      }
    };
    std::vector<std::pair<std::uint32_t, std::int32_t>> moving;
    if (total_fmas() > kMaxUnrolledFmas && t.steps >= 2 * kLoopSteps && t.steps % kLoopSteps == 0 &&
        can_loop(t, moving)) {
      for (auto [base, stride] : moving) pointer_register(half, base);
      mov(r14d, t.steps / kLoopSteps);
      Label again;
      L(again);
      steps(0, kLoopSteps);
      for (auto [base, stride] : moving)
        add(pointer_register(half, base), stride * static_cast<std::int32_t>(kLoopSteps));
      dec(r14d);
      jnz(again, T_NEAR);
    } else {
      steps(0, t.steps);
    }
    // A NaN stays one through the rest of its chain, so its bits are made canonical at the end.
    const Xmm nan = vec(avx512_ ? 31 : first_temporary());
    vbroadcastss(nan, ptr[rbp + CONTEXT(canonical_nan)]);
    for (std::uint32_t i = 0; i < t.rows; ++i)
      for (std::uint32_t j = j0; j < j1; ++j) {
        const Xmm v = sum(i, j);
        if (avx512_) {
          vcmpps(k1, v, v, 3);
          vmovaps(v | k1, nan);
        } else {
          const Ymm y(v.getIdx()), m(first_temporary() + 1);
          vcmpps(m, y, y, 3);
          vblendvps(y, y, Ymm(nan.getIdx()), m);
        }
        vmovups(in_file(t.out[i * t.columns + j], half), v);
      }
  }

  std::size_t total_fmas() const {
    std::size_t n = 0;
    for (const BoundRegion::Tile& t : region_.tiles) n += std::size_t{t.rows} * t.columns * t.steps;
    return n * halves_;
  }
  // Addresses advance by one stride per base, and there is a register for every base.
  bool can_loop(const BoundRegion::Tile& t,
                std::vector<std::pair<std::uint32_t, std::int32_t>>& moving) const {
    if (!t.a.linear || !t.b.linear) return false;
    std::map<std::uint32_t, std::int32_t> strides;
    for (const BoundRegion::Side* side : {&t.a, &t.b})
      for (std::uint32_t b : side->bases_used) {
        if (!region_.bases[b].is_address) {
          if (side->stride != 0) return false;
          continue;
        }
        const auto [at, fresh] = strides.emplace(b, side->stride);
        if (!fresh && at->second != side->stride) return false;
      }
    if (strides.size() > 9) return false;
    moving.assign(strides.begin(), strides.end());
    return true;
  }

  const BoundRegion& region_;
  const bool avx512_;
  const std::uint32_t lanes_, halves_;
  std::vector<Seen> seen_;
  std::vector<std::pair<std::uint32_t, std::size_t>> held_;
  std::size_t next_register_ = 0;
  std::vector<std::vector<std::uint32_t>> patterns_;
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
