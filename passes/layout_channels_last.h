// layout-channels-last: stores the results of convolutions, and of what follows them element by
// element, as NHWC. Only storage is marked (`@nhwc`): kernels read any strides, so there are no
// conversions. form-kernels then walks convolutions with such a result channels innermost (`rsc`)
// and returns graph outputs to NCHW. NumericEffect: Reassociates (crs -> rsc). Runs before
// conv1x1-as-matmul.
//
// The whole-graph decision follows Inductor's for inference: not without convolutions nor with 300
// or more nodes per convolution; multiply-adds are weighed by measured factors (grouped 1.358, few
// channels 0.783, wide to narrow 0.725, others 0.823) and the layout changes when the weighted sum
// is not larger. `force=on` skips it.
#pragma once

#include "passes/pass.h"

namespace driftc::passes {

Result<ir::Graph> layout_channels_last(const ir::Graph& graph, const PassContext& context);

}  // namespace driftc::passes
