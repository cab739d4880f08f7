// Control-flow facts shared by the stages. Private to runtime/ptx.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {

using BlockList = std::vector<std::uint32_t>;

// Successors of a block (0, 1 or 2), and the inverse for all blocks.
BlockList successors(const Block& block);
std::vector<BlockList> predecessors(const Code& code);

// Immediate dominators by the iterative algorithm of Cooper, Harvey and Kennedy over any graph
// given by its edges; node `root` dominates all. Unreachable nodes get themselves.
std::vector<std::uint32_t> dominators(const std::vector<BlockList>& next,
                                      const std::vector<BlockList>& previous, std::uint32_t root);
bool dominates(const std::vector<std::uint32_t>& idom, std::uint32_t a, std::uint32_t b);

// Calls fn(reg) for every register an instruction reads, the guard included. A guarded instruction
// also keeps the old value of its destinations in the lanes that are off, so those count as read.
template <class F>
void for_reads(const Inst& i, F fn) {
  for (std::uint8_t s = 0; s < i.sources; ++s) fn(i.src[s]);
  if (i.guard != kNoReg) {
    fn(i.guard);
    for (std::uint8_t d = 0; d < i.destinations; ++d) fn(i.dst[d]);
  }
}
template <class F>
void for_writes(const Inst& i, F fn) {
  for (std::uint8_t d = 0; d < i.destinations; ++d) fn(i.dst[d]);
}

// How often each register is written and read in the whole kernel.
struct Counts {
  std::vector<std::uint32_t> writes, reads;
};
Counts count_uses(const Code& code);

// Whether every register is written before it is read, on every path from the kernel's begin;
// before branches are converted, since a guarded instruction keeps what its register held before.
bool writes_before_reads(const Code& code);

}  // namespace driftc::runtime::ptx
