// How a value must be computed: ReductionOrder (the order and arithmetic of one sum), its
// denotation as a summation program, and NumericContract (everything else that decides about bits).
//
// The text form of an order, outermost first (architecture.md, "ReductionOrder"):
//   ORDER  := WALK [".kpad"N] [".skip"] [".split"S["p"|"a"]] [".lanes"L] [".acc"A] [".tile"N] "."
//   ARITH [BIAS] WALK   := "k" (matmul) | "hw" (pool, mean) | "crs" | "rsc" | "c"N"rs" ARITH  :=
//   "fma" | "muladd" | "add" | "kahan" | "f64" | "mma(ARCH,DTYPE,SHAPE[,rna|,trunc])" BIAS   :=
//   "+bias.first" | "+bias.last" | "+bias.stored"
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/support/result.h"

namespace driftc::ir {

enum class Walk : std::uint8_t { kK, kHw, kCrs, kRsc, kTiledCrs };
enum class Arith : std::uint8_t { kFma, kMulAdd, kAdd, kKahan, kF64, kMma };
enum class BiasPoint : std::uint8_t { kNone, kFirst, kLast, kStored };
enum class SplitCombine : std::uint8_t { kSerial, kPairwise, kAtomic };

// The tensor-core instruction of an `mma(...)` order, for example mma(sm_90,tf32,m16n8k8,rna).
struct MmaSpec {
  std::string arch, dtype, shape;
  std::string rounding;  // "", "rna" or "trunc": how f32 operands become tf32
  int k() const;         // the k extent of `shape`
  friend bool operator==(const MmaSpec&, const MmaSpec&) = default;
};

struct ReductionOrder {
  Walk walk = Walk::kCrs;
  int channel_tile = 0;  // kTiledCrs only
  int kpad = 0;          // 0: none
  bool skip = false;     // padding positions are removed before counting
  int split = 1;
  SplitCombine combine = SplitCombine::kSerial;
  int lanes = 1;  // power of two
  int acc = 1;
  int tile = 0;  // 0: none
  Arith arith = Arith::kFma;
  MmaSpec mma;  // kMma only
  BiasPoint bias = BiasPoint::kNone;
  friend bool operator==(const ReductionOrder&, const ReductionOrder&) = default;
};

std::string to_string(const ReductionOrder& order);
// Errors carry the column in `text` (place.column, file "order") and what would be accepted.
Result<ReductionOrder> parse_order(std::string_view text);
// A list as in `--eager-order` sweeps: commas outside parentheses separate.
Result<std::vector<ReductionOrder>> parse_order_list(std::string_view text);

// Extents of one reduction. Positions are numbered canonically, p = (c * R + r) * S + s, whatever
// the walk; a matmul has C = K and R = S = 1, a pooling window or a mean has C = 1.
struct ReductionExtent {
  std::int64_t c = 1, r = 1, s = 1;
  std::int64_t positions() const { return c * r * s; }
};

// One sum as a program over slots. Slot i starts as chain i: its start value (+0, or the bias when
// `starts_with_bias`) followed by its leaves in order under the order's arithmetic. Then the
// additions run in sequence, slot[to] = add_rn(slot[to], slot[from]). The sum is slot[0]. A chain
// without leaves is its start value. Leaves are canonical positions; kZeroLeaf is a
// (+0) * (+0) leaf of `.kpad`.
struct SumProgram {
  static constexpr std::int32_t kZeroLeaf = -1;
  struct Chain {
    std::vector<std::int32_t> leaves;
    bool starts_with_bias = false;
  };
  struct Addition {
    std::int32_t to, from;
  };
  std::vector<Chain> chains;
  std::vector<Addition> additions;
};

// The denotation of `order`: the one definition that replay, bounds, tree printing and code
// generation share. `padded` (empty, or one flag per canonical position) marks padding positions;
// it matters for `.skip` only. `atomic_seed` orders the slices of a `splitSa` order as the PTX
// executor's schedule does (seeded_permutation of ir/support/hash.h; 0: ascending). For kMma a
// chain lists the leaves in order; blocks of mma.k() leaves are one instruction.
SumProgram denote(const ReductionOrder& order, const ReductionExtent& extent,
                  std::span<const bool> padded = {}, std::uint64_t atomic_seed = 0);

enum class Precision : std::uint8_t { kF32, kTf32Rna, kTf32Trunc, kF16, kBF16, kF64 };
// What an mma order makes of f32 operands: tf32 rounded (rna) or truncated (else), f16, bf16.
Precision operand_precision(const MmaSpec& mma);
std::string_view name_of(Precision precision);  // f32 tf32:rna tf32:trunc f16 bf16 f64
std::optional<Precision> parse_precision(std::string_view text);  // "tf32" is tf32:rna

// How a batch_norm was folded into the weights of the convolution before it: not at all, computed
// in f64 and rounded once, or in f32 as frameworks do.
enum class Fold : std::uint8_t { kNone, kF64, kF32 };
std::string_view name_of(Fold fold);

// A convolution that is not the sum of its order but Winograd's F(m,3) (ir/winograd.h): `order`
// then describes the channel sums between the transforms, `in` the rounding of their operands.
struct Transform {
  int m = 0;                            // outputs of a tile along one axis, 2 or 4; 0: none
  Precision filters = Precision::kF32;  // arithmetic of the filters' transform: f32 or f64
  friend bool operator==(const Transform&, const Transform&) = default;
};
std::string to_string(const Transform& transform);  // "none", "winograd2:f32", "winograd4:f64"
std::optional<Transform> parse_transform(std::string_view text);

// Everything about the computation of one kernel (or of one op run eagerly) that decides about
// bits.
struct NumericContract {
  std::optional<ReductionOrder> order;  // empty: the op has no reduction
  Precision in = Precision::kF32;       // operands of products
  Precision acc = Precision::kF32;      // accumulator
  Precision inner = Precision::kF32;    // values between the ops of one kernel
  Precision store = Precision::kF32;    // results are rounded to it: f32, f16 or bf16
  bool contract = false;                // mul+add in pointwise code and epilogues is one fma
  bool ftz = false;                     // subnormals flushed
  Fold fold = Fold::kNone;
  Transform transform = {};  // printed only where there is one
  friend bool operator==(const NumericContract&, const NumericContract&) = default;
};
std::string to_string(const NumericContract& contract);  // "{order=rsc.fma, in=f32, ...}"

}  // namespace driftc::ir
