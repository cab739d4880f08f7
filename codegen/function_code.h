// The functions of ir/functions.def as device functions: the steps of ir/function_steps.h and
// ir/exp_steps.h, printed. `sigmoid_of(x)`, `pow_of(x, y)`, `elu_of(x, alpha)` ... ; exp is
// `exp_by_steps(x)`.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda_writer.h"
#include "ir/functions.h"

namespace driftc::codegen {

// `float exp_by_steps(float)` alone.
std::vector<DeviceFunction> exp_prelude();
// The function and what it calls, in an order in which they compile.
std::vector<DeviceFunction> function_prelude(ir::Function function);
std::string function_name(ir::Function function);

}  // namespace driftc::codegen
