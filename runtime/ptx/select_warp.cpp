// What threads of a warp or a block do together.
#include <algorithm>

#include "runtime/ptx/select.h"

namespace driftc::runtime::ptx {

bool Selector::shuffle() {
  if (!take("sync") || types_.size() != 1 || types_[0] != Type::kB32 || !operands(5))
    return refuse();
  ShuffleKind kind = take("up")     ? ShuffleKind::kUp
                     : take("down") ? ShuffleKind::kDown
                     : take("bfly") ? ShuffleKind::kBfly
                                    : ShuffleKind::kIdx;
  if (kind == ShuffleKind::kIdx && !take("idx")) return refuse();
  constexpr RegKind W = RegKind::kW;
  Reg a = source(op(1), W), b = source(op(2), W), c = source(op(3), W), mask = source(op(4), W);
  Reg d = destination(op(0), W), p = kNoReg;
  if (!op(0).second.empty() && op(0).second != "_") {
    p = named(op(0).second);
    if (p == kNoReg || this->kind(p) != RegKind::kP)
      return fail("the second destination is no predicate");
  }
  if (a == kNoReg || b == kNoReg || c == kNoReg || mask == kNoReg || d == kNoReg) return false;
  Inst& inst = emit(Op::kShuffle, {d}, {a, b, c, mask}, static_cast<std::int64_t>(kind));
  if (p != kNoReg) inst.dst[inst.destinations++] = p;
  return true;
}

bool Selector::vote() {
  if (!take("sync") || types_.size() != 1 || !operands(3)) return refuse();
  VoteKind kind = take("all")   ? VoteKind::kAll
                  : take("any") ? VoteKind::kAny
                  : take("uni") ? VoteKind::kUni
                                : VoteKind::kBallot;
  if (kind == VoteKind::kBallot && !take("ballot")) return refuse();
  Reg p = source(op(1), RegKind::kP), mask = source(op(2), RegKind::kW);
  Reg d = destination(op(0), kind == VoteKind::kBallot ? RegKind::kW : RegKind::kP);
  if (p == kNoReg || mask == kNoReg || d == kNoReg) return false;
  emit(Op::kVote, {d}, {p, mask}, static_cast<std::int64_t>(kind));
  return true;
}

bool Selector::activemask() {
  if (!operands(1)) return false;
  Reg d = destination(op(0), RegKind::kW);
  if (d == kNoReg) return false;
  emit(Op::kActiveMask, {d}, {});
  return true;
}

bool Selector::barrier() {
  if (take("warp")) {  // threads of a warp are in lockstep already
    take("sync");
    program_->has_warp_barriers = true;
    return true;
  }
  take("cta");
  if (!take("sync")) return refuse();
  take("aligned");
  if (!operands(1) || op(0).kind != Operand::Kind::kInteger)
    return refuse("of a part of the block is not supported");
  if (guard_ != kNoReg) return refuse("under a predicate is not supported");
  emit(Op::kBarrier, {}, {});
  return true;
}

bool Selector::fence() {
  flags_.clear();
  return true;
}

bool Selector::trap() {
  emit(Op::kTrap, {}, {});
  return true;
}

// Fragments of A, B and C as written: vectors of registers.
bool Selector::mma() {
  if (!operands(4)) return false;
  if (guard_ != kNoReg) return refuse("under a predicate is not supported");
  auto shape = mma_shape(module_.target, flags_, types_);
  if (!shape.ok()) return refuse(shape.error().message.c_str());
  flags_.clear();
  const int acc = shape->parts() * shape->acc_regs;
  const std::array<int, 4> counts = {acc, shape->a_regs, shape->b_regs, acc};
  std::array<std::vector<Reg>, 4> regs;  // D, A, B, C
  for (std::size_t o = 0; o < 4; ++o) {
    const std::vector<Operand> list = elements(op(o));
    if (list.size() != static_cast<std::size_t>(counts[o]))
      return fail(fmt::format("operand {} of '{}' has {} registers, expected {}", o + 1,
                              text_of(*at_), list.size(), counts[o]));
    for (const Operand& e : list) {
      const Reg r = o == 0 ? destination(e, RegKind::kW) : source(e, RegKind::kW);
      if (r == kNoReg) return false;
      regs[o].push_back(r);
    }
  }
  // The first part must not overwrite what the second reads.
  if (shape->parts() > 1)
    for (std::size_t o = 1; o < 4; ++o)
      for (Reg& r : regs[o])
        if (std::find(regs[0].begin(), regs[0].end(), r) != regs[0].end())
          r = temp(Op::kMov32, {r});
  for (int part = 0; part < shape->parts(); ++part) {
    Inst& inst = emit(Op::kMma, {}, {}, static_cast<std::int64_t>(program_->mma_shapes.size()));
    const auto first = static_cast<std::size_t>(part * shape->acc_regs),
               last = first + static_cast<std::size_t>(shape->acc_regs);
    for (std::size_t i = first; i < last; ++i) inst.dst[inst.destinations++] = regs[0][i];
    for (const std::size_t o : {1, 2})
      for (const Reg r : regs[o]) inst.src[inst.sources++] = r;
    for (std::size_t i = first; i < last; ++i) inst.src[inst.sources++] = regs[3][i];
    program_->mma_shapes.push_back(*shape);
    program_->mma_shapes.back().column = 4 * part;
  }
  return true;
}

bool Selector::load_matrix() {
  if (!operands(2) || types_ != std::vector<Type>{Type::kB16}) return refuse();
  if (guard_ != kNoReg) return refuse("under a predicate is not supported");
  if (!take("sync") || !take("aligned") || !take("m8n8")) return refuse();
  Memory m;
  m.count = take("x4") ? 4 : take("x2") ? 2 : 1;
  if (m.count == 1 && !take("x1")) return refuse();
  if (!take("shared") && !take("shared::cta")) return refuse();
  m.space = Space::kShared;
  m.bytes = 16;  // of a row
  const std::vector<Operand> list = elements(op(0));
  if (list.size() != m.count) return fail("the vector has the wrong length");
  std::int64_t offset = 0;
  const Reg base = address(op(1), m.space, offset);
  if (base == kNoReg) return false;
  std::array<Reg, 4> d{};
  for (std::size_t i = 0; i < list.size(); ++i) {
    d[i] = destination(list[i], RegKind::kW);
    if (d[i] == kNoReg) return false;
  }
  Inst& inst = emit(Op::kLoadMatrix, {}, {base}, offset);
  inst.memory = m;
  inst.destinations = m.count;
  inst.dst = d;
  return true;
}

}  // namespace driftc::runtime::ptx
