// If-conversion: short forward branches become guarded instructions, and blocks that only follow
// each other are joined. NVRTC prints every conditional load or store as such a branch; without
// this the k loop of a convolution is a chain of tiny divergent blocks.
#include <algorithm>

#include "runtime/ptx/flow.h"
#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {
namespace {

// Longer bodies are better skipped by a real branch when no lane wants them.
constexpr std::size_t kMaxConverted = 24;

bool convertible(const Block& body, Reg condition) {
  if (body.end != Block::End::kJump || body.code.size() > kMaxConverted) return false;
  for (const Inst& i : body.code) {
    if (!is_plain(i.op) && i.op != Op::kLoad && i.op != Op::kStore && i.op != Op::kLoadParam)
      return false;
    bool writes_condition = false;
    for_writes(i, [&](Reg r) { writes_condition = writes_condition || r == condition; });
    if (writes_condition) return false;
  }
  return true;
}

class Converter {
 public:
  explicit Converter(Code& code) : code_(code) {}

  void run() {
    // Each sweep converts one level of nesting; predecessors are kept up to date within a sweep.
    // Counts grow stale on the safe side: a stale count only keeps a guard that was not needed.
    for (int sweep = 0; sweep < 64; ++sweep) {
      bool changed = false;
      before_ = predecessors(code_);
      counts_ = count_uses(code_);
      for (std::uint32_t b = 0; b < code_.blocks.size(); ++b)
        while (convert(b) || append(b)) changed = true;
      if (!changed) break;
    }
  }

 private:
  bool only_from(std::uint32_t block, std::uint32_t from) const {
    return before_[block].size() == 1 && before_[block][0] == from && block != from;
  }

  bool convert(std::uint32_t index) {
    Block& b = code_.blocks[index];
    if (b.end != Block::End::kBranch || b.target == b.next) return false;
    std::uint32_t taken = b.target, fall = b.next;
    bool fall_ok = only_from(fall, index) && convertible(code_.blocks[fall], b.condition);
    bool taken_ok = only_from(taken, index) && convertible(code_.blocks[taken], b.condition);
    std::uint32_t join;
    if (fall_ok && code_.blocks[fall].target == taken) {
      guard_into(b, fall, !b.condition_negated);
      join = taken;
    } else if (taken_ok && code_.blocks[taken].target == fall) {
      guard_into(b, taken, b.condition_negated);
      join = fall;
    } else if (fall_ok && taken_ok && code_.blocks[fall].target == code_.blocks[taken].target) {
      join = code_.blocks[fall].target;
      if (join == index) return false;
      guard_into(b, fall, !b.condition_negated);
      guard_into(b, taken, b.condition_negated);
    } else {
      return false;
    }
    b.end = Block::End::kJump;
    b.target = join;
    b.condition = kNoReg;
    BlockList& p = before_[join];
    std::erase_if(
        p, [&](std::uint32_t from) { return from == index || from == fall || from == taken; });
    p.push_back(index);
    if (fall != join) before_[fall].clear();
    if (taken != join) before_[taken].clear();
    return true;
  }

  // Moves the code of `from` to the end of `b`, on where the condition (negated or not) holds.
  void guard_into(Block& b, std::uint32_t from, bool negated) {
    Block& body = code_.blocks[from];
    std::vector<Inst> code = std::move(body.code);
    body.code.clear();
    body.end = Block::End::kReturn;  // unreachable now
    std::vector<std::uint32_t> local(code_.regs.size(), 0), local_writes(code_.regs.size(), 0);
    for (const Inst& i : code) {
      for_reads(i, [&](Reg r) { ++local[r]; });
      for_writes(i, [&](Reg r) { ++local_writes[r]; });
    }
    const std::vector<char> inside = only_here(code, local_writes);
    std::vector<char> touched(code_.regs.size(), 0);
    for (Inst& i : code) {
      // A value that nobody outside reads may be computed in all lanes: plain operations have no
      // side effect.
      bool free = is_plain(i.op) && i.guard == kNoReg;
      for_writes(i, [&](Reg r) {
        const bool alone = counts_.writes[r] == 1 && local[r] == counts_.reads[r];
        // Written here more than once, read nowhere else, and written before it is read.
        free = free && (alone || (inside[r] && touched[r] != kRead));
      });
      for_reads(i, [&](Reg r) {
        if (touched[r] == 0) touched[r] = kRead;
      });
      for_writes(i, [&](Reg r) {
        if (touched[r] == 0) touched[r] = kWritten;
      });
      if (!free) {
        if (i.guard == kNoReg) {
          i.guard = b.condition;
          i.guard_negated = negated;
        } else {
          i.guard = conjunction(b, i, negated);
          i.guard_negated = false;
        }
      }
      b.code.push_back(i);
    }
  }

