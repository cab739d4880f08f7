// Segments for AVX-512: a value of 16 lanes is one vector register (two for 64 bits), a predicate
// one mask register. Instructions that nobody needs, and address arithmetic that an access does on
// one lane for all, are left out.
#if defined(__x86_64__)

#include <xbyak/xbyak.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>

#include "runtime/ptx/jit_emit.h"
#include "runtime/ptx/jit_slow.h"

namespace driftc::runtime::ptx {
namespace {

using namespace Xbyak::util;
using Xbyak::Label;
using Xbyak::Opmask;
using Xbyak::Zmm;

constexpr std::size_t kCodeBytes = 256 * 1024;
constexpr int kVectors = 27;         // zmm0..zmm26 hold values, the rest are temporaries
constexpr int kFirstMask = 2;        // k2..k5 hold predicates, k1 the active lanes
constexpr int kMasks = 4;

#define CONTEXT(field) static_cast<int>(offsetof(JitContext, field))

bool is_host(Space s) { return s == Space::kGlobal || s == Space::kConst || s == Space::kNone; }

class SegmentCode : public Xbyak::CodeGenerator {
 public:
  SegmentCode(const BoundProgram& bound, const UnitPlan& unit, const std::vector<Shape>& shapes,
              std::uint32_t first_access, std::vector<JitAccess>& accesses, std::uint8_t* buffer)
      : Xbyak::CodeGenerator(kCodeBytes, buffer),
        bound_(bound),
        code_(bound.program->code),
        v_(value_unit(code_, unit, shapes)),
        next_access_(first_access),
        accesses_(accesses),
        places_(v_.values.size()) {}

  bool run() {
    find_ranges();
    prologue();
    for (now_ = 0; now_ < static_cast<int>(v_.insts.size()) && !failed_; ++now_) {
      LocalInst& i = v_.insts[static_cast<std::size_t>(now_)];
      if (!i.emit) continue;
      begin_inst();
      instruction(i);
      end_inst();
    }
    if (failed_) return false;
    write_outputs();
    epilogue();
    return !failed_;
  }

 private:
  struct Location {
    int reg[2] = {-1, -1};    // zmm, or k of a predicate
    int spill[2] = {-1, -1};  // slot that holds the same bits
    std::size_t next = 0;     // index into uses
  };

  const Value& value(ValueId v) const { return v_.values[static_cast<std::size_t>(v)]; }
  Location& place(ValueId v) { return places_[static_cast<std::size_t>(v)]; }
  Place file(Reg r) const { return bound_.places[r]; }

