#include "runtime/study/cudnn_model.h"

#include <fmt/format.h>

#include "ir/kernel.h"
#include "ir/precision.h"
#include "runtime/study/source_map.h"

namespace driftc::runtime::study {
namespace {

ir::Precision operands_of(const Answer& answer) {
  const std::string& precision = answer.choice.precision;
  if (answer.depthwise_kernel) return ir::Precision::kF32;
  if (precision == "tf32") return ir::Precision::kTf32Rna;
  if (precision == "f16") return ir::Precision::kF16;
  if (precision == "bf16") return ir::Precision::kBF16;
  return ir::Precision::kF32;
}

// cuDNN names the input tile of its Winograd engines, m + 2 wide for F(m,3). An assumption; the
// note without a tile says less still.
ir::Algorithm transform_of(const cuda::EngineChoice& choice) {
  if (choice.algorithm == cuda::Algorithm::kWinograd) {
    if (choice.has_note("WINOGRAD_TILE_4x4")) return ir::Algorithm::kWinograd2;
    if (choice.has_note("WINOGRAD_TILE_6x6")) return ir::Algorithm::kWinograd4;
  }
  return ir::Algorithm::kDirect;
}

// What of the engine has no model; "" where there is one.
std::string gap_of(const ir::Graph& graph, const ir::Node& node, const cuda::EngineChoice& choice) {
  if (choice.algorithm == cuda::Algorithm::kFft) return "FFT";
  if (choice.algorithm != cuda::Algorithm::kWinograd) return "";
  const ir::Algorithm transform = transform_of(choice);
  if (ir::winograd_tile(transform) != 0) {
    const std::string why = ir::why_not(transform, graph, node);
    return why.empty() ? "" : fmt::format("Winograd ({})", why);
  }
  return choice.has_note("WINOGRAD_TILE_13x13") ? "Winograd with 13x13 tiles" : "Winograd";
}

}  // namespace

CudnnModel cudnn_model(const ir::Graph& graph, const EagerPlan& plan, const DeviceProfile& device) {
  CudnnModel out;
  out.cudnn_version = plan.cudnn_version;
  out.device = device.name;
  std::map<std::string, const Answer*> answers;
  ir::PrecisionPlan precisions;
  precisions.mma_arch = device.mma_arch;
  for (const PlanGroup& group : plan.groups)
    for (const std::string& node : group.nodes) {
      answers[node] = &group.devices.front().answer;
      precisions.nodes[node] = operands_of(*answers[node]);
    }
  const std::vector<ir::NumericContract> contracts =
      eager_contracts(graph, std::nullopt, precisions, {});
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    const std::string& name = graph.value(node.result).name;
    ir::NumericContract contract = contracts[i];
    if (node.op == ir::Op::kConv2d) {
      const auto found = answers.find(name);
      DRIFTC_ASSERT(found != answers.end(), "a plan of another graph");
      const Answer& answer = *found->second;
      // Where driftc has no tensor-core kernel for the node (thin groups), its operands are rounded
      // all the same.
      if (contract.in == ir::Precision::kF32) contract.in = operands_of(answer);
      const std::string gap = gap_of(graph, node, answer.choice);
      if (const int m = ir::winograd_tile(transform_of(answer.choice)); m != 0 && gap.empty()) {
        contract.order = ir::channel_sums(*contract.order);
        contract.transform = {m, ir::Precision::kF32};
      }
      out.convolutions.push_back({name, answer, contract, gap});
    }
    out.contracts[name] = contract;
  }
  return out;
}

}  // namespace driftc::runtime::study