  static constexpr char kWritten = 1, kRead = 2;

  // Registers that only this code uses; asked for those that it writes more than once.
  std::vector<char> only_here(const std::vector<Inst>& code,
                              const std::vector<std::uint32_t>& writes) const {
    std::vector<char> inside(code_.regs.size(), 0);
    bool any = false;
    for (const Inst& i : code)
      if (is_plain(i.op) && i.guard == kNoReg)
        for_writes(i, [&](Reg r) {
          if (writes[r] > 1 && writes[r] == counts_.writes[r]) inside[r] = 1, any = true;
        });
    if (!any) return inside;
    for (const Block& b : code_.blocks) {
      for (const Inst& i : b.code) {
        for_reads(i, [&](Reg r) { inside[r] = 0; });
        for_writes(i, [&](Reg r) { inside[r] = 0; });
      }
      if (b.condition != kNoReg) inside[b.condition] = 0;
    }
    return inside;
  }

  Reg conjunction(Block& b, const Inst& like, bool negated) {
    Reg outer = positive(b, like, b.condition, negated);
    Reg inner = positive(b, like, like.guard, like.guard_negated);
    return plain(b, like, Op::kAndPred, outer, inner);
  }
  Reg positive(Block& b, const Inst& like, Reg p, bool negated) {
    return negated ? plain(b, like, Op::kNotPred, p, kNoReg) : p;
  }
  Reg plain(Block& b, const Inst& like, Op op, Reg x, Reg y) {
    code_.regs.push_back({});
    code_.regs.back().kind = RegKind::kP;
    Inst i;
    i.op = op;
    i.destinations = 1;
    i.dst[0] = static_cast<Reg>(code_.regs.size() - 1);
    i.src[i.sources++] = x;
    if (y != kNoReg) i.src[i.sources++] = y;
    i.line = like.line;
    i.source = like.source;
    b.code.push_back(i);
    counts_.writes.push_back(1);
    counts_.reads.push_back(1);
    return i.dst[0];
  }

  bool append(std::uint32_t index) {
    Block& b = code_.blocks[index];
    if (b.end != Block::End::kJump || !only_from(b.target, index) || b.target == 0) return false;
    std::uint32_t merged = b.target;
    Block& next = code_.blocks[merged];
    for (std::uint32_t to : successors(next))
      std::replace(before_[to].begin(), before_[to].end(), merged, index);
    before_[merged].clear();
    b.code.insert(b.code.end(), next.code.begin(), next.code.end());
    b.end = next.end;
    b.target = next.target;
    b.next = next.next;
    b.condition = next.condition;
    b.condition_negated = next.condition_negated;
    b.line = next.line;
    b.source = next.source;
    next.code.clear();
    next.end = Block::End::kReturn;
    next.condition = kNoReg;
    return true;
  }

  Code& code_;
  std::vector<BlockList> before_;
  Counts counts_;
};

}  // namespace

// Blocks nothing can reach any more are removed, the others keep their order.
static void drop_unreachable(Code& code) {
  std::vector<char> seen(code.blocks.size(), 0);
  BlockList work = {0};
  seen[0] = 1;
  while (!work.empty()) {
    std::uint32_t b = work.back();
    work.pop_back();
    for (std::uint32_t s : successors(code.blocks[b]))
      if (!seen[s]) seen[s] = 1, work.push_back(s);
  }
  std::vector<std::uint32_t> renamed(code.blocks.size(), 0);
  std::vector<Block> kept;
  for (std::uint32_t b = 0; b < code.blocks.size(); ++b) {
    if (!seen[b]) continue;
    renamed[b] = static_cast<std::uint32_t>(kept.size());
    kept.push_back(std::move(code.blocks[b]));
  }
  for (Block& b : kept) {
    b.target = renamed[b.target < renamed.size() ? b.target : 0];
    b.next = renamed[b.next < renamed.size() ? b.next : 0];
  }
  code.blocks = std::move(kept);
}

void convert_branches(Code& code) {
  Converter(code).run();
  drop_unreachable(code);
}

}  // namespace driftc::runtime::ptx
