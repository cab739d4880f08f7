#include <fmt/format.h>

#include <cmath>

#include "ir/support/half.h"
#include "ir/support/hash.h"
#include "ir/support/round.h"
#include "runtime/study/compile.h"
#include "runtime/study/report.h"

namespace driftc::runtime::study {

Result<std::vector<NamedTensor>> bind_inputs(const ir::Graph& source,
                                             const std::vector<NamedTensor>& inputs) {
  std::vector<std::string> names;
  for (ir::ValueId id : source.inputs()) names.push_back(source.value(id).name);
  for (const NamedTensor& input : inputs)
    if (std::find(names.begin(), names.end(), input.name) == names.end())
      return input_error("the model has no input '" + input.name + "'",
                         name_hint(input.name, names));
  std::vector<NamedTensor> bound;
  for (ir::ValueId id : source.inputs()) {
    const ir::Value& value = source.value(id);
    const NamedTensor* found = nullptr;
    for (const NamedTensor& input : inputs)
      if (input.name == value.name) found = &input;
    if (found == nullptr) return input_error("input '" + value.name + "' is not given");
    if (found->tensor.shape() != value.type.shape)
      return input_error(fmt::format("input '{}' has shape {}, the model needs {}", value.name,
                                     to_string(found->tensor.shape()),
                                     to_string(value.type.shape)));
    if (found->tensor.dtype() != value.type.dtype)
      return input_error(fmt::format("input '{}' is {}, the model needs {}", value.name,
                                     ir::name_of(found->tensor.dtype()),
                                     ir::name_of(value.type.dtype)));
    bound.push_back(*found);
  }
  return bound;
}

InputReport describe_input(const std::string& name, const ir::Tensor& tensor) {
  InputReport report;
  report.name = name;
  report.hash = hash64_hex(tensor.bytes());
  report.type = {tensor.dtype(), tensor.shape(), ir::Layout::kNchw};
  if (tensor.dtype() != ir::DType::kF32) return report;
  bool any = false;
  for (float v : tensor.data<float>()) {
    if (std::isnan(v)) {
      ++report.nan;
      continue;
    }
    if (std::isinf(v)) {
      ++report.inf;
      continue;
    }
    const double wide = v;
    report.min = any ? std::fmin(report.min, wide) : wide;
    report.max = any ? std::fmax(report.max, wide) : wide;
    any = true;
    if (v == 0) {
      ++report.zeros;
      continue;
    }
    if (std::fpclassify(v) == FP_SUBNORMAL) ++report.subnormals;
    auto lost = [](float rounded) { return rounded == 0 || std::isinf(rounded); };
    report.not_f16 += lost(f16_to_f32(f32_to_f16_rne(v)));
    report.not_bf16 += lost(bf16_to_f32(f32_to_bf16_rne(v)));
    report.not_tf32 += lost(tf32_rna(v));
  }
  return report;
}

}  // namespace driftc::runtime::study
