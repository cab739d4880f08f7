// Weights of a convolution with the batch_norm after it folded in. Internal to runtime/eager.
#pragma once

#include "ir/numeric.h"
#include "ir/tensor.h"

namespace driftc::runtime {

struct FoldedConv {
  ir::Tensor weight, bias;
};

// `bias` may be undefined (no bias: b = 0). All tensors are of one type; in the f64 arm nothing is
// rounded to f32.
FoldedConv fold_batch_norm(ir::Fold fold, const ir::Tensor& weight, const ir::Tensor& bias,
                           const ir::Tensor& scale, const ir::Tensor& shift, const ir::Tensor& mean,
                           const ir::Tensor& variance, double epsilon);

}  // namespace driftc::runtime
