// cp.async: copies from global to shared memory that finish behind the threads' back. A copy
// becomes the loads and the store that it is; the executor makes them at once, which is one of the
// times at which a device may. That nobody looks before the wait is for checked mode to see
// (check_async.h): the store is marked, and commit_group and wait_group are kept for it.
#include <algorithm>

#include "runtime/ptx/select.h"

namespace driftc::runtime::ptx {
namespace {

constexpr std::int64_t kMostGroups = 1 << 20;

}  // namespace

bool Selector::async() {
  if (!take("async")) return refuse();
  if (take("commit_group")) {
    if (!operands(0)) return false;
    emit(Op::kAsyncCommit, {}, {});
    return true;
  }
  if (take("wait_all")) {
    if (!operands(0)) return false;
    emit(Op::kAsyncCommit, {}, {});
    emit(Op::kAsyncWait, {}, {}, 0);
    return true;
  }
  if (take("wait_group")) {
    if (!operands(1)) return false;
    if (op(0).kind != Operand::Kind::kInteger || op(0).integer < 0 || op(0).integer > kMostGroups)
      return fail("cp.async.wait_group takes the number of groups that may still run");
    emit(Op::kAsyncWait, {}, {}, op(0).integer);
    return true;
  }
  return copy_async();
}

// cp.async.{ca,cg}.shared.global [to], [from], bytes {, how many of them to read: the others are
// 0}; in place of the last, a predicate that says to read none.
bool Selector::copy_async() {
  const bool any_level = take("ca");
  if (!any_level && !take("cg")) return refuse();
  if ((!take("shared") && !take("shared::cta")) || !take("global") || !types_.empty())
    return refuse();
  std::erase_if(flags_, [](const std::string& f) {  // prefetch sizes
    return f == "L2::64B" || f == "L2::128B" || f == "L2::256B";
  });
  const std::size_t given = at_->operands.size();
  if (given != 3 && given != 4) return operands(3);
  const std::int64_t bytes = op(2).kind == Operand::Kind::kInteger ? op(2).integer : 0;
  if (bytes != 16 && !(any_level && (bytes == 4 || bytes == 8)))
    return fail("cp.async copies 4, 8 or 16 bytes; with .cg 16");
  const auto words = static_cast<std::size_t>(bytes / 4);
  std::int64_t to_offset = 0, from_offset = 0;
  const Reg to = address(op(0), Space::kShared, to_offset);
  const Reg from = address(op(1), Space::kGlobal, from_offset);
  if (to == kNoReg || from == kNoReg) return false;
  Memory global;
  global.space = Space::kGlobal;
  global.bytes = 4;

  std::array<Reg, 4> values{};
  for (std::size_t i = 0; i < words; ++i) values[i] = new_reg(RegKind::kW);
  if (given == 3) {
    Inst& load = emit(Op::kLoad, {}, {from}, from_offset);
    load.memory = global;
    load.memory.count = static_cast<std::uint8_t>(words);
    for (std::size_t i = 0; i < words; ++i) load.dst[load.destinations++] = values[i];
  } else {
    std::array<Reg, 4> reads{};  // predicates: word i is read
    if (!words_to_read(bytes, reads)) return false;
    for (std::size_t i = 0; i < words; ++i) {
      Inst& zero = emit(Op::kMov32, {values[i]}, {constant(RegKind::kW, 0)});
      zero.guard = kNoReg;
      zero.guard_negated = false;
      Inst& load =
          emit(Op::kLoad, {values[i]}, {from}, from_offset + static_cast<std::int64_t>(4 * i));
      load.memory = global;
      load.guard = reads[i];
      load.guard_negated = false;
    }
  }
  Inst& store = emit(Op::kStore, {}, {to}, to_offset);
  store.memory.space = Space::kShared;
  store.memory.bytes = 4;
  store.memory.count = static_cast<std::uint8_t>(words);
  store.memory.async = true;
  for (std::size_t i = 0; i < words; ++i) store.src[store.sources++] = values[i];
  return true;
}

// The fourth operand of a copy, as a predicate for each of its words, that of the instruction
// included. Parts of a word are not modelled: a number of bytes that is no multiple of 4, or more
// than are copied, traps.
bool Selector::words_to_read(std::int64_t bytes, std::array<Reg, 4>& reads) {
  const auto also_guarded = [&](Reg p) {
    if (guard_ == kNoReg) return p;
    const Reg on = at_->guard_negated ? temp(Op::kNotPred, {guard_}) : guard_;
    return temp(Op::kAndPred, {p, on});
  };
  const Reg named_register = names_register(op(3)) ? named(op(3).name) : kNoReg;
  if (named_register != kNoReg && kind(named_register) == RegKind::kP) {
    reads.fill(also_guarded(temp(Op::kNotPred, {named_register})));
    return true;
  }
  const Reg size = source(op(3), RegKind::kW);
  if (size == kNoReg) return false;
  const auto compare = [&](Reg a, std::int64_t b, Comparison how) {
    return temp(Op::kSetpU32, {a, constant(RegKind::kW, static_cast<std::uint64_t>(b))},
                static_cast<std::int64_t>(how));
  };
  const Reg part = temp(Op::kAnd32, {size, constant(RegKind::kW, 3)});
  const Reg bad =
      temp(Op::kOrPred, {compare(part, 0, Comparison::kNe), compare(size, bytes, Comparison::kGt)});
  Inst& trap = emit(Op::kTrap, {}, {});
  trap.guard = also_guarded(bad);
  trap.guard_negated = false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(bytes / 4); ++i)
    reads[i] = also_guarded(compare(size, static_cast<std::int64_t>(4 * i), Comparison::kGt));
  return true;
}

}  // namespace driftc::runtime::ptx