  // ---- frame ------------------------------------------------------------------------------------
  void prologue() {
    for (const auto& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    sub(rsp, 8);
    mov(rbp, rdi);
    mov(rbx, ptr[rbp + CONTEXT(regs)]);
    mov(r13, ptr[rbp + CONTEXT(shared)]);
    mov(r12, ptr[rbp + CONTEXT(first)]);
    lea(r14, ptr[r12 * 2]);
    mov(r15, r12);
    shl(r15, 6);
    for (const LocalInst& i : v_.insts)
      if (i.emit && is_division(i.inst->op)) reciprocal(i);
    L(group_);
    mov(rax, ptr[rbp + CONTEXT(active)]);
    movzx(r10d, word[rax + r14]);
    test(r10d, r10d);
    jz(next_, T_NEAR);
    mov(ptr[rbp + CONTEXT(mask)], r10);
    kmovw(k1, r10d);
  }

  void epilogue() {
    L(next_);
    inc(r12);
    add(r14, 2);
    add(r15, 64);
    cmp(r12, ptr[rbp + CONTEXT(last)]);
    jb(group_, T_NEAR);
    xor_(eax, eax);
    Label leave;
    L(leave);
    add(rsp, 8);
    for (const auto& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    vzeroupper();
    ret();
    for (auto& out_of_line : later_) out_of_line();
    if (slow_used_) {
      L(fault_);
      mov(eax, 1);
      jmp(leave, T_NEAR);
      slow_call();
    }
  }

  // Saves everything the C++ function may use and calls it; edx = access.
  void slow_call() {
    L(slow_);
    for (int r = 0; r < kVectors; ++r) vmovups(ptr[rbp + CONTEXT(saved) + 64 * r], Zmm(r));
    for (int k = 1; k < kFirstMask + kMasks; ++k)
      kmovw(ptr[rbp + CONTEXT(saved_masks) + 8 * k], Opmask(k));
    mov(ptr[rbp + CONTEXT(slow_group)], r12);
    mov(rdi, rbp);
    mov(esi, edx);
    mov(rax, reinterpret_cast<std::uint64_t>(&driftc_ptx_jit_slow));
    sub(rsp, 8);
    vzeroupper();
    call(rax);
    add(rsp, 8);
    for (int r = 0; r < kVectors; ++r) vmovups(Zmm(r), ptr[rbp + CONTEXT(saved) + 64 * r]);
    for (int k = 1; k < kFirstMask + kMasks; ++k)
      kmovw(Opmask(k), ptr[rbp + CONTEXT(saved_masks) + 8 * k]);
    mov(r10, ptr[rbp + CONTEXT(mask)]);
    test(eax, eax);
    ret();
  }

  // ---- registers ----------------------------------------------------------------------------------
  void begin_inst() {
    locked_vectors_ = 0;
    locked_masks_ = 0;
  }
  void end_inst() {
    for (ValueId& v : owner_)
      if (v != kNoValue && next_use(v) <= now_) drop(v, false);
    for (ValueId& v : mask_owner_)
      if (v != kNoValue && next_use(v) <= now_) drop(v, true);
  }
  // Position of the next use after now, -1: none.
  int next_use(ValueId v) {
    Location& l = place(v);
    const auto& uses = value(v).uses;
    while (l.next < uses.size() && uses[l.next] <= now_) ++l.next;
    return l.next < uses.size() ? uses[l.next] : -1;
  }
  // The same with the running instruction, whose operands may not be in registers yet.
  int next_use_from_now(ValueId v) {
    const auto& uses = value(v).uses;
    return std::binary_search(uses.begin(), uses.end(), now_) ? now_ : next_use(v);
  }
  void drop(ValueId v, bool mask) {
    Location& l = place(v);
    for (int h = 0; h < 2; ++h) {
      if (l.reg[h] < 0) continue;
      const std::size_t r = static_cast<std::size_t>(l.reg[h]);
      l.reg[h] = -1;
      if (mask)
        mask_owner_[r - kFirstMask] = kNoValue;
      else
        owner_[r] = kNoValue;
    }
    for (int h = 0; h < 2; ++h) {
      if (l.spill[h] >= 0) (mask ? free_mask_spills_ : free_spills_).push_back(l.spill[h]);
      l.spill[h] = -1;
    }
  }
  int take_spill(bool mask) {
    auto& list = mask ? free_mask_spills_ : free_spills_;
    int& count = mask ? mask_spills_ : spills_;
    if (!list.empty()) {
      const int s = list.back();
      list.pop_back();
      return s;
    }
    const int limit = static_cast<int>(mask ? JitContext::kPredicateSpills : JitContext::kSpills);
    if (count >= limit) {
      failed_ = true;
      return 0;
    }
    return count++;
  }
  auto spill_at(int slot) { return ptr[rbp + CONTEXT(spills) + 64 * slot]; }
  auto mask_spill_at(int slot) { return ptr[rbp + CONTEXT(predicates) + 8 * slot]; }

  int free_vector() {
    int best = -1, farthest = -2;
    for (int r = 0; r < kVectors; ++r) {
      if (locked_vectors_ >> r & 1) continue;
      const ValueId v = owner_[static_cast<std::size_t>(r)];
      if (v == kNoValue) {
        best = r;
        break;
      }
      int use = next_use_from_now(v);
      if (use < 0) use = 1 << 30;
      // What can be read again costs no store.
      if (value(v).from != Value::From::kInst) use += 64;
      if (use > farthest) farthest = use, best = r;
    }
    if (best < 0) {
      failed_ = true;
      return 0;
    }
    if (const ValueId v = owner_[static_cast<std::size_t>(best)]; v != kNoValue) {
      Location& l = place(v);
      const int h = l.reg[0] == best ? 0 : 1;
      if (value(v).from == Value::From::kInst && l.spill[h] < 0 && next_use_from_now(v) >= 0) {
        l.spill[h] = take_spill(false);
        vmovups(spill_at(l.spill[h]), Zmm(best));
      }
      l.reg[h] = -1;
      owner_[static_cast<std::size_t>(best)] = kNoValue;
    }
    locked_vectors_ |= 1u << best;
    return best;
  }
  int free_mask() {
    int best = -1, farthest = -2;
    for (int r = kFirstMask; r < kFirstMask + kMasks; ++r) {
      if (locked_masks_ >> r & 1) continue;
      const ValueId v = mask_owner_[static_cast<std::size_t>(r - kFirstMask)];
      if (v == kNoValue) {
        best = r;
        break;
      }
      int use = next_use_from_now(v);
      if (use < 0) use = 1 << 30;
      if (use > farthest) farthest = use, best = r;
    }
    if (best < 0) {
      failed_ = true;
      return kFirstMask;
    }
    if (const ValueId v = mask_owner_[static_cast<std::size_t>(best - kFirstMask)];
        v != kNoValue) {
      Location& l = place(v);
      if (value(v).from == Value::From::kInst && l.spill[0] < 0 && next_use_from_now(v) >= 0) {
        l.spill[0] = take_spill(true);
        kmovw(mask_spill_at(l.spill[0]), Opmask(best));
      }
      l.reg[0] = -1;
      mask_owner_[static_cast<std::size_t>(best - kFirstMask)] = kNoValue;
    }
    locked_masks_ |= 1u << best;
    return best;
  }
  void own(ValueId v, int half, int r) {
    place(v).reg[half] = r;
    owner_[static_cast<std::size_t>(r)] = v;
  }

  Xbyak::Address in_file(Reg r, int half = 0) {
    const Place p = file(r);
    const int at = static_cast<int>(p.offset);
    if (p.mask == 0) return ptr[rbx + at];
    if (code_.regs[r].kind == RegKind::kL) return ptr[rbx + r15 * 2 + (at + 64 * half)];
    return ptr[rbx + r15 + at];
  }
  Xbyak::Address predicate_in_file(Reg r) {
    const Place p = file(r);
    const int at = static_cast<int>(p.offset);
    return p.mask == 0 ? word[rbx + at] : word[rbx + r14 + at];
  }

  // The register that holds half of a value now; locked until the instruction ends.
  Zmm vec(ValueId v, int half = 0) {
    Location& l = place(v);
    if (l.reg[half] >= 0) {
      locked_vectors_ |= 1u << l.reg[half];
      return Zmm(l.reg[half]);
    }
    const int r = free_vector();
    const Value& x = value(v);
    if (l.spill[half] >= 0) {
      vmovups(Zmm(r), spill_at(l.spill[half]));
    } else if (x.from == Value::From::kUniform) {
      if (x.kind == RegKind::kL)
        vpbroadcastq(Zmm(r), in_file(x.reg));
      else
        vpbroadcastd(Zmm(r), in_file(x.reg));
    } else if (x.from == Value::From::kFile) {
      vmovups(Zmm(r), in_file(x.reg, half));
    } else {
      failed_ = true;  // never: a value of the unit is in a register or spilled until its last use
    }
    own(v, half, r);
    return Zmm(r);
  }
  Opmask mask(ValueId v) {
    Location& l = place(v);
    if (l.reg[0] >= 0) {
      locked_masks_ |= 1u << l.reg[0];
      return Opmask(l.reg[0]);
    }
    const int r = free_mask();
    const Value& x = value(v);
    if (l.spill[0] >= 0)
      kmovw(Opmask(r), mask_spill_at(l.spill[0]));
    else if (x.from != Value::From::kInst)
      kmovw(Opmask(r), predicate_in_file(x.reg));
    else
      failed_ = true;
    l.reg[0] = r;
    mask_owner_[static_cast<std::size_t>(r - kFirstMask)] = v;
    return Opmask(r);
  }
  // The last source of an instruction: a register, or a uniform value in memory, broadcast.
  const Xbyak::Operand& source(ValueId v) {
    const Value& x = value(v);
    if (x.from == Value::From::kUniform && place(v).reg[0] < 0) {
      operand_memory_ = ptr_b[rbx + static_cast<int>(file(x.reg).offset)];
      return operand_memory_;
    }
    operand_register_ = vec(v);
    return operand_register_;
  }
  bool dies(ValueId v) { return value(v).from == Value::From::kInst && next_use(v) <= now_; }

  // A register for a result. With a guard it holds the old value already.
  Zmm result(const LocalInst& i, int d, int half = 0) {
    const ValueId v = i.dst[d], old = i.old[d];
    if (old == kNoValue) {
      const int r = free_vector();
      own(v, half, r);
      return Zmm(r);
    }
    const Value& x = value(old);
    if (x.from == Value::From::kUniform) {
      const int r = free_vector();
      if (code_.regs[x.reg].is_constant && code_.regs[x.reg].bits == 0)
        vpxord(Zmm(r), Zmm(r), Zmm(r));
      else
        vpbroadcastd(Zmm(r), in_file(x.reg));
      own(v, half, r);
      return Zmm(r);
    }
    const Zmm from = vec(old, half);
    const int r = free_vector();
    vmovdqa32(Zmm(r), from);
    own(v, half, r);
    return Zmm(r);
  }
  Opmask mask_result(ValueId v) {
    const int r = free_mask();
    place(v).reg[0] = r;
    mask_owner_[static_cast<std::size_t>(r - kFirstMask)] = v;
    return Opmask(r);
  }
  // The guard in a mask register: its own, or k6.
  Opmask guard(const LocalInst& i) {
    const Opmask g = mask(i.guard);
    if (!i.inst->guard_negated) return g;
    knotw(k6, g);
    return k6;
  }
  // k6 = lanes that make the access.
  Opmask access_mask(const LocalInst& i) {
    if (i.guard == kNoValue) return k1;
    const Opmask g = mask(i.guard);
    if (i.inst->guard_negated)
      kandnw(k6, g, k1);
    else
      kandw(k6, g, k1);
    return k6;
  }

  // ---- plain operations ---------------------------------------------------------------------------
  void instruction(LocalInst& i) {
    switch (i.inst->op) {
      case Op::kLoad:
      case Op::kStore:
        return access(i);
      case Op::kMovPred:
      case Op::kAndPred:
      case Op::kOrPred:
      case Op::kXorPred:
      case Op::kNotPred:
      case Op::kSetpS32:
      case Op::kSetpU32:
      case Op::kSetpF32:
        return predicate(i);
      case Op::kMov32:
        return move(i);
      default:
        break;  // the others write a vector
    }
    if (value(i.dst[0]).kind == RegKind::kL) return wide(i);
    if (i.guard != kNoValue) {
      compute(i, zmm31);
      const Zmm d = result(i, 0);
      vmovdqa32(d | guard(i), zmm31);
      return;
    }
    compute(i, std::nullopt);
  }

  void move(LocalInst& i) {
    const Value& x = value(i.src[0]);
    const bool memory = x.from == Value::From::kUniform && place(i.src[0]).reg[0] < 0;
    if (i.guard == kNoValue) {
      const Zmm a = vec(i.src[0]);
      vmovdqa32(result(i, 0), a);
      return;
    }
    if (memory) {
      const Zmm d = result(i, 0);
      vpbroadcastd(d | guard(i), in_file(x.reg));
    } else {
      const Zmm a = vec(i.src[0]);
      const Zmm d = result(i, 0);
      vmovdqa32(d | guard(i), a);
    }
  }

  void canonicalize(const LocalInst& i, const Zmm& d) {
    if (!value(i.dst[0]).canonical && i.guard == kNoValue) return;
    vcmpps(k7, d, d, 3);
    vpbroadcastd(d | k7, ptr[rbp + CONTEXT(canonical_nan)]);
  }

  // The result goes to `temporary`, or to a register of its own.
  void compute(LocalInst& i, std::optional<Zmm> temporary) {
    const Op op = i.inst->op;
    auto target = [&] { return temporary ? *temporary : result(i, 0); };
    auto two = [&](auto fn) {
      const Zmm a = vec(i.src[0]);
      const Xbyak::Operand& b = source(i.src[1]);
      fn(target(), a, b);
    };
    // Either operand may come from memory.
    auto commuting = [&](auto fn) {
      ValueId a = i.src[0], b = i.src[1];
      if (value(a).from == Value::From::kUniform && value(b).from != Value::From::kUniform)
        std::swap(a, b);
      const Zmm x = vec(a);
      const Xbyak::Operand& y = source(b);
      fn(target(), x, y);
    };
    auto one = [&](auto fn) {
      const Zmm a = vec(i.src[0]);
      fn(target(), a);
    };
    switch (op) {
      case Op::kAdd32:
        return commuting([&](auto d, auto a, auto& b) { vpaddd(d, a, b); });
      case Op::kSub32:
        return two([&](auto d, auto a, auto& b) { vpsubd(d, a, b); });
      case Op::kMul32:
        return commuting([&](auto d, auto a, auto& b) { multiply(d, a, b, i); });
      case Op::kMad32:
        return mad(i, target);
      case Op::kMulHiS32:
      case Op::kMulHiU32:
        return multiply_high(i, target);
      case Op::kDivS32:
      case Op::kDivU32:
      case Op::kRemS32:
      case Op::kRemU32:
        return divide(i, target);
      case Op::kMinS32:
        return commuting([&](auto d, auto a, auto& b) { vpminsd(d, a, b); });
      case Op::kMinU32:
        return commuting([&](auto d, auto a, auto& b) { vpminud(d, a, b); });
      case Op::kMaxS32:
        return commuting([&](auto d, auto a, auto& b) { vpmaxsd(d, a, b); });
      case Op::kMaxU32:
        return commuting([&](auto d, auto a, auto& b) { vpmaxud(d, a, b); });
      case Op::kAbsS32:
        return one([&](auto d, auto a) { vpabsd(d, a); });
      case Op::kNeg32:
        return one([&](auto d, auto a) {
          vpxord(zmm30, zmm30, zmm30);
          vpsubd(d, zmm30, a);
        });
      case Op::kAnd32:
        return commuting([&](auto d, auto a, auto& b) { vpandd(d, a, b); });
      case Op::kOr32:
        return commuting([&](auto d, auto a, auto& b) { vpord(d, a, b); });
      case Op::kXor32:
        return commuting([&](auto d, auto a, auto& b) { vpxord(d, a, b); });
      case Op::kNot32:
        return one([&](auto d, auto a) { vpternlogd(d, a, a, 0x55); });
      case Op::kShl32:
        return two([&](auto d, auto a, auto& b) { vpsllvd(d, a, b); });
      case Op::kShrS32:
        return two([&](auto d, auto a, auto& b) { vpsravd(d, a, b); });
      case Op::kShrU32:
        return two([&](auto d, auto a, auto& b) { vpsrlvd(d, a, b); });
      case Op::kSextB:
        return one([&](auto d, auto a) {
          vpslld(d, a, 24);
          vpsrad(d, d, 24);
        });
      case Op::kZextB:
        return one([&](auto d, auto a) {
          vpslld(d, a, 24);
          vpsrld(d, d, 24);
        });
      case Op::kSextH:
        return one([&](auto d, auto a) {
          vpslld(d, a, 16);
          vpsrad(d, d, 16);
        });
      case Op::kZextH:
        return one([&](auto d, auto a) {
          vpslld(d, a, 16);
          vpsrld(d, d, 16);
        });
      case Op::kLop332: {
        const Zmm a = vec(i.src[0]), b = vec(i.src[1]), c = vec(i.src[2]);
        vmovdqa32(zmm30, a);
        vpternlogd(zmm30, b, c, static_cast<std::uint8_t>(i.inst->imm));
        vmovdqa32(target(), zmm30);
        return;
      }
      case Op::kSelp32: {
        const Opmask p = mask(i.src[2]);
        const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
        const Zmm d = target();
        vpblendmd(d | p, b, a);
        return;
      }
      case Op::kAddF32:
        return commuting([&](auto d, auto a, auto& b) {
          vaddps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kSubF32:
        return two([&](auto d, auto a, auto& b) {
          vsubps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kMulF32:
        return commuting([&](auto d, auto a, auto& b) {
          vmulps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kDivF32:
        return two([&](auto d, auto a, auto& b) {
          vdivps(d, a, b);
          canonicalize(i, d);
        });
      case Op::kFmaF32:
        return fma(i, temporary);
      case Op::kSqrtF32:
        return one([&](auto d, auto a) {
          vsqrtps(d, a);
          canonicalize(i, d);
        });
      case Op::kRcpF32:
        return one([&](auto d, auto a) {
          vbroadcastss(zmm30, ptr[rbp + CONTEXT(one)]);
          vdivps(d, zmm30, a);
          canonicalize(i, d);
        });
      case Op::kNegF32:
        return one([&](auto d, auto a) {
          vpxord(d, a, ptr_b[rbp + CONTEXT(sign)]);
          canonicalize(i, d);
        });
      case Op::kAbsF32:
        return one([&](auto d, auto a) {
          vpandd(d, a, ptr_b[rbp + CONTEXT(magnitude)]);
          canonicalize(i, d);
        });
      case Op::kMinF32:
      case Op::kMaxF32:
      case Op::kMinNanF32:
      case Op::kMaxNanF32:
        return min_max(i, target);
      case Op::kSatF32:
        return one([&](auto d, auto a) {
          // NaN, -0 and below give +0.
          vpxord(zmm30, zmm30, zmm30);
          vcmpps(k7, zmm30, a, 0x11);  // 0 < a
          vmovaps(zmm30 | k7, a);
          vminps(d, zmm30, ptr_b[rbp + CONTEXT(one)]);
        });
      case Op::kCopysignF32: {
        const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
        const Zmm d = target();
        vpandd(zmm30, a, ptr_b[rbp + CONTEXT(sign)]);
        vpandd(zmm29, b, ptr_b[rbp + CONTEXT(magnitude)]);
        vpord(d, zmm30, zmm29);
        return;
      }
      case Op::kRoundF32:
        return one([&](auto d, auto a) {
          vrndscaleps(d, a, rounding(i.inst->imm));
          canonicalize(i, d);
        });
      case Op::kS32ToF32:
        return one([&](auto d, auto a) { vcvtdq2ps(d, a); });
      case Op::kU32ToF32:
        return one([&](auto d, auto a) { vcvtudq2ps(d, a); });
      case Op::kF32ToS32:
        return one([&](auto d, auto a) {
          vrndscaleps(zmm30, a, rounding(i.inst->imm));
          vcvttps2dq(zmm29, zmm30);
          vcmpps(k7, zmm30, ptr_b[rbp + CONTEXT(two_31)], 0x1D);  // >=
          vpbroadcastd(zmm29 | k7, ptr[rbp + CONTEXT(max_s32)]);
          vcmpps(k7, zmm30, zmm30, 7);  // ordered
          vmovdqa32(d | k7 | T_z, zmm29);
        });
      case Op::kTruncL: {
        const Zmm low = vec(i.src[0], 0), high = vec(i.src[0], 1);
        vpmovqd(Xbyak::Ymm(30), low);
        vpmovqd(Xbyak::Ymm(29), high);
        vinserti64x4(target(), zmm30, Xbyak::Ymm(29), 1);
        return;
      }
      default:
        failed_ = true;  // `supports` and this switch disagree
    }
  }
  static std::uint8_t rounding(std::int64_t imm) {
    switch (static_cast<Rounding>(imm)) {
      case Rounding::kNearest:
        return 8;
      case Rounding::kDown:
        return 9;
      case Rounding::kUp:
        return 10;
      case Rounding::kZero:
        return 11;
    }
    return 8;
  }

  // A product by a power of two is a shift, which takes one cycle instead of two multiplications.
  void multiply(const Zmm& d, const Zmm& a, const Xbyak::Operand& b, const LocalInst& i) {
    for (int s = 0; s < 2; ++s) {
      const Value& x = value(i.src[s]);
      if (x.from != Value::From::kUniform || !code_.regs[x.reg].is_constant) continue;
      const std::uint32_t bits = static_cast<std::uint32_t>(code_.regs[x.reg].bits);
      if (bits == 0 || (bits & (bits - 1)) != 0 || value(i.src[1 - s]).from == x.from) continue;
      return vpslld(d, a, static_cast<std::uint8_t>(__builtin_ctz(bits)));
    }
    vpmulld(d, a, b);
  }

  template <class Target>
  void mad(const LocalInst& i, Target target) {
    ValueId a = i.src[0], b = i.src[1];
    if (value(a).from == Value::From::kUniform) std::swap(a, b);
    const Zmm x = vec(a);
    multiply(zmm30, x, source(b), i);
    const Xbyak::Operand& c = source(i.src[2]);
    vpaddd(target(), zmm30, c);
  }

  template <class Target>
  void multiply_high(const LocalInst& i, Target target) {
    const bool is_signed = i.inst->op == Op::kMulHiS32;
    const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
    vpsrlq(zmm29, a, 32);
    vpsrlq(zmm28, b, 32);
    if (is_signed) {
      vpmuldq(zmm30, a, b);
      vpmuldq(zmm29, zmm29, zmm28);
    } else {
      vpmuludq(zmm30, a, b);
      vpmuludq(zmm29, zmm29, zmm28);
    }
    vpsrlq(zmm30, zmm30, 32);
    mov(eax, 0xAAAA);
    kmovw(k7, eax);
    vmovdqa32(zmm30 | k7, zmm29);
    vmovdqa32(target(), zmm30);
  }

  static bool is_division(Op op) {
    return op == Op::kDivS32 || op == Op::kDivU32 || op == Op::kRemS32 || op == Op::kRemU32;
  }
  // A divisor that all lanes share is inverted once: one step above the rounded 1 / d, so that the
  // product with a is never below a / d, nor above it by more than a / d * 2^-51 < 2^-19 / d, while
  // the next quotient is 1 / d away. Behind it in the same place: all ones when d is 0.
  void reciprocal(const LocalInst& i) {
    const Value& d = value(i.src[1]);
    const bool is_signed = i.inst->op == Op::kDivS32 || i.inst->op == Op::kRemS32;
    if (d.from != Value::From::kUniform || reciprocal_of(i) >= 0) return;
    if (looked_.size() == JitContext::kRoots) return;
    const int n = static_cast<int>(looked_.size());
    looked_.emplace_back(kNoValue, 0);
    reciprocals_.push_back({d.reg, is_signed, n});
    const int at = CONTEXT(roots) + n * static_cast<int>(sizeof(JitContext::Root));
    const auto memory = dword[rbx + static_cast<int>(file(d.reg).offset)];
    if (is_signed)
      movsxd(rax, memory);
    else
      mov(eax, memory);
    vcvtsi2sd(xmm0, xmm0, rax);
    mov(ecx, 1);
    vcvtsi2sd(xmm1, xmm1, rcx);
    vdivsd(xmm0, xmm1, xmm0);
    vmovq(rcx, xmm0);
    inc(rcx);
    mov(ptr[rbp + at], rcx);
    xor_(ecx, ecx);
    test(rax, rax);
    setz(cl);
    neg(rcx);
    mov(ptr[rbp + at + 8], rcx);
  }
  int reciprocal_of(const LocalInst& i) const {
    const bool is_signed = i.inst->op == Op::kDivS32 || i.inst->op == Op::kRemS32;
    for (const auto& r : reciprocals_)
      if (r.divisor == value(i.src[1]).reg && r.is_signed == is_signed) return r.slot;
    return -1;
  }
  template <class Target>
  void divide_by_uniform(const LocalInst& i, int slot, Target target) {
    const Op op = i.inst->op;
    const bool is_signed = op == Op::kDivS32 || op == Op::kRemS32;
    const int at = CONTEXT(roots) + slot * static_cast<int>(sizeof(JitContext::Root));
    const Zmm a = vec(i.src[0]);
    const Xbyak::Ymm y29(29), y30(30);
    vextracti64x4(y30, a, 1);
    if (is_signed) {
      vcvtdq2pd(zmm29, Xbyak::Ymm(a.getIdx()));
      vcvtdq2pd(zmm30, y30);
    } else {
      vcvtudq2pd(zmm29, Xbyak::Ymm(a.getIdx()));
      vcvtudq2pd(zmm30, y30);
    }
    vmulpd(zmm29, zmm29, ptr_b[rbp + at]);
    vmulpd(zmm30, zmm30, ptr_b[rbp + at]);
    if (is_signed) {
      vcvttpd2dq(y29, zmm29);
      vcvttpd2dq(y30, zmm30);
    } else {
      vcvttpd2udq(y29, zmm29);
      vcvttpd2udq(y30, zmm30);
    }
    vinserti64x4(zmm29, zmm29, y30, 1);
    if (op == Op::kDivS32 || op == Op::kDivU32) {
      vpord(target(), zmm29, ptr_b[rbp + at + 8]);
      return;
    }
    vpord(zmm29, zmm29, ptr_b[rbp + at + 8]);
    vpmulld(zmm29, zmm29, source(i.src[1]));
    vpsubd(target(), a, zmm29);
  }

  // Exact through double (exec_plain.cpp); division by zero gives all ones.
  template <class Target>
  void divide(const LocalInst& i, Target target) {
    const Op op = i.inst->op;
    const bool is_signed = op == Op::kDivS32 || op == Op::kRemS32;
    if (value(i.src[1]).from == Value::From::kUniform)
      if (const int slot = reciprocal_of(i); slot >= 0) return divide_by_uniform(i, slot, target);
    const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
    const Xbyak::Ymm y28(28), y29(29), y30(30);
    auto quotients = [&](const Xbyak::Ymm& x, const Xbyak::Ymm& y, const Xbyak::Ymm& q) {
      const Zmm wide_x(x.getIdx()), wide_y(y.getIdx());
      if (is_signed) {
        vcvtdq2pd(wide_x, x);
        vcvtdq2pd(wide_y, y);
        vdivpd(wide_x, wide_x, wide_y);
        vcvttpd2dq(q, wide_x);
      } else {
        vcvtudq2pd(wide_x, x);
        vcvtudq2pd(wide_y, y);
        vdivpd(wide_x, wide_x, wide_y);
        vcvttpd2udq(q, wide_x);
      }
    };
    vextracti64x4(y29, a, 1);
    vextracti64x4(y30, b, 1);
    quotients(y29, y30, y28);
    vmovdqa32(zmm29, a);
    vmovdqa32(zmm30, b);
    quotients(y29, y30, y29);
    vinserti64x4(zmm30, zmm29, y28, 1);
    vptestnmd(k7, b, b);
    vpbroadcastd(zmm30 | k7, ptr[rbp + CONTEXT(all_ones)]);
    if (op == Op::kDivS32 || op == Op::kDivU32) {
      vmovdqa32(target(), zmm30);
      return;
    }
    vpmulld(zmm30, zmm30, b);
    vpsubd(target(), a, zmm30);
  }

  template <class Target>
  void min_max(const LocalInst& i, Target target) {
    const Op op = i.inst->op;
    const bool is_max = op == Op::kMaxF32 || op == Op::kMaxNanF32;
    const bool propagate = op == Op::kMinNanF32 || op == Op::kMaxNanF32;
    const Zmm a = vec(i.src[0]), b = vec(i.src[1]);
    vmovaps(zmm30, b);
    vcmpps(k7, a, b, is_max ? 0x1E : 0x11);
    vmovaps(zmm30 | k7, a);
    vcmpps(k7, a, b, 0);  // equal operands differ at most in the sign of zero
    if (is_max)
      vandps(zmm30 | k7, a, b);
    else
      vorps(zmm30 | k7, a, b);
    vcmpps(k7, a, a, 3);
    vmovaps(zmm30 | k7, propagate ? a : b);
    vcmpps(k7, b, b, 3);
    vmovaps(zmm30 | k7, propagate ? b : a);
    vcmpps(k7, zmm30, zmm30, 3);
    vpbroadcastd(zmm30 | k7, ptr[rbp + CONTEXT(canonical_nan)]);
    vmovaps(target(), zmm30);
  }

  void fma(LocalInst& i, std::optional<Zmm> temporary) {
    ValueId a = i.src[0], b = i.src[1];
    const ValueId c = i.src[2];
    if (value(a).from == Value::From::kUniform) std::swap(a, b);
    const Zmm x = vec(a);
    const Xbyak::Operand& y = source(b);
    Zmm d = zmm31;
    if (!temporary && dies(c) && place(c).reg[0] >= 0 && c != a && c != b) {
      // The sum stays where it is.
      const int r = place(c).reg[0];
      place(c).reg[0] = -1;
      drop(c, false);
      own(i.dst[0], 0, r);
      locked_vectors_ |= 1u << r;
      d = Zmm(r);
    } else {
      if (!temporary) {
        const int r = free_vector();
        own(i.dst[0], 0, r);
        d = Zmm(r);
      }
      const Value& z = value(c);
      if (z.from == Value::From::kUniform && place(c).reg[0] < 0)
        vbroadcastss(d, in_file(z.reg));
      else
        vmovaps(d, vec(c));
    }
    vfmadd231ps(d, x, y);
    canonicalize(i, d);
  }

  // 64-bit values that an access cannot take apart.
  void wide(LocalInst& i) {
    const Op op = i.inst->op;
    for (int half = 0; half < 2; ++half) {
      auto halves = [&](ValueId v, const Zmm& into, bool sign) {
        const Zmm a = vec(v);
        Xbyak::Ymm y(into.getIdx());
        if (half == 0) {
          y = Xbyak::Ymm(a.getIdx());
        } else {
          vextracti64x4(y, a, 1);
        }
        if (sign)
          vpmovsxdq(into, y);
        else
          vpmovzxdq(into, y);
      };
      switch (op) {
        case Op::kMov64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half));
          vmovdqa64(result(i, 0, half), a);
          break;
        }
        case Op::kSextW:
        case Op::kZextW:
          halves(i.src[0], zmm30, op == Op::kSextW);
          vmovdqa64(result(i, 0, half), zmm30);
          break;
        case Op::kMulWideS32:
        case Op::kMulWideU32:
        case Op::kMadWideS32:
        case Op::kMadWideU32: {
          const bool sign = op == Op::kMulWideS32 || op == Op::kMadWideS32;
          halves(i.src[0], zmm30, sign);
          halves(i.src[1], zmm29, sign);
          if (sign)
            vpmuldq(zmm30, zmm30, zmm29);
          else
            vpmuludq(zmm30, zmm30, zmm29);
          if (op == Op::kMadWideS32 || op == Op::kMadWideU32)
            vpaddq(zmm30, zmm30, vec(i.src[2], half_of(i.src[2], half)));
          vmovdqa64(result(i, 0, half), zmm30);
          break;
        }
        case Op::kAdd64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half)),
                    b = vec(i.src[1], half_of(i.src[1], half));
          vpaddq(result(i, 0, half), a, b);
          break;
        }
        case Op::kSub64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half)),
                    b = vec(i.src[1], half_of(i.src[1], half));
          vpsubq(result(i, 0, half), a, b);
          break;
        }
        case Op::kShl64: {
          const Zmm a = vec(i.src[0], half_of(i.src[0], half));
          const std::uint64_t bits = code_.regs[value(i.src[1]).reg].bits & 0xFFFFFFFFu;
          const Zmm d = result(i, 0, half);
          if (bits > 63)
            vpxord(d, d, d);
          else
            vpsllq(d, a, static_cast<std::uint8_t>(bits));
          break;
        }
        default:
          failed_ = true;
      }
    }
  }
  // Uniform values have one register for both halves.
  int half_of(ValueId v, int half) const {
    return value(v).from == Value::From::kUniform ? 0 : half;
  }

