// Whether the lanes of a value follow each other, as AVX2 sees it: proved, or looked at once per
// half group and value that says how they differ. Private to runtime/ptx.
#pragma once

#include "runtime/ptx/jit_registers_avx2.h"

namespace driftc::runtime::ptx::avx2 {

class Looks : public Registers {
 public:
  using Registers::Registers;

 protected:
  // into = the first active lane of `lanes`, in all lanes. `into` must be another register.
  void broadcast_first(const Ymm& into, const Ymm& lanes) {
    if (v_.uniform || fast_) return vpbroadcastd(into, Xmm(lanes.getIdx()));  // lane 0 is active
    vmovups(into, ptr[rbp + CONTEXT(first_lane)]);
    vpermd(into, into, lanes);
  }
  // ecx = lanes of two vectors that are equal; ymm15 is lost.
  void equal_lanes(const Ymm& a, const Ymm& b) {
    vpcmpeqd(ymm15, a, b);
    vmovmskps(ecx, ymm15);
    and_(ecx, r10d);
  }

  int in_line(ValueId v, int log_step) override {
    const Value& x = value(v);
    const Shape known = shape(v);
    if (log_step < 0 || log_step > 4) return -1;
    if (!known.is_linear() && x.pattern == v) return look(v, log_step);
    if (known.is_linear() && known.step != 1 << log_step) return -1;
    if (const int n = looked_at(v, log_step); n >= 0) return n;
    int pattern = -1;
    if (!known.is_linear()) {
      pattern = look(x.pattern, log_step);
      if (pattern < 0) return -1;
    }
    const int n = take_slot(v, log_step);
    if (n < 0) return -1;
    if (fast_) {  // lane 0 is active
      vmovd(eax, Xmm(vec(v).getIdx()));
    } else {
      vpsubd(ymm13, vec(v), lane_steps(log_step));
      broadcast_first(ymm14, ymm13);
      vmovd(eax, xmm14);
    }
    mov(dword[rbp + slot_at(n)], eax);
    in_eax(n);
    flag_of_[n] = pattern;
    return n;
  }
  // Looks once whether the lanes of a value follow each other by 1 << log_step; the answer is in
  // context.roots. -1: such a step does not exist, or there is no room for the answer.
  int look(ValueId v, int log_step) {
    if (log_step < 0 || log_step > 4) return -1;
    if (const int n = looked_at(v, log_step); n >= 0) return n;
    const int n = take_slot(v, log_step);
    if (n < 0) return -1;
    vpsubd(ymm13, vec(v), lane_steps(log_step));
    broadcast_first(ymm14, ymm13);
    vmovd(dword[rbp + slot_at(n)], xmm14);
    equal_lanes(ymm13, ymm14);
    note_whether_all(n);
    return n;
  }
  // The same for 64-bit addresses.
  int look_wide(const AccessPlan& a) override {
    const int log_step = 2 + a.log_count;
    if (const int n = looked_at(a.wide_root, log_step); n >= 0) return n;
    const int n = take_slot(a.wide_root, log_step);
    if (n < 0) return -1;
    first_wide(a);
    shl(ecx, log_step);
    sub(rax, rcx);
    mov(ptr[rbp + slot_at(n)], rax);
    vmovq(xmm13, rax);
    vpbroadcastq(ymm13, xmm13);
    const int steps = CONTEXT(wide_lanes) + 128 * log_step;
    vpaddq(ymm14, ymm13, ptr[rbp + steps]);
    vpaddq(ymm13, ymm13, ptr[rbp + steps + 32]);
    equal_wide(a, ymm14, ymm13);
    and_(ecx, r10d);
    note_whether_all(n);
    return n;
  }
  // ecx = first active lane, rax = its address.
  void first_wide(const AccessPlan& a) {
    vmovups(ptr[rbp + CONTEXT(slow_address)], Ymm(a.low));
    vmovups(ptr[rbp + CONTEXT(slow_address) + 32], Ymm(a.high));
    bsf(ecx, r10d);
    mov(rax, ptr[rbp + rcx * 8 + CONTEXT(slow_address)]);
  }
  // ecx = lanes whose address equals the expected one; edx and ymm15 are lost.
  void equal_wide(const AccessPlan& a, const Ymm& low, const Ymm& high) {
    vpcmpeqq(ymm15, low, Ymm(a.low));
    vmovmskpd(ecx, ymm15);
    vpcmpeqq(ymm15, high, Ymm(a.high));
    vmovmskpd(edx, ymm15);
    shl(edx, 4);
    or_(ecx, edx);
  }

  void first_of(int root_register, int log_step) override {
    const Ymm lanes(root_register);
    if ((v_.uniform || fast_) && log_step == 0) return vmovd(eax, Xmm(root_register));
    if (log_step == 0) {
      broadcast_first(ymm14, lanes);
    } else {
      vpsubd(ymm13, lanes, lane_steps(log_step));
      broadcast_first(ymm14, ymm13);
    }
    vmovd(eax, xmm14);
  }
  void two_apart(int root_register, const Label& otherwise) override {
    first_of(root_register, 1);
    equal_lanes(ymm13, ymm14);
    cmp(ecx, r10d);
    jne(otherwise, T_NEAR);
  }

 private:
  int looked_at(ValueId v, int log_step) const {
    for (std::size_t n = 0; n < looked_.size(); ++n)
      if (looked_[n].first == v && looked_[n].second == log_step) return static_cast<int>(n);
    return -1;
  }
  int take_slot(ValueId v, int log_step) {
    const int n = Registers::take_slot();
    if (n >= 0) looked_[static_cast<std::size_t>(n)] = {v, log_step};
    return n;
  }
  void note_whether_all(int slot) {
    xor_(eax, eax);
    cmp(ecx, r10d);
    setne(al);
    neg(rax);
    mov(second_at(slot), rax);
  }
};

}  // namespace driftc::runtime::ptx::avx2
