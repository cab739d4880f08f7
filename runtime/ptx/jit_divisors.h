// What a segment computes once per run, and rounding modes, whatever the instruction set. Private
// to runtime/ptx.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ptx/jit_forms.h"

namespace driftc::runtime::ptx::segment {

class Divisors : public Forms {
 public:
  using Forms::Forms;

 protected:
  // What does not change from group to group; vector registers are free.
  void before_groups() {
    for (const LocalInst& i : v_.insts)
      if (i.emit && is_division(i.inst->op)) reciprocal(i);
    family_bounds();
    if (has_fast_form_) check_assumptions();
    if (halves_) mov(qword[rbp + CONTEXT(proved_half)], 0);
    find_distances();
  }
  // The immediate operand of vrndscaleps and vroundps.
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
    const int n = take_slot();
    if (n < 0) return;
    reciprocals_.push_back({d.reg, is_signed, n});
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
    mov(first_at(n), rcx);
    xor_(ecx, ecx);
    test(rax, rax);
    setz(cl);
    neg(rcx);
    mov(second_at(n), rcx);
  }
  int reciprocal_of(const LocalInst& i) const {
    const bool is_signed = i.inst->op == Op::kDivS32 || i.inst->op == Op::kRemS32;
    for (const auto& r : reciprocals_)
      if (r.divisor == value(i.src[1]).reg && r.is_signed == is_signed) return r.slot;
    return -1;
  }

 private:
  struct Reciprocal {
    Reg divisor;
    bool is_signed;
    int slot;
  };
  std::vector<Reciprocal> reciprocals_;
};

}  // namespace driftc::runtime::ptx::segment