  // ---- predicates ---------------------------------------------------------------------------------
  void predicate(LocalInst& i) {
    const Op op = i.inst->op;
    auto compute_into = [&](const Opmask& d) {
      switch (op) {
        case Op::kMovPred:
          return kmovw(d, mask(i.src[0]));
        case Op::kNotPred:
          return knotw(d, mask(i.src[0]));
        case Op::kAndPred: {
          const Opmask a = mask(i.src[0]), b = mask(i.src[1]);
          return kandw(d, a, b);
        }
        case Op::kOrPred: {
          const Opmask a = mask(i.src[0]), b = mask(i.src[1]);
          return korw(d, a, b);
        }
        case Op::kXorPred: {
          const Opmask a = mask(i.src[0]), b = mask(i.src[1]);
          return kxorw(d, a, b);
        }
        default: {
          const Zmm a = vec(i.src[0]);
          const Xbyak::Operand& b = source(i.src[1]);
          compare(op, static_cast<Comparison>(i.inst->imm), d, a, b);
        }
      }
    };
    if (i.guard == kNoValue) {
      // The operands are locked before the result takes a register, which may not be one of them.
      for (int s = 0; s < i.inst->sources; ++s)
        if (value(i.src[s]).kind == RegKind::kP) mask(i.src[s]);
      return compute_into(mask_result(i.dst[0]));
    }
    compute_into(k7);
    const Opmask g = guard(i);
    kandw(k7, k7, g);
    const Opmask old = mask(i.old[0]);
    const Opmask d = mask_result(i.dst[0]);
    kandnw(d, g, old);
    korw(d, d, k7);
  }
  void compare(Op op, Comparison c, const Opmask& d, const Zmm& a, const Xbyak::Operand& b) {
    if (op == Op::kSetpF32) {
      static constexpr std::uint8_t kImm[] = {0x00, 0x0C, 0x11, 0x12, 0x1E, 0x1D, 0x08,
                                              0x04, 0x19, 0x1A, 0x16, 0x15, 0x07, 0x03};
      return vcmpps(d, a, b, kImm[static_cast<std::size_t>(c)]);
    }
    static constexpr std::uint8_t kImm[] = {0, 4, 1, 2, 6, 5};
    const std::uint8_t imm = kImm[static_cast<std::size_t>(c) % 6];
    if (op == Op::kSetpS32)
      vpcmpd(d, a, b, imm);
    else
      vpcmpud(d, a, b, imm);
  }

