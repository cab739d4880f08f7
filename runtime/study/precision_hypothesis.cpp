#include "runtime/study/precision_hypothesis.h"

#include <algorithm>

#include "ir/kernel.h"
#include "ir/precision.h"
#include "runtime/eager/interpreter.h"
#include "runtime/sums/tensor_core.h"

namespace driftc::runtime::study {
namespace {

bool rounds(const PrecisionHypothesis& h, ir::OpClass op_class) {
  if (h.operands == Hypothesis::kF32) return false;
  return (op_class == ir::OpClass::conv && h.conv) || (op_class == ir::OpClass::matmul && h.matmul);
}

// The models whose results differ (numerics.md 1.3): sm_75, sm_86 and sm_89 sum as sm_80 does,
// sm_100 and sm_120 as sm_90.
constexpr const char* kArchitectures[] = {"sm_90", "sm_80", "sm_70"};

// The instruction that takes such operands; empty where the architecture has none.
std::optional<ir::MmaSpec> instruction(const std::string& arch, Hypothesis operands) {
  ir::MmaSpec mma{arch, "", "m16n8k16", ""};
  switch (operands) {
    case Hypothesis::kTf32Rna:
    case Hypothesis::kTf32Trunc:
      mma.dtype = "tf32";
      mma.shape = "m16n8k8";
      mma.rounding = operands == Hypothesis::kTf32Rna ? "rna" : "trunc";
      break;
    case Hypothesis::kF16:
      mma.dtype = "f16";
      if (arch == "sm_70") mma.shape = "m8n8k4";
      break;
    case Hypothesis::kBf16:
      mma.dtype = "bf16";
      break;
    case Hypothesis::kF32:
    case Hypothesis::kFtz:
      return std::nullopt;
  }
  if (!tensor_core(mma)) return std::nullopt;
  return mma;
}

// Whether some library computes products of the op on tensor cores (thin groups and transposed
// convolutions have kernels of their own).
bool has_products(const ir::Node& node) {
  switch (node.op) {
    case ir::Op::kConv2d:
      return node.integer("groups") == 1;
    case ir::Op::kConv1x1Matmul:
    case ir::Op::kMatmul:
    case ir::Op::kGemm:
      return true;
    default:
      return false;
  }
}

ir::Precision precision_of(Hypothesis h) {
  switch (h) {
    case Hypothesis::kTf32Rna:
      return ir::Precision::kTf32Rna;
    case Hypothesis::kTf32Trunc:
      return ir::Precision::kTf32Trunc;
    case Hypothesis::kBf16:
      return ir::Precision::kBF16;
    case Hypothesis::kF16:
      return ir::Precision::kF16;
    case Hypothesis::kF32:
    case Hypothesis::kFtz:
      break;
  }
  return ir::Precision::kF32;
}

bool fits_winograd(const ir::Graph& graph, const ir::Node& node) {
  return node.op == ir::Op::kConv2d && ir::why_not(ir::Algorithm::kWinograd2, graph, node).empty();
}

PrecisionHypothesis transformed(int m, Hypothesis operands) {
  PrecisionHypothesis h;
  h.operands = operands;
  h.winograd = m;
  return h;
}

PrecisionHypothesis autocast(Hypothesis type) {
  PrecisionHypothesis h;
  h.operands = type;
  h.autocast = true;
  return h;
}

}  // namespace

std::string name_of(const PrecisionHypothesis& h) {
  std::string name(runtime::name_of(h.operands));
  if (h.winograd != 0)
    return "winograd" + std::to_string(h.winograd) +
           (h.operands == Hypothesis::kF32 ? "" : ", " + name + " inside");
  if (h.storage) return name + " storage";
  if (h.autocast) return name + " autocast";
  if (h.operands != Hypothesis::kF32 && !(h.conv && h.matmul))
    name += h.conv ? " on convolutions" : " on matrix products";
  if (!h.arch.empty()) name += ", tensor cores of " + h.arch;
  return name;
}

std::vector<PrecisionHypothesis> graph_hypotheses(const ir::Graph& graph) {
  bool conv = false, matmul = false, fits = false;
  for (const ir::Node& node : graph.nodes()) {
    conv = conv || ir::info(node.op).op_class == ir::OpClass::conv;
    matmul = matmul || ir::info(node.op).op_class == ir::OpClass::matmul;
    fits = fits || fits_winograd(graph, node);
  }
  std::vector<PrecisionHypothesis> out = {{}}, last;
  for (Hypothesis h : {Hypothesis::kTf32Rna, Hypothesis::kTf32Trunc}) {
    if (conv && matmul) out.push_back({h, true, false, false});
    if (conv || matmul) out.push_back({h, true, true, false});
    for (const char* arch : kArchitectures) {
      if (!instruction(arch, h)) continue;
      if (conv && matmul) last.push_back({h, true, false, false, arch});
      if (conv || matmul) last.push_back({h, true, true, false, arch});
    }
  }
  for (Hypothesis h : {Hypothesis::kF16, Hypothesis::kBf16}) {
    out.push_back({h, true, true, true});
    out.push_back(autocast(h));
  }
  if (fits)
    for (int m : {2, 4}) out.push_back(transformed(m, Hypothesis::kF32));
  out.insert(out.end(), last.begin(), last.end());
  return out;
}

std::vector<PrecisionHypothesis> node_hypotheses() {
  std::vector<PrecisionHypothesis> out;
  for (Hypothesis h : all_hypotheses()) out.push_back({h, true, true, false});
  return out;
}

std::vector<PrecisionHypothesis> node_hypotheses(const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  std::vector<PrecisionHypothesis> out = node_hypotheses();
  if (ir::info(node.op).op_class == ir::OpClass::conv ||
      ir::info(node.op).op_class == ir::OpClass::matmul)
    for (Hypothesis h : {Hypothesis::kF16, Hypothesis::kBf16}) out.push_back(autocast(h));
  if (fits_winograd(graph, node))
    for (int m : {2, 4})
      for (Hypothesis h : {Hypothesis::kF32, Hypothesis::kTf32Rna, Hypothesis::kTf32Trunc})
        out.push_back(transformed(m, h));
  if (has_products(node))
    for (Hypothesis h : all_hypotheses())
      for (const char* arch : kArchitectures)
        if (instruction(arch, h)) out.push_back({h, true, true, false, arch});
  return out;
}

std::vector<Hypothesis> stored_types(const PrecisionHypothesis& h, const ir::Graph& graph) {
  std::vector<Hypothesis> out(graph.node_count(), h.storage ? h.operands : Hypothesis::kF32);
  if (!h.autocast) return out;
  ir::PrecisionPlan plan;
  plan.conv = plan.matmul = precision_of(h.operands);
  const std::vector<ir::Precision> stored = ir::stored_precisions(graph, plan);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (stored[i] != ir::Precision::kF32) out[i] = h.operands;
  return out;
}

Hypothesis operand_rounding(const PrecisionHypothesis& h, const ir::Graph& graph, ir::NodeId id) {
  const ir::Node& node = graph.node(id);
  if (h.storage || !rounds(h, ir::info(node.op).op_class)) return Hypothesis::kF32;
  // Winograd rounds what its transforms make, and nothing where it does not apply.
  return h.winograd != 0 ? Hypothesis::kF32 : h.operands;
}

int winograd_of(const PrecisionHypothesis& h, const ir::Graph& graph, ir::NodeId id) {
  return h.winograd != 0 && fits_winograd(graph, graph.node(id)) ? h.winograd : 0;
}

bool on_tensor_cores(const PrecisionHypothesis& h, const ir::Graph& graph, ir::NodeId id) {
  return !h.arch.empty() && has_products(graph.node(id)) &&
         operand_rounding(h, graph, id) != Hypothesis::kF32;
}

ir::NumericContract contract_of(const PrecisionHypothesis& h, const ir::Graph& graph, ir::NodeId id,
                                const std::optional<ir::ReductionOrder>& order) {
  const ir::Node& node = graph.node(id);
  ir::NumericContract contract = eager_contract(node, order);
  if (!contract.order) return contract;
  if (contract.order->bias == ir::BiasPoint::kFirst && node.operands.size() < 3)
    contract.order->bias = ir::BiasPoint::kNone;
  if (const int m = winograd_of(h, graph, id); m != 0) {
    contract.transform = {m, ir::Precision::kF32};
    contract.in = precision_of(h.operands);
    ir::ReductionOrder sums;
    sums.arith = contract.order->arith;
    if (contract.order->bias != ir::BiasPoint::kNone) sums.bias = ir::BiasPoint::kStored;
    contract.order = sums;
    return contract;
  }
  const Hypothesis rounding = operand_rounding(h, graph, id);
  contract.in = precision_of(rounding);
  contract.ftz = rounding == Hypothesis::kFtz;
  if (!on_tensor_cores(h, graph, id)) return contract;
  // Lanes and accumulators are ways of scalar code.
  ir::ReductionOrder& sums = *contract.order;
  sums.lanes = sums.acc = 1;
  sums.tile = sums.kpad = 0;
  sums.skip = false;
  sums.arith = ir::Arith::kMma;
  sums.mma = *instruction(h.arch, rounding);
  return contract;
}

}  // namespace driftc::runtime::study
