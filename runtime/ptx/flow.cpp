#include "runtime/ptx/flow.h"

#include <algorithm>
#include <utility>

namespace driftc::runtime::ptx {

BlockList successors(const Block& block) {
  switch (block.end) {
    case Block::End::kReturn:
      return {};
    case Block::End::kJump:
      return {block.target};
    case Block::End::kBranch:
      return {block.target, block.next};
  }
  return {};
}

std::vector<BlockList> predecessors(const Code& code) {
  std::vector<BlockList> out(code.blocks.size());
  for (std::uint32_t b = 0; b < code.blocks.size(); ++b)
    for (std::uint32_t s : successors(code.blocks[b])) out[s].push_back(b);
  return out;
}

std::vector<std::uint32_t> dominators(const std::vector<BlockList>& next,
                                      const std::vector<BlockList>& previous, std::uint32_t root) {
  std::uint32_t n = static_cast<std::uint32_t>(next.size());
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // Post-order without recursion: kernels can have thousands of blocks in a chain.
  std::vector<std::uint32_t> order, number(n, kNone);
  std::vector<std::pair<std::uint32_t, std::size_t>> stack{{root, 0}};
  std::vector<char> seen(n, 0);
  seen[root] = 1;
  while (!stack.empty()) {
    auto& [node, edge] = stack.back();
    if (edge < next[node].size()) {
      std::uint32_t to = next[node][edge++];
      if (!seen[to]) {
        seen[to] = 1;
        stack.emplace_back(to, 0);
      }
    } else {
      number[node] = static_cast<std::uint32_t>(order.size());
      order.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<std::uint32_t> idom(n, kNone);
  idom[root] = root;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = order.size(); i-- > 0;) {
      std::uint32_t node = order[i];
      if (node == root) continue;
      std::uint32_t best = kNone;
      for (std::uint32_t p : previous[node]) {
        if (idom[p] == kNone) continue;
        if (best == kNone) {
          best = p;
          continue;
        }
        std::uint32_t a = best, b = p;
        while (a != b) {
          while (number[a] < number[b]) a = idom[a];
          while (number[b] < number[a]) b = idom[b];
        }
        best = a;
      }
      if (best != kNone && idom[node] != best) {
        idom[node] = best;
        changed = true;
      }
    }
  }
  for (std::uint32_t i = 0; i < n; ++i)
    if (idom[i] == kNone) idom[i] = i;
  return idom;
}

bool dominates(const std::vector<std::uint32_t>& idom, std::uint32_t a, std::uint32_t b) {
  while (b != a) {
    if (idom[b] == b) return false;
    b = idom[b];
  }
  return true;
}

Counts count_uses(const Code& code) {
  Counts c;
  c.writes.assign(code.regs.size(), 0);
  c.reads.assign(code.regs.size(), 0);
  for (const Block& b : code.blocks) {
    for (const Inst& i : b.code) {
      for_reads(i, [&](Reg r) { ++c.reads[r]; });
      for_writes(i, [&](Reg r) { ++c.writes[r]; });
    }
    if (b.condition != kNoReg) ++c.reads[b.condition];
  }
  return c;
}

// Liveness, backwards: what is alive where the kernel begins is read unwritten on some path.
bool writes_before_reads(const Code& code) {
  constexpr std::size_t kMaxWords = std::size_t{1} << 20;  // larger kernels than NVRTC's: not known
  const std::size_t blocks = code.blocks.size(), words = (code.regs.size() + 63) / 64;
  if (blocks * words > kMaxWords) return false;
  std::vector<std::uint64_t> live(blocks * words, 0), now(words);
  auto set = [&](Reg r) { now[r / 64] |= std::uint64_t{1} << (r % 64); };
  auto clear = [&](Reg r) { now[r / 64] &= ~(std::uint64_t{1} << (r % 64)); };
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = blocks; b-- > 0;) {
      const Block& block = code.blocks[b];
      std::fill(now.begin(), now.end(), 0);
      for (std::uint32_t s : successors(block))
        for (std::size_t w = 0; w < words; ++w) now[w] |= live[s * words + w];
      if (block.condition != kNoReg) set(block.condition);
      for (std::size_t k = block.code.size(); k-- > 0;) {
        const Inst& i = block.code[k];
        for_writes(i, clear);
        for_reads(i, set);
      }
      const auto row = live.begin() + static_cast<std::ptrdiff_t>(b * words);
      if (std::equal(now.begin(), now.end(), row)) continue;
      std::copy(now.begin(), now.end(), row);
      changed = true;
    }
  }
  for (Reg r = 0; r < code.regs.size(); ++r)
    if ((live[r / 64] >> (r % 64) & 1) && !code.regs[r].is_constant && !code.regs[r].is_special)
      return false;
  return true;
}