  // ---- memory -------------------------------------------------------------------------------------
  // What an access does, for the code that is put out of line.
  struct Access {
    std::uint32_t id = 0;
    bool shared = false, store = false;
    bool wide = false;            // 64-bit addresses per lane
    ValueId index = kNoValue;     // 32-bit value, or none
    ValueId root = kNoValue;
    bool sign = true;
    int shift = 0;
    std::vector<Reg> addends;     // 32 bits, of the index
    std::uint32_t constant = 0;
    std::vector<Reg> bases;       // 64 bits
    std::int64_t offset = 0;
    int count = 1, log_count = 0;
    Opmask lanes{1};            // that make the access
    bool guarded = false;
    int data[4] = {};             // vector registers
    int root_register = -1;
    bool pointer = false;          // rcx holds the checked place in this process, without `offset`
    ValueId wide_root = kNoValue;  // 64-bit addresses
    int low = 0, high = 0;         // registers of its halves
  };

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
      one_place(a, *otherwise);
    } else {
      const int root = a.wide ? look_wide(a)
                              : in_line(a.root, a.shared ? 2 + a.log_count
                                                         : a.log_count + 2 - a.shift);
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
      scattered(a, *back);
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
  // ecx = first active lane, rax = its address.
  void first_wide(const Access& a) {
    vmovups(ptr[rbp + CONTEXT(slow_address)], Zmm(a.low));
    vmovups(ptr[rbp + CONTEXT(slow_address) + 64], Zmm(a.high));
    bsf(ecx, r10d);
    mov(rax, ptr[rbp + rcx * 8 + CONTEXT(slow_address)]);
  }
  // ecx = lanes whose address equals the expected one.
  void equal_wide(const Access& a, const Zmm& low, const Zmm& high) {
    vpcmpeqq(k7, low, Zmm(a.low));
    kmovw(ecx, k7);
    vpcmpeqq(k7, high, Zmm(a.high));
    kmovw(edx, k7);
    shl(edx, 8);
    or_(ecx, edx);
  }

  // rax = index of lane 0, extended.
  void add_terms(const Access& a) {
    for (Reg r : a.addends) add(eax, dword[rbx + static_cast<int>(file(r).offset)]);
    if (a.constant) add(eax, static_cast<int>(a.constant));
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
  // rcx = base + (extended eax << shift) + offset.
  void extended(const Access& a) {
    if (a.sign)
      movsxd(rcx, eax);
    else
      mov(ecx, eax);
    if (a.shared) {
      if (a.offset) add(rcx, static_cast<int>(a.offset));
      return;
    }
    if (!a.bases.empty() && a.shift <= 3) {
      mov(rdx, ptr[rbx + static_cast<int>(file(a.bases[0]).offset)]);
      lea(rcx, ptr[rdx + rcx * (1 << a.shift) + static_cast<int>(a.offset)]);
      for (std::size_t n = 1; n < a.bases.size(); ++n)
        add(rcx, ptr[rbx + static_cast<int>(file(a.bases[n]).offset)]);
      return;
    }
    if (a.shift) shl(rcx, a.shift);
    for (Reg r : a.bases) add(rcx, ptr[rbx + static_cast<int>(file(r).offset)]);
    if (a.offset) add(rcx, static_cast<int>(a.offset));
  }
  int cache_at(const Access& a) const {
    return static_cast<int>(sizeof(JitContext) + a.id * sizeof(JitCache));
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
  void check_single(const Access& a, const Label& otherwise) {
    mov(rdx, rcx);
    if (a.shared) {
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + CONTEXT(shared_single) + 8 * a.log_count]);
    } else {
      sub(rdx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
      ror(rdx, 2 + a.log_count);
      cmp(rdx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, single))]);
    }
    jae(otherwise, T_NEAR);
  }
  Xbyak::Address memory_at(const Access& a, int displacement) {
    if (a.pointer) return ptr[rcx + (static_cast<int>(a.offset) + displacement)];
    return a.shared ? ptr[r13 + rcx + displacement] : ptr[rcx + displacement];
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
  void broadcast(const Access& a) {
    for (int e = 0; e < a.count; ++e) {
      if (a.guarded)
        vbroadcastss(Zmm(a.data[e]) | a.lanes, memory_at(a, 4 * e));
      else
        vbroadcastss(Zmm(a.data[e]), memory_at(a, 4 * e));
    }
  }

  // Lanes that are not in line, or not in the buffer seen last.
  void scattered(const Access& a, const Label& back) {
    Label slow, gather;
    if (a.guarded) {
      kmovw(r8d, a.lanes);
      test(r8d, r8d);
      jz(back, T_NEAR);
    } else {
      mov(r8d, r10d);
    }
    if (a.wide) return scattered_wide(a, back);
    index_vector(a);
    if (a.root != kNoValue && !a.store) {
      // One address for all?
      vpcompressd(zmm29 | k1 | T_z, Zmm(a.root_register));
      vpbroadcastd(zmm30, Xbyak::Xmm(29));
      vpcmpeqd(k7 | k1, zmm30, Zmm(a.root_register));
      kmovw(ecx, k7);
      cmp(ecx, r10d);
      jne(gather, T_NEAR);
      vmovd(eax, Xbyak::Xmm(29));
      add_terms(a);
      extended(a);
      check_single(a, slow);
      broadcast(a);
      jmp(back, T_NEAR);
    }
    L(gather);
    if (a.shared) {
      if (a.offset) {
        mov(eax, static_cast<int>(a.offset));
        vpbroadcastd(zmm30, eax);
        vpaddd(zmm29, zmm31, zmm30);
      } else {
        vmovdqa32(zmm29, zmm31);
      }
      vpcmpud(k7 | a.lanes, zmm29,
              ptr_b[rbp + CONTEXT(shared_bytes_places) + 4 * a.log_count], 1);
      kmovw(edx, k7);
      cmp(edx, r8d);
      jne(slow, T_NEAR);
      aligned_lanes(a, (4 << a.log_count) - 1, slow);
    } else if (a.shift == 2 && a.root != kNoValue) {
      xor_(eax, eax);
      Access base = a;
      base.addends.clear();
      base.constant = 0;
      extended(base);
      sub(rcx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
      test(cl, 3);
      jnz(slow, T_NEAR);
      sar(rcx, 2);
      // Small enough that 32 bits tell a good index from a bad one.
      lea(rdx, ptr[rcx + 0x20000000]);
      cmp(rdx, 0x40000000);
      jae(slow, T_NEAR);
      vpbroadcastd(zmm30, ecx);
      vpaddd(zmm29, zmm31, zmm30);
      vpcmpud(k7 | a.lanes, zmm29,
              ptr_b[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, elements))], 1);
      kmovw(edx, k7);
      cmp(edx, r8d);
      jne(slow, T_NEAR);
      aligned_lanes(a, a.count - 1, slow);
      mov(rcx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
    } else {
      jmp(slow, T_NEAR);
    }
    if (a.shared || (a.shift == 2 && a.root != kNoValue)) {
      for (int e = 0; e < a.count; ++e) {
        kmovw(k7, a.lanes);
        const auto at = a.shared ? ptr[r13 + zmm29 + 4 * e] : ptr[rcx + zmm29 * 4 + 4 * e];
        if (a.store)
          vpscatterdd(at | k7, Zmm(a.data[e]));
        else
          vpgatherdd(Zmm(a.data[e]) | k7, at);
      }
      jmp(back, T_NEAR);
    }
    L(slow);
    xor_(eax, eax);
    Access base = a;
    base.addends.clear();
    base.constant = 0;
    extended(base);
    mov(ptr[rbp + CONTEXT(slow_base)], rcx);
    vmovups(ptr[rbp + CONTEXT(slow_index)], zmm31);
    call_slow(a, back);
  }
  void scattered_wide(const Access& a, const Label& back) {
    Label slow, gather;
    if (!a.store) {
      first_wide(a);
      mov(r9, rax);
      vpbroadcastq(zmm30, rax);
      equal_wide(a, zmm30, zmm30);
      and_(ecx, r10d);
      cmp(ecx, r10d);
      jne(gather, T_NEAR);
      lea(rcx, ptr[r9 + static_cast<int>(a.offset)]);
      check_single(a, slow);
      broadcast(a);
      jmp(back, T_NEAR);
    }
    L(gather);
    // Offsets from the begin of the buffer, in range and aligned.
    mov(rax, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
    if (a.offset) sub(rax, static_cast<int>(a.offset));
    vpbroadcastq(zmm30, rax);
    vpsubq(zmm29, Zmm(a.low), zmm30);
    vpsubq(zmm28, Zmm(a.high), zmm30);
    const auto places = ptr_b[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, bytes))];
    vpcmpuq(k7, zmm29, places, 1);
    kmovw(ecx, k7);
    vpcmpuq(k7, zmm28, places, 1);
    kmovw(edx, k7);
    shl(edx, 8);
    or_(ecx, edx);
    and_(ecx, r8d);
    cmp(ecx, r8d);
    jne(slow, T_NEAR);
    vpmovqd(Xbyak::Ymm(29), zmm29);
    vpmovqd(Xbyak::Ymm(28), zmm28);
    vinserti64x4(zmm29, zmm29, Xbyak::Ymm(28), 1);
    aligned_lanes(a, (4 << a.log_count) - 1, slow);
    mov(rcx, ptr[rbp + cache_at(a) + static_cast<int>(offsetof(JitCache, begin))]);
    for (int e = 0; e < a.count; ++e) {
      kmovw(k7, a.lanes);
      const auto at = ptr[rcx + zmm29 + 4 * e];
      if (a.store)
        vpscatterdd(at | k7, Zmm(a.data[e]));
      else
        vpgatherdd(Zmm(a.data[e]) | k7, at);
    }
    jmp(back, T_NEAR);
    L(slow);
    vmovups(ptr[rbp + CONTEXT(slow_address)], Zmm(a.low));
    vmovups(ptr[rbp + CONTEXT(slow_address) + 64], Zmm(a.high));
    call_slow(a, back);
  }
  // zmm31 = the lanes' 32-bit indices.
  void index_vector(const Access& a) {
    if (a.root != kNoValue)
      vmovdqa32(zmm31, Zmm(a.root_register));
    else
      vpxord(zmm31, zmm31, zmm31);
    for (Reg r : a.addends)
      vpaddd(zmm31, zmm31, ptr_b[rbx + static_cast<int>(file(r).offset)]);
    if (a.constant) {
      mov(eax, a.constant);
      vpbroadcastd(zmm30, eax);
      vpaddd(zmm31, zmm31, zmm30);
    }
  }
  void aligned_lanes(const Access& a, int bits, const Label& slow) {
    if (bits == 0) return;
    mov(eax, bits);
    vpbroadcastd(zmm30, eax);
    vptestmd(k7 | a.lanes, zmm29, zmm30);
    kortestw(k7, k7);
    jnz(slow, T_NEAR);
  }
  void call_slow(const Access& a, const Label& back) {
    slow_used_ = true;
    if (a.guarded) {
      kmovw(eax, a.lanes);
      mov(ptr[rbp + CONTEXT(slow_mask)], rax);
    } else {
      mov(ptr[rbp + CONTEXT(slow_mask)], r10);
    }
    if (a.store)
      for (int e = 0; e < a.count; ++e)
        vmovups(ptr[rbp + CONTEXT(slow_value) + 64 * e], Zmm(a.data[e]));
    mov(edx, a.id);
    if (!a.store && a.guarded) kmovw(ptr[rbp + CONTEXT(saved_masks)], a.lanes);
    call(slow_);
    jnz(fault_, T_NEAR);
    if (!a.store) {
      if (a.guarded) kmovw(k6, ptr[rbp + CONTEXT(saved_masks)]);
      for (int e = 0; e < a.count; ++e) {
        const auto from = ptr[rbp + CONTEXT(slow_value) + 64 * e];
        if (a.guarded)
          vmovups(Zmm(a.data[e]) | k6, from);
        else
          vmovups(Zmm(a.data[e]), from);
      }
    }
    jmp(back, T_NEAR);
  }

  // ---- results ------------------------------------------------------------------------------------
  void write_outputs() {
    now_ = static_cast<int>(v_.insts.size()) - 1;
    Label masked, done;
    const bool vectors = std::any_of(v_.outputs.begin(), v_.outputs.end(), [&](const Output& o) {
      return value(o.value).kind != RegKind::kP;
    });
    for (const Output& o : v_.outputs) {
      begin_inst();
      if (value(o.value).kind == RegKind::kP) write_predicate(o);
    }
    if (!vectors) return;
    // What is spilled, or still to be broadcast, is loaded the same way on both ways: the registers
    // are put back in between.
    cmp(r10d, 0xFFFF);
    jne(masked, T_NEAR);
    const auto owner = owner_;
    const auto places = places_;
    const auto spills = std::pair{free_spills_, spills_};
    write_vectors(false);
    jmp(done, T_NEAR);
    L(masked);
    owner_ = owner;
    places_ = places;
    free_spills_ = spills.first;
    spills_ = spills.second;
    write_vectors(true);
    L(done);
  }
  void write_vectors(bool masked) {
    if (masked) kshiftrw(k6, k1, 8);
    for (const Output& o : v_.outputs) {
      begin_inst();
      const Value& x = value(o.value);
      if (x.from == Value::From::kFile) failed_ = true;  // never: copies are values of the unit
      if (x.kind == RegKind::kP) continue;
      for (int half = 0; half < (x.kind == RegKind::kL ? 2 : 1); ++half) {
        const Zmm v = vec(o.value, half_of(o.value, half));
        if (!masked)
          vmovups(in_file(o.reg, half), v);
        else if (x.kind == RegKind::kL)
          vmovdqa64(in_file(o.reg, half) | (half ? k6 : k1), v);
        else
          vmovdqa32(in_file(o.reg) | k1, v);
      }
    }
  }
  void write_predicate(const Output& o) {
    const auto at = predicate_in_file(o.reg);
    kmovw(ecx, mask(o.value));
    movzx(eax, at);
    mov(edx, r10d);
    and_(ecx, edx);
    not_(edx);
    and_(eax, edx);
    or_(eax, ecx);
    mov(at, ax);
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

  const BoundProgram& bound_;
  const Code& code_;
  UnitValues v_;
  std::uint32_t next_access_;
  std::vector<JitAccess>& accesses_;
  std::vector<Location> places_;
  int now_ = 0;
  bool failed_ = false, slow_used_ = false;
  std::vector<ValueId> owner_ = std::vector<ValueId>(kVectors, kNoValue);
  std::vector<ValueId> mask_owner_ = std::vector<ValueId>(kMasks, kNoValue);
  std::uint32_t locked_vectors_ = 0, locked_masks_ = 0;
  std::vector<int> free_spills_, free_mask_spills_;
  int spills_ = 0, mask_spills_ = 0;
  std::vector<std::pair<ValueId, int>> looked_;
  std::vector<Range> ranges_;
  struct Reciprocal {
    Reg divisor;
    bool is_signed;
    int slot;
  };
  std::vector<Reciprocal> reciprocals_;
  std::map<int, int> flag_of_;  // root -> the root whose flag it shares, -1: in line by proof
  std::vector<std::function<void()>> later_;
  Zmm operand_register_;
  Xbyak::Address operand_memory_ = ptr[rax];
  Label group_, next_, slow_, fault_;
};

