// f32 values rounded to a 16-bit type and back: what storing them in that type does to the bits.
#pragma once

#include <string>

#include "codegen/cuda_writer.h"
#include "ir/numeric.h"

namespace driftc::codegen {

// "to_f16(x)", "to_bf16(x)"; `x` itself for f32.
std::string rounded_to(ir::Precision precision, const std::string& x);
// The function that rounded_to calls; declared once per kernel where asked for (f32: nothing).
void declare_rounding(KernelBuilder& builder, ir::Precision precision);
DeviceFunction rounding_function(ir::Precision precision);

}  // namespace driftc::codegen
