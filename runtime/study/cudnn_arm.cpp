#include "runtime/study/cudnn_arm.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/support/round.h"

namespace driftc::runtime::study {
namespace {

// Zeros around the image where the padding of two sides differs: what is more than the smaller side
// goes to the larger one.
ir::Tensor padded(const ir::Tensor& x, const std::vector<std::int64_t>& pad) {
  const std::int64_t top = std::max<std::int64_t>(pad[0] - pad[2], 0),
                     left = std::max<std::int64_t>(pad[1] - pad[3], 0),
                     bottom = std::max<std::int64_t>(pad[2] - pad[0], 0),
                     right = std::max<std::int64_t>(pad[3] - pad[1], 0);
  if (top + left + bottom + right == 0) return x;
  const ir::Shape& from = x.shape();
  ir::Tensor out(x.dtype(), {from[0], from[1], from[2] + top + bottom, from[3] + left + right});
  const auto source = x.data<float>();
  const auto target = out.data_mut<float>();
  std::ranges::fill(target, 0.0f);
  const std::int64_t width = from[3] + left + right, height = from[2] + top + bottom;
  for (std::int64_t plane = 0; plane < from[0] * from[1]; ++plane)
    for (std::int64_t y = 0; y < from[2]; ++y)
      std::copy_n(source.data() + (plane * from[2] + y) * from[3], from[3],
                  target.data() + (plane * height + y + top) * width + left);
  return out;
}

void add_bias(ir::Tensor& y, const ir::Tensor& bias) {
  const ir::Shape& shape = y.shape();
  const std::int64_t plane = shape[2] * shape[3];
  const auto to = y.data_mut<float>();
  const auto b = bias.data<float>();
  for (std::int64_t i = 0; i < shape[0] * shape[1]; ++i)
    for (std::int64_t p = 0; p < plane; ++p) {
      float& value = to[static_cast<std::size_t>(i * plane + p)];
      value = add_rn(value, b[static_cast<std::size_t>(i % shape[1])]);
    }
}

}  // namespace

Result<std::shared_ptr<CudnnArm>> CudnnArm::open(const ir::Graph& graph,
                                                 std::shared_ptr<cuda::CudnnExecutor> cudnn,
                                                 const DeviceProfile& device) {
  std::shared_ptr<CudnnArm> arm(new CudnnArm(graph));
  const EagerPlanSettings settings{.devices = {device}, .flags = {}, .progress = {}};
  EagerPlan plan;
  plan.cudnn_version = cudnn->version();
  plan.groups = convolution_groups(graph, settings);
  for (PlanGroup& group : plan.groups) {
    plan.convolutions += group.nodes.size();
    if (uses_depthwise_kernel(group.problem)) {
      group.devices.push_back({depthwise_answer(settings.dtype), {}, {}});
      continue;
    }
    auto convolution = cudnn->convolution(group.problem, settings.flags);
    if (!convolution) {
      Diagnostic d = convolution.error();
      d.notes.push_back(fmt::format("for convolution {}", group.nodes[0]));
      return d;
    }
    group.devices.push_back({{false, convolution->choice()}, {}, {}});
    for (const std::string& name : group.nodes)
      arm->plan_of_[graph.value(*graph.find(name)).producer->index] = arm->plans_.size();
    arm->plans_.push_back(std::move(*convolution));
  }
  arm->model_ = cudnn_model(graph, plan, device);
  arm->model_.ran = true;
  return arm;
}

ir::Tensor CudnnArm::run(ir::NodeId id, std::span<const ir::Tensor> operands) {
  const ir::Node& node = graph_.node(id);
  auto y = plans_[*plan_of_[id.index]].run(padded(operands[0], node.ints("pad")), operands[1]);
  if (!y) {
    if (!failed_) {
      failed_ = y.error();
      failed_->notes.push_back(fmt::format("for convolution {}", graph_.name_of(id)));
    }
    ir::Tensor zeros(ir::DType::kF32, graph_.value(node.result).type.shape);
    std::ranges::fill(zeros.data_mut<float>(), 0.0f);
    return zeros;
  }
  if (operands.size() > 2) add_bias(*y, operands[2]);
  return std::move(*y);
}

Result<JudgedFile> CudnnArm::judged(ir::NodeId id, std::span<const ir::Tensor> operands,
                                    const ir::Tensor& result, const Services& services) const {
  const ir::Node& node = graph_.node(id);
  std::vector<NamedTensor> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!graph_.is_constant(node.operands[i]))
      inputs.push_back({graph_.value(node.operands[i]).name, operands[i]});
  const std::string& name = graph_.value(node.result).name;
  DRIFTC_TRY(report, judge(graph_, inputs, {{name, result}}, {}, {.node = name}, services));
  return std::move(report.files.front());
}

void let_cudnn_run(std::vector<Recipe>& recipes, CudnnArm& arm) {
  for (std::size_t i = 0; i < recipes.size(); ++i)
    if (arm.runs(ir::NodeId{static_cast<std::uint32_t>(i)})) recipes[i].runner = &arm;
}

Result<void> CudnnArm::status() const {
  if (failed_) return *failed_;
  return {};
}

}  // namespace driftc::runtime::study
