#include "codegen/round_code.h"

namespace driftc::codegen {

std::string rounded_to(ir::Precision precision, const std::string& x) {
  if (precision == ir::Precision::kF16) return "to_f16(" + x + ")";
  if (precision == ir::Precision::kBF16) return "to_bf16(" + x + ")";
  return x;
}

DeviceFunction rounding_function(ir::Precision precision) {
  if (precision == ir::Precision::kF16)
    return {"to_f16",
            "// Nearest f16, ties to even, as f32.\n"
            "static __device__ __forceinline__ float to_f16(float x) {\n"
            "  unsigned short bits;\n"
            "  float y;\n"
            "  asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x));\n"
            "  asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(bits));\n"
            "  return y;\n"
            "}\n"};
  return {"to_bf16",
          "// Nearest bf16, ties to even, as f32. In integers: not every device has the "
          "conversion.\n"
          "static __device__ __forceinline__ float to_bf16(float x) {\n"
          "  const unsigned bits = __float_as_uint(x);\n"
          "  const unsigned rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u;\n"
          "  return __uint_as_float((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFF0000u : rounded);\n"
          "}\n"};
}

void declare_rounding(KernelBuilder& builder, ir::Precision precision) {
  if (precision == ir::Precision::kF16 || precision == ir::Precision::kBF16)
    builder.prelude({rounding_function(precision)});
}

}  // namespace driftc::codegen