bool plain_supported(const Code& code, const Inst& i) {
  switch (i.op) {
    case Op::kMov32:
    case Op::kMovPred:
    case Op::kAdd32:
    case Op::kSub32:
    case Op::kMul32:
    case Op::kMad32:
    case Op::kMulHiS32:
    case Op::kMulHiU32:
    case Op::kDivS32:
    case Op::kDivU32:
    case Op::kRemS32:
    case Op::kRemU32:
    case Op::kMinS32:
    case Op::kMinU32:
    case Op::kMaxS32:
    case Op::kMaxU32:
    case Op::kAbsS32:
    case Op::kNeg32:
    case Op::kAnd32:
    case Op::kOr32:
    case Op::kXor32:
    case Op::kNot32:
    case Op::kShl32:
    case Op::kShrS32:
    case Op::kShrU32:
    case Op::kSextB:
    case Op::kZextB:
    case Op::kSextH:
    case Op::kZextH:
    case Op::kLop332:
    case Op::kSelp32:
    case Op::kAddF32:
    case Op::kSubF32:
    case Op::kMulF32:
    case Op::kDivF32:
    case Op::kFmaF32:
    case Op::kSqrtF32:
    case Op::kRcpF32:
    case Op::kNegF32:
    case Op::kAbsF32:
    case Op::kMinF32:
    case Op::kMaxF32:
    case Op::kMinNanF32:
    case Op::kMaxNanF32:
    case Op::kSatF32:
    case Op::kCopysignF32:
    case Op::kRoundF32:
    case Op::kS32ToF32:
    case Op::kU32ToF32:
    case Op::kF32ToS32:
    case Op::kTruncL:
    case Op::kSetpS32:
    case Op::kSetpU32:
    case Op::kSetpF32:
    case Op::kAndPred:
    case Op::kOrPred:
    case Op::kXorPred:
    case Op::kNotPred:
      return true;
    case Op::kMov64:
    case Op::kSextW:
    case Op::kZextW:
    case Op::kMulWideS32:
    case Op::kMulWideU32:
    case Op::kMadWideS32:
    case Op::kMadWideU32:
    case Op::kAdd64:
    case Op::kSub64:
      return i.guard == kNoReg;
    case Op::kShl64:
      return i.guard == kNoReg && code.regs[i.src[1]].is_constant;
    default:
      return false;  // not a closed set: anything else is interpreted
  }
}

}  // namespace

bool segment_supports_avx512(const Code& code, const Inst& i) {
  if (is_plain(i.op)) return plain_supported(code, i);
  if (i.op != Op::kLoad && i.op != Op::kStore) return false;
  const Memory& m = i.memory;
  return m.bytes == 4 && (m.count == 1 || m.count == 2 || m.count == 4) &&
         (is_host(m.space) || m.space == Space::kShared);
}

std::optional<std::vector<std::uint8_t>> emit_segment_avx512(const BoundProgram& bound,
                                                             const UnitPlan& unit,
                                                             const std::vector<Shape>& shapes,
                                                             std::uint32_t first_access,
                                                             std::vector<JitAccess>& accesses) {
  const std::unique_ptr<std::uint8_t[]> buffer(new std::uint8_t[kCodeBytes]);
  try {
    SegmentCode segment(bound, unit, shapes, first_access, accesses, buffer.get());
    if (!segment.run()) return std::nullopt;
    return std::vector<std::uint8_t>(buffer.get(), buffer.get() + segment.getSize());
  } catch (const Xbyak::Error&) {
    return std::nullopt;  // the code is larger than the buffer
  }
}

}  // namespace driftc::runtime::ptx

#endif
