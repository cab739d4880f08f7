#include "runtime/study/cudnn_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/eager_order.h"

namespace driftc::runtime::study {
namespace {

ir::Precision operands_of(const std::string& precision) {
  if (precision == "tf32") return ir::Precision::kTf32Rna;
  if (precision == "f16") return ir::Precision::kF16;
  if (precision == "bf16") return ir::Precision::kBF16;
  return ir::Precision::kF32;
}

// cuDNN names the input tile of its Winograd engines: 4x4 is F(2,3), 6x6 is F(4,3). An assumption;
// the note without a tile says less still.
std::string gap_of(const cuda::EngineChoice& choice) {
  if (choice.algorithm == cuda::Algorithm::kFft) return "FFT";
  if (choice.algorithm != cuda::Algorithm::kWinograd) return "";
  if (choice.has_note("WINOGRAD_TILE_4x4")) return "Winograd F(2,3)";
  if (choice.has_note("WINOGRAD_TILE_6x6")) return "Winograd F(4,3)";
  if (choice.has_note("WINOGRAD_TILE_13x13")) return "Winograd with 13x13 tiles";
  return "Winograd";
}

}  // namespace

std::map<std::string, ir::NumericContract> CudnnModel::contracts() const {
  std::map<std::string, ir::NumericContract> out;
  for (const ModelledConvolution& c : convolutions) out[c.node] = c.contract;
  return out;
}

CudnnModel cudnn_model(const ir::Graph& graph, const EagerPlan& plan, const DeviceProfile& device) {
  CudnnModel out;
  out.cudnn_version = plan.cudnn_version;
  out.device = device.name;
  std::map<std::string, const Answer*> answers;
  for (const PlanGroup& group : plan.groups)
    for (const std::string& node : group.nodes) answers[node] = &group.devices.front().answer;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op != ir::Op::kConv2d) continue;
    const std::string& name = graph.value(node.result).name;
    const auto found = answers.find(name);
    DRIFTC_ASSERT(found != answers.end(), "a plan of another graph");
    ModelledConvolution c{name, *found->second, {}, gap_of(found->second->choice)};
    c.contract.order = ir::eager_order(node, std::nullopt);
    c.contract.in = operands_of(c.answer.choice.precision);
    out.convolutions.push_back(std::move(c));
  }
  return out;
}

}  // namespace driftc::runtime::study