// ---- joins

void find_joins(Code& code) {
  std::uint32_t n = static_cast<std::uint32_t>(code.blocks.size());
  std::vector<BlockList> forward(n + 1), backward(n + 1);
  for (std::uint32_t b = 0; b < n; ++b) {
    BlockList s = successors(code.blocks[b]);
    if (s.empty()) s.push_back(n);  // the kernel's end
    for (std::uint32_t to : s) {
      forward[b].push_back(to);
      backward[to].push_back(b);
    }
  }
  std::vector<std::uint32_t> ipdom = dominators(backward, forward, n);
  for (std::uint32_t b = 0; b < n; ++b) code.blocks[b].join = ipdom[b] == b ? n : ipdom[b];
}

// ---- uniformity

namespace {

// A block that only ends its threads: lanes that go there never meet the others again, so a branch
// to it does not make the code behind it divergent.
bool only_returns(const Code& code, std::uint32_t b) {
  return code.blocks[b].code.empty() && code.blocks[b].end == Block::End::kReturn;
}

bool has_own_result_per_lane(const Inst& i) {
  return i.op == Op::kAtomic || i.op == Op::kShuffle || i.op == Op::kVote ||
         i.op == Op::kActiveMask || i.op == Op::kMma || i.op == Op::kLoadMatrix ||
         (i.op == Op::kLoad && i.memory.space == Space::kLocal);
}

}  // namespace

// A register is uniform when every write of it happens with all living threads of the block
// together and gives all of them the same value. Writes inside a divergent region (between a
// varying branch and its join) are not.
void find_uniform(Code& code, bool enable) {
  std::size_t n = code.blocks.size();
  std::vector<char> varying(code.regs.size(), enable ? 0 : 1), divergent(n, enable ? 0 : 1),
      marked(n, 0);
  for (Reg r = 0; r < code.regs.size(); ++r) {
    const RegInfo& info = code.regs[r];
    if (info.is_constant) varying[r] = 0;
    if (info.is_special)
      varying[r] = info.bits >= static_cast<std::uint64_t>(Special::kFirstVarying);
  }
  for (bool changed = enable; changed;) {
    changed = false;
    for (std::uint32_t b = 0; b < n; ++b) {
      Block& block = code.blocks[b];
      for (Inst& i : block.code) {
        bool v = divergent[b] || has_own_result_per_lane(i);
        for_reads(i, [&](Reg r) { v = v || varying[r]; });
        // One instruction runs once or per lane; a vector load cannot do both.
        if (i.destinations > 1) for_writes(i, [&](Reg r) { v = v || varying[r]; });
        if (!v) continue;
        for_writes(i, [&](Reg r) {
          if (!varying[r]) varying[r] = 1, changed = true;
        });
      }
      if (block.end != Block::End::kBranch || marked[b] || !varying[block.condition]) continue;
      marked[b] = 1;
      if (only_returns(code, block.target) || only_returns(code, block.next)) continue;
      BlockList work = {block.target, block.next};
      std::vector<char> seen(n, 0);
      while (!work.empty()) {
        std::uint32_t w = work.back();
        work.pop_back();
        if (w == block.join || seen[w]) continue;
        seen[w] = 1;
        if (!divergent[w]) divergent[w] = 1, changed = true;
        for (std::uint32_t s : successors(code.blocks[w])) work.push_back(s);
      }
    }
  }
  for (Reg r = 0; r < code.regs.size(); ++r) code.regs[r].uniform = !varying[r];
  for (Block& block : code.blocks) {
    for (Inst& i : block.code) {
      i.uniform = is_plain(i.op) || i.op == Op::kLoad || i.op == Op::kLoadParam;
      for_reads(i, [&](Reg r) { i.uniform = i.uniform && !varying[r]; });
      for_writes(i, [&](Reg r) { i.uniform = i.uniform && !varying[r]; });
    }
    block.divergent = divergent[static_cast<std::size_t>(&block - code.blocks.data())];
    block.uniform_branch = block.condition != kNoReg && !varying[block.condition];
  }
}

}  // namespace driftc::runtime::ptx
