#include "runtime/study/propagate.h"

#include <algorithm>

#include "ir/support/round.h"
#include "runtime/study/inherited_errors.h"

namespace driftc::runtime::study {
namespace {

double largest(const ir::Tensor& tensor) {
  double out = 0;
  if (tensor.defined())
    for (double v : tensor.data<double>()) out = std::max(out, v);
  return out;
}
// NaN says nothing about an error: no bound. The slack covers the rules' arithmetic.
void finish(ir::Tensor& tensor) {
  for (double& v : tensor.data_mut<double>()) v = v >= 0 ? mul_rn(v, kSlack) : kUnbounded;
}

ir::Tensor usable(const ir::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const auto values = tensor.data<double>();
  if (std::none_of(values.begin(), values.end(), [](double v) { return v != v; })) return tensor;
  ir::Tensor out = ir::Tensor::of<double>(tensor.shape(), values);
  for (double& v : out.data_mut<double>()) v = v >= 0 ? v : kUnbounded;
  return out;
}

}  // namespace

ErrorPropagation::ErrorPropagation(const ir::Graph& graph, ThreadPool& pool)
    : graph_(graph), pool_(pool), carried_(graph.value_count()) {}

NodeErrors ErrorPropagation::step(ir::NodeId id, std::span<const ir::Tensor> operands,
                                  const ir::Tensor& result, const LocalError& local) {
  const ir::Node& node = graph_.node(id);
  Incoming in{graph_, id, node, operands, {}, result, pool_};
  NodeErrors out;
  bool exact = true;
  double operand_max = 0, operand_variance = 0;
  for (ir::ValueId operand : node.operands) {
    in.errors.push_back(carried_[operand.index]);
    exact = exact && in.exact(in.errors.size() - 1);
    operand_max = std::max(operand_max, largest(in.errors.back().bound));
    operand_variance = std::max(operand_variance, largest(in.errors.back().variance));
  }
  out.local = {usable(local.error.bound), usable(local.error.variance)};
  if (!exact) {
    out.inherited = inherited_errors(in);
    finish(out.inherited.bound);
    finish(out.inherited.variance);
  }
  const auto total = [&](const ir::Tensor& a, const ir::Tensor& b) {
    if (!a.defined()) return b;
    if (!b.defined()) return a;
    ir::Tensor sum(ir::DType::kF64, result.shape());
    const auto to = sum.data_mut<double>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = mul_rn(add_rn(a.data<double>()[i], b.data<double>()[i]), kSlack);
    return sum;
  };
  carried_[node.result.index] = {total(out.inherited.bound, out.local.bound),
                                 total(out.inherited.variance, out.local.variance)};
  out.inherited_max = largest(out.inherited.bound);
  out.local_max = largest(out.local.bound);
  out.inherited_sigma = sqrt_rn(largest(out.inherited.variance));
  out.local_sigma = sqrt_rn(largest(out.local.variance));
  if (operand_max > 0) out.amplification = div_rn(out.inherited_max, operand_max);
  if (operand_variance > 0)
    out.amplification_sigma = div_rn(out.inherited_sigma, sqrt_rn(operand_variance));
  return out;
}

}  // namespace driftc::runtime::study
