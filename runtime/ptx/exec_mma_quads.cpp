// mma.m8n8k4 as Volta has it: each pair of quads of a warp multiplies an 8x4 by a 4x8 matrix of its
// own. Element by element on the scalar model: no kernel of ours uses it, captured outputs do.
#include <array>
#include <bit>

#include "ir/support/half.h"
#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {
namespace {

constexpr std::size_t kQuad = 4, kHighQuads = 16;

std::uint32_t& word(Frame& f, const Place& p, std::size_t lane) {
  return *(reinterpret_cast<std::uint32_t*>(f.regs + p.offset) + (p.mask == 0 ? 0 : lane));
}
float half_in(std::uint32_t pair, std::size_t i) {
  return f16_to_f32(static_cast<std::uint16_t>(pair >> (16 * i)));
}

}  // namespace

// PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type". Row r of A, row-major,
// and column r of B, column-major, are the four values of one thread: thread r of the low quad, or
// thread r - 4 of the high one.
void mma_of_quad_pairs(const BoundInst& in, Frame& f, std::size_t warp) {
  const MmaShape& shape = *in.mma;
  const bool half = shape.core.accumulator == TcAccumulator::kF16;
  const Place *a = in.src, *b = in.src + 2, *c = in.src + 4;
  for (std::size_t pair = 0; pair < 4; ++pair) {
    const auto thread = [&](std::size_t row) {
      return warp + kQuad * pair + (row < kQuad ? row : kHighQuads + row - kQuad);
    };
    const auto vector = [&](const Place* from, std::size_t row) {
      const std::uint32_t low = word(f, from[0], thread(row)), high = word(f, from[1], thread(row));
      return std::array<float, 4>{half_in(low, 0), half_in(low, 1), half_in(high, 0),
                                  half_in(high, 1)};
    };
    std::array<std::array<float, 4>, 8> d;  // of the part's columns; C before
    // Where element (row, column of the part) of C and D is: register and thread, and with f16
    // accumulators which half of it.
    struct At {
      std::size_t reg, lane, part;
    };
    const auto at = [&](std::size_t row, std::size_t column) -> At {
      if (half) return {column / 2, thread(row), column % 2};
      const std::size_t lane =
          warp + kQuad * pair + (row & 1) + (column & 2) + (row < kQuad ? 0 : kHighQuads);
      return {(row & 2) + (column & 1), lane, 0};
    };
    for (std::size_t row = 0; row < 8; ++row) {
      const std::array<float, 4> left = vector(a, row);
      for (std::size_t column = 0; column < 4; ++column) {
        const At from = at(row, column);
        const std::uint32_t bits = word(f, c[from.reg], from.lane);
        const float start = half ? half_in(bits, from.part) : std::bit_cast<float>(bits);
        const std::array<float, 4> right =
            vector(b, column + static_cast<std::size_t>(shape.column));
        d[row][column] = tensor_core_chain(shape.core, shape.k, start, left, right).value;
      }
    }
    for (std::size_t row = 0; row < 8; ++row)
      for (std::size_t column = 0; column < 4; ++column) {
        const At to = at(row, column);
        std::uint32_t& bits = word(f, in.dst[to.reg], to.lane);
        if (!half) {
          bits = std::bit_cast<std::uint32_t>(d[row][column]);
          continue;
        }
        const std::uint32_t shift = to.part == 0 ? 0 : 16;
        bits = (bits & ~(0xFFFFu << shift)) |
               static_cast<std::uint32_t>(f32_to_f16_rne(d[row][column])) << shift;
      }
  }
}

}  // namespace driftc::runtime::ptx
