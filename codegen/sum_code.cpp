#include "codegen/sum_code.h"

#include <fmt/format.h>

#include "codegen/cuda_writer.h"
#include "codegen/mma_code.h"
#include "codegen/round_code.h"

namespace driftc::codegen {

using ir::Arith;

bool sums_in_f64(const ir::NumericContract& contract) {
  return contract.acc == ir::Precision::kF64 ||
         (contract.order && contract.order->arith == Arith::kF64);
}

std::string sum_suffix(const ir::NumericContract& contract) {
  std::string out;
  if (sums_in_f64(contract)) {
    out += "_f64";
  } else if (contract.order->arith == Arith::kMulAdd) {
    out += "_muladd";
  } else if (contract.order->arith == Arith::kKahan) {
    out += "_kahan";
  } else if (contract.order->arith == Arith::kMma) {
    out += "_mma";
  }
  if (contract.in == ir::Precision::kF16) out += "_f16";
  if (contract.in == ir::Precision::kBF16) out += "_bf16";
  if (contract.in == ir::Precision::kTf32Rna) out += "_tf32_rna";
  if (contract.in == ir::Precision::kTf32Trunc) out += "_tf32_trunc";
  return out;
}

Result<std::vector<DeviceFunction>> sum_prelude(const ir::NumericContract& contract) {
  const Arith arith = contract.order->arith;
  const bool f64 = sums_in_f64(contract);
  if (arith == Arith::kMma) return mma_prelude(contract);
  if (contract.acc != ir::Precision::kF32 && contract.acc != ir::Precision::kF64)
    return internal_error("accumulators are f32 or f64");
  if (f64 && arith == Arith::kKahan) return internal_error("kahan is an f32 order");
  if (contract.ftz) return internal_error("no emitter flushes subnormals");

  std::vector<DeviceFunction> out;
  const std::string inline_ = "static __device__ __forceinline__ ";
  auto types = [&](std::string text) { out.push_back({"", std::move(text)}); };
  auto function = [&](const std::string& result, const std::string& name,
                      const std::string& parameters, const std::string& body,
                      const std::string& comment = "") {
    out.push_back({name, comment + inline_ + result + " " + name + "(" + parameters + ") { " +
                             body + " }\n"});
  };
  types(f64 ? "using total_t = double;\n" : "using total_t = float;\n");
  if (f64) {
    types(
        "// The running sum of one output, in f64; one rounding to f32 at the end.\n"
        "struct Sum { double value; };\n");
    function("void", "start", "Sum& s, float v", "s.value = (double)v;");
    function("void", "add_product", "Sum& s, float x, float w",
             "s.value = __fma_rn((double)x, (double)w, s.value);");
    function("void", "add_value", "Sum& s, float x", "s.value = __dadd_rn(s.value, (double)x);");
    function("double", "plus", "double a, double b", "return __dadd_rn(a, b);");
    function("float", "rounded", "double total", "return __double2float_rn(total);");
  } else {
    if (arith == Arith::kKahan) {
      types(
          "// The running sum of one output and what its roundings lost so far (Kahan).\n"
          "struct Sum { float value, lost; };\n");
      function("void", "start", "Sum& s, float v", "s.value = v; s.lost = 0.0f;");
      out.push_back({"add_value", inline_ + "void add_value(Sum& s, float x) {\n"
                                            "  const float y = __fsub_rn(x, s.lost);\n"
                                            "  const float t = __fadd_rn(s.value, y);\n"
                                            "  s.lost = __fsub_rn(__fsub_rn(t, s.value), y);\n"
                                            "  s.value = t;\n"
                                            "}\n"});
      function("void", "add_product", "Sum& s, float x, float w", "add_value(s, __fmul_rn(x, w));");
    } else {
      types("struct Sum { float value; };  // the running sum of one output\n");
      function("void", "start", "Sum& s, float v", "s.value = v;");
      function("void", "add_value", "Sum& s, float x", "s.value = __fadd_rn(s.value, x);");
      if (arith == Arith::kFma) {
        function("void", "add_product", "Sum& s, float x, float w",
                 "s.value = __fmaf_rn(x, w, s.value);",
                 "// One rounding: the compiler may neither split an __fmaf_rn nor fuse anything "
                 "else.\n");
      } else {
        function(
            "void", "add_product", "Sum& s, float x, float w",
            "s.value = __fadd_rn(s.value, __fmul_rn(x, w));",
            "// Two roundings, of the product and of the sum; the _rn forms are never fused.\n");
      }
    }
    function("float", "plus", "float a, float b", "return __fadd_rn(a, b);");
    function("float", "rounded", "float total", "return total;");
  }
  switch (contract.in) {
    case ir::Precision::kF32:
      function("float", "operand", "float x", "return x;");
      break;
    case ir::Precision::kTf32Trunc:
      function("float", "operand", "float x",
               "return __uint_as_float(__float_as_uint(x) & 0xFFFFE000u);",
               "// TF32 by truncation: the low 13 bits are dropped.\n");
      break;
    case ir::Precision::kTf32Rna:
      out.push_back(
          {"operand",
           "// TF32, nearest, ties away from zero; infinities and NaN are only truncated.\n" +
               inline_ +
               "float operand(float x) {\n"
               "  const unsigned bits = __float_as_uint(x);\n"
               "  const unsigned half = (bits & 0x7F800000u) == 0x7F800000u ? 0u : 0x1000u;\n"
               "  return __uint_as_float((bits + half) & 0xFFFFE000u);\n"
               "}\n"});
      break;
    case ir::Precision::kF16:
    case ir::Precision::kBF16:
      out.push_back(rounding_function(contract.in));
      function("float", "operand", "float x", "return " + rounded_to(contract.in, "x") + ";");
      break;
    case ir::Precision::kF64:
      return internal_error("operands are f32; f64 is the arithmetic of a sum");
  }
  return out;
}

std::string explain_order(const ir::ReductionOrder& order) {
  std::string out = fmt::format("Order of each sum: {}. ", ir::to_string(order));
  switch (order.walk) {
    case ir::Walk::kCrs:
      out += "Channel by channel, within a channel the taps row by row";
      break;
    case ir::Walk::kRsc:
      out += "Tap by tap, at each tap all channels";
      break;
    case ir::Walk::kTiledCrs:
      out += fmt::format("{} channels at a time: tap by tap, at each tap the channels of the tile",
                         order.channel_tile);
      break;
    case ir::Walk::kK:
      out += "k = 0, 1, 2, ...";
      break;
    case ir::Walk::kHw:
      out += "Row by row";
      break;
  }
  out += ", starting from ";
  out += order.bias == ir::BiasPoint::kFirst ? "the bias.\n" : "+0.\n";
  if (order.split > 1)
    out += fmt::format(
        "The positions are cut into {} slices, summed by different blocks and combined after.\n",
        order.split);
  return out;
}

}  // namespace driftc::codegen
