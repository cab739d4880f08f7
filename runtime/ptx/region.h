// Outer-product regions: a run of shared loads and chains of fma.rn.f32 inside one block, executed
// 16 lanes at a time with the accumulators in machine registers.
//
// What it relies on: between two writes of shared memory, a shared load gives the same value
// wherever it stands, so the loads can be done when the FMA needs them. The order inside every
// chain of FMAs is kept; only independent chains change their order relative to each other. So
// every bit is the same as in the plain form, which is kept as `fallback` for when some lanes are
// off.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {

struct Region {
  // Where multiplicands come from: an address register of shared loads, or a register that holds
  // the value itself.
  struct Base {
    Reg reg = kNoReg;
    bool is_address = false;
    std::vector<std::uint32_t> operands;          // of this base
    std::int32_t min_offset = 0, max_offset = 0;  // of the loads, bytes
  };
  struct Operand {
    std::uint32_t base = 0;
    std::int32_t offset = 0;  // bytes behind the address; 0 for values
  };
  // rows x columns chains of `steps` FMAs: acc[i][j] = fma(a[i], b[j], acc[i][j]) at every step.
  struct Tile {
    std::uint32_t rows = 0, columns = 0, steps = 0;
    std::vector<std::uint32_t> a;  // operand of step s, row i: a[s * rows + i]
    std::vector<std::uint32_t> b;  // operand of step s, column j: b[s * columns + j]
    std::vector<Reg> in, out;      // accumulators, [i * columns + j]
    // Filled once the operands are known. kMixed: operands of one row come from several bases.
    std::vector<std::uint32_t> a_base, b_base;
  };
  static constexpr std::size_t kMaxBases = 256;
  static constexpr std::uint32_t kMixed = ~std::uint32_t{0};

  std::vector<Base> bases;
  std::vector<Operand> operands;
  std::vector<Tile> tiles;
  std::vector<Reg> inputs, outputs;  // registers read from, and left behind
  std::vector<Inst> fallback;        // the same work, instruction by instruction
};

}  // namespace driftc::runtime::ptx
