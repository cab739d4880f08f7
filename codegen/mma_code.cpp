#include "codegen/mma_code.h"

#include <fmt/format.h>

namespace driftc::codegen {
namespace {

constexpr std::string_view kInline = "static __device__ __forceinline__ ";

std::string operand_functions(ir::Precision in) {
  const std::string head = std::string(kInline);
  switch (in) {
    case ir::Precision::kTf32Rna:
      return "// TF32, nearest, ties away from zero.\n" + head +
             "unsigned operand_word(float x) {\n"
             "  unsigned word;\n"
             "  asm(\"cvt.rna.tf32.f32 %0, %1;\" : \"=r\"(word) : \"f\"(x));\n"
             "  return word;\n"
             "}\n";
    case ir::Precision::kTf32Trunc:
      return "// TF32 by truncation: the tensor core drops the low 13 bits itself.\n" + head +
             "unsigned operand_word(float x) { return __float_as_uint(x); }\n";
    default:
      break;
  }
  const char* type = in == ir::Precision::kF16 ? "f16" : "bf16";
  return fmt::format(
      "// {0}, nearest, ties to even.\n{1}unsigned short {0}_bits(float x) {{\n"
      "  unsigned short bits;\n"
      "  asm(\"cvt.rn.{0}.f32 %0, %1;\" : \"=h\"(bits) : \"f\"(x));\n"
      "  return bits;\n"
      "}}\n"
      "{1}unsigned operand_word(float low, float high) {{\n"
      "  return (unsigned){0}_bits(low) | (unsigned){0}_bits(high) << 16;\n"
      "}}\n",
      type, head);
}

// "mma.sync..." on fragments `a` and `b`, sums in %0 to %3.
std::string instruction(const ir::MmaSpec& mma, const std::vector<std::string>& a,
                        const std::vector<std::string>& b) {
  std::string a_list, b_list, inputs;
  std::size_t next = 4;
  const auto operand = [&](std::string& list, const std::string& value) {
    list += fmt::format("{}%{}", list.empty() ? "" : ",", next++);
    inputs += fmt::format("{}\"r\"({})", inputs.empty() ? "" : ", ", value);
  };
  for (const std::string& v : a) operand(a_list, v);
  for (const std::string& v : b) operand(b_list, v);
  return fmt::format(
      "  asm volatile(\"mma.sync.aligned.{0}.row.col.f32.{1}.{1}.f32 \"\n"
      "               \"{{%0,%1,%2,%3}}, {{{2}}}, {{{3}}}, {{%0,%1,%2,%3}};\"\n"
      "               : \"+f\"(c0), \"+f\"(c1), \"+f\"(c2), \"+f\"(c3)\n"
      "               : {4});\n",
      mma.shape, mma.dtype, a_list, b_list, inputs);
}

}  // namespace

int operands_per_word(const ir::MmaSpec& mma) { return mma.dtype == "tf32" ? 1 : 2; }

Result<std::vector<DeviceFunction>> mma_prelude(const ir::NumericContract& contract) {
  const ir::MmaSpec& mma = contract.order->mma;
  const bool whole = mma.k() == (mma.dtype == "tf32" ? 8 : 16);
  if (mma.arch == "sm_70" || (!whole && !(mma.k() == 8 && mma.dtype != "tf32")))
    return internal_error(
        fmt::format("no kernel uses mma {} of {} on {}", mma.shape, mma.dtype, mma.arch));
  if (contract.in != ir::operand_precision(mma) || contract.acc != ir::Precision::kF32 ||
      contract.ftz)
    return internal_error("a tensor-core kernel takes operands of its own format and sums in f32");

  std::vector<DeviceFunction> out;
  const std::string head = std::string(kInline);
  out.push_back({"",
                 "using total_t = float;\n"
                 "struct Sum { float value; };  // the running sum of one output\n"});
  const auto function = [&](const char* name, std::string text) {
    out.push_back({name, std::move(text)});
  };
  function("start", head + "void start(Sum& s, float v) { s.value = v; }\n");
  function("plus", head + "float plus(float a, float b) { return __fadd_rn(a, b); }\n");
  function("rounded", head + "float rounded(float total) { return total; }\n");
  function("operand_word", operand_functions(contract.in));
  function("load_fragments",
           "// Four matrices of 8 rows x 16 bytes; thread 8 q + r names row r of matrix q.\n" +
               head +
               "void load_fragments(unsigned (&r)[4], const unsigned* row) {\n"
               "  const unsigned at = (unsigned)__cvta_generic_to_shared(row);\n"
               "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\"\n"
               "               : \"=r\"(r[0]), \"=r\"(r[1]), \"=r\"(r[2]), \"=r\"(r[3])\n"
               "               : \"r\"(at)\n"
               "               : \"memory\");\n"
               "}\n");
  std::string body;
  if (whole) {
    body = instruction(mma, {"a[0]", "a[1]", "a[2]", "a[3]"}, {"b0", "b1"});
  } else {
    body = instruction(mma, {"a[0]", "a[1]"}, {"b0"}) + instruction(mma, {"a[2]", "a[3]"}, {"b1"});
  }
  function("multiply_block",
           fmt::format("// 16 rows x 8 columns; thread 4 g + t holds rows g and g + 8, columns 2 t "
                       "and 2 t + 1.\n"
                       "// Rounding is that of {}'s tensor cores: blocks of exact products, "
                       "truncated.\n",
                       mma.arch) +
               head +
               "void multiply_block(float& c0, float& c1, float& c2, float& c3,\n"
               "                    const unsigned (&a)[4], unsigned b0, unsigned b1) {\n" +
               body + "}\n");
  return out;
}

}  // namespace driftc::codegen
