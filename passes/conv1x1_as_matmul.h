// conv1x1-as-matmul: conv2d with a 1x1 kernel, stride 1, pad 0, dilation 1 and groups 1 becomes
// conv1x1_matmul, a product of [N*H*W, C] and [C, K]. Every condition is checked. NumericEffect:
// Reassociates where the matmul's order differs (it splits k when its grid is smaller than the
// device's SM count); ChangesPrecision where the precision flags of conv and matmul differ, since
// the node now follows the matmul flag. Runs after fold-batchnorm and layout-channels-last.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> conv1x1_as_matmul(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
