// fold-batchnorm: conv2d (constant weights, read by the batch_norm only) + batch_norm with constant
// statistics -> one conv2d with new weights and bias under fresh names. NumericEffect:
// ChangesRounding. Runs after canonicalize. Per weight, each step one f64 operation to nearest,
// rounded to f32 once (`in=f32`: each step in f32, as frameworks do; the attribute `fold` tells):
//   inv = 1 / sqrt(var + epsilon); s = scale * inv;
//   w' = w * s; b' = (b - mean) * s + shift, b = 0 without bias
// Refused: anything but identities between the two in the source, or a bias that was an `add`
// there (replay folds source nodes); results that are not finite; weights that are no constant;
// other readers of the conv; types other than f32; match-order on, which could not undo it.
// Weights shared by two convolutions are folded once per use, never in place.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> fold_batchnorm(const ir::Graph& graph, const PassContext& context);

// The arithmetic, for one output channel: `weights` becomes w'; returns b'.
float fold_channel(std::span<float> weights, float bias, float scale, float shift, float mean,
                   float var, double epsilon, ir::Fold how);

}  // namespace driftc::passes
