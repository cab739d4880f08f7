// Passes against the interpreter, without code generation: a graph, its compiled forms, their
// values, and whether source replay explains them.
#pragma once

#include <doctest/doctest.h>

#include <limits>
#include <map>

#include "codegen/lower.h"
#include "ir/support/rng.h"
#include "passes/pipeline.h"
#include "runtime/eager/region.h"

namespace driftc::tests {

using Values = std::map<std::string, ir::Tensor>;

struct Setting {
  std::string passes = "none";
  std::vector<std::string> sets = {};
  std::string order = {};  // eager's
  std::vector<std::string> fallback = {};
  std::string precision = {};  // a plan, for sm_90
};

class Study {
 public:
  Study(ir::Graph source, std::uint64_t seed) : source_(std::move(source)) {
    for (ir::ValueId input : source_.inputs()) {
      const ir::Value& value = source_.value(input);
      ir::Tensor tensor(ir::DType::kF32, value.type.shape);
      fill(Distribution::kRandom, seed, value.name, tensor.data_mut<float>());
      if (seed % 2 == 1) plant_specials(tensor);
      inputs_.push_back(tensor);
    }
  }
  const ir::Graph& source() const { return source_; }

  Values eager(const Setting& setting) {
    Values values;
    runtime::Evaluator evaluator(source_, runtime::eager_recipes(source_, order(setting)),
                                 context());
    const auto wanted = runtime::all_results(source_);
    runtime::run_values(evaluator, inputs_, wanted, [&](ir::ValueId id, const ir::Tensor& tensor) {
      values[source_.value(id).name] = tensor;
    });
    return values;
  }

  ir::Graph compile(const Setting& setting,
                    std::span<const passes::PassInfo> table = passes::all_passes()) {
    passes::SelectionRequest request;
    request.passes = setting.passes;
    request.sets = setting.sets;
    request.fallback_named = !setting.fallback.empty();
    auto selection = passes::select_passes(request, table);
    REQUIRE_MESSAGE(selection.ok(), (selection.ok() ? "" : selection.error().render()));
    passes::PassContext pass_context;
    pass_context.eager_order = order(setting);
    pass_context.fallback = setting.fallback;
    if (!setting.precision.empty()) {
      pass_context.precision = ir::parse_precision_plan(setting.precision, "precision").value();
      pass_context.precision.mma_arch = "sm_90";
    }
    pass_context.evaluate = [&](const ir::Graph& graph, ir::NodeId id,
                                std::span<const ir::Tensor> operands) -> Result<ir::Tensor> {
      return runtime::evaluate(graph, id, operands,
                               runtime::eager_contract(graph.node(id), order(setting)), context());
    };
    auto result = passes::run_pipeline(source_, *selection, pass_context, {}, table);
    REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().render()));
    return result->graph;
  }

  // Values of all kernels, each from its body.
  Values run(const ir::Graph& graph) {
    Values values;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      values[source_.value(source_.inputs()[i]).name] = inputs_[i];
    for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
      const ir::Node& node = graph.node({i});
      std::vector<ir::Tensor> operands;
      for (ir::ValueId operand : node.operands)
        operands.push_back(values.at(graph.value(operand).name));
      values[graph.name_of({i})] = runtime::evaluate(graph, {i}, operands, {}, context());
    }
    return values;
  }

  // Names of kernels whose value is not that of the source nodes under the kernel's contract.
  std::vector<std::string> unexplained(const ir::Graph& graph, const Values& values,
                                       const Setting& setting) {
    std::vector<runtime::Recipe> recipes = runtime::eager_recipes(source_, order(setting));
    for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
      const ir::Node& node = graph.node({i});
      if (node.op != ir::Op::kKernel) continue;
      for (const std::string& name : node.from) {
        const ir::NodeId covered = *source_.value(*source_.find(name)).producer;
        recipes[covered.index] = {contract_for(source_.node(covered), node.kernel->contract),
                                  static_cast<int>(source_.node_count() + i)};
      }
    }
    runtime::Evaluator replay(source_, std::move(recipes), context());
    for (const auto& [name, tensor] : values) {
      const auto value = source_.find(name);
      if (value && !source_.is_constant(*value) && graph.producer(*graph.find(name)) != nullptr &&
          graph.producer(*graph.find(name))->op == ir::Op::kKernel)
        replay.know(*value, tensor);
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i) replay.know(source_.inputs()[i], inputs_[i]);
    std::vector<std::string> names;
    for (const ir::Node& node : graph.nodes()) {
      const std::string& name = graph.value(node.result).name;
      const auto value = source_.find(name);
      if (node.op != ir::Op::kKernel || !value) continue;
      if (!ir::same_bits(replay.value(*value), values.at(name))) names.push_back(name);
    }
    return names;
  }

 private:
  static void plant_specials(ir::Tensor& tensor) {
    const float specials[] = {-0.0F, 0x1p-149F, -0x1p-130F, 0x1.fffffep127F};
    const auto data = tensor.data_mut<float>();
    for (std::size_t i = 0; i < data.size(); i += 7) data[i] = specials[(i / 7) % 4];
    if (data.size() > 20) data[20] = std::numeric_limits<float>::infinity();
    if (data.size() > 30) data[30] = std::numeric_limits<float>::quiet_NaN();
  }
  static std::optional<ir::ReductionOrder> order(const Setting& setting) {
    if (setting.order.empty()) return std::nullopt;
    return *ir::parse_order(setting.order);
  }
  static ir::NumericContract contract_for(const ir::Node& node, const ir::NumericContract& kernel) {
    ir::NumericContract contract = kernel;
    const bool conv = node.op == ir::Op::kConv2d;
    const bool folded = node.op == ir::Op::kBatchNorm && kernel.fold != ir::Fold::kNone;
    if (contract.order && (conv || folded) && contract.order->walk == ir::Walk::kK)
      contract.order->walk = ir::Walk::kCrs;
    if (!folded && !ir::info(node.op).default_order) contract.order.reset();
    if (!folded && !conv) contract.transform = {};
    return contract;
  }
  runtime::EvalContext context() { return {pool_, 0}; }

  ir::Graph source_;
  std::vector<ir::Tensor> inputs_;
  runtime::ThreadPool pool_{2};
};

// Kernels that code generation refuses: "name: why" each. Passes ask before they decide, so there
// are none.
inline std::string refused_by_codegen(const ir::Graph& graph) {
  std::string names;
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.node({i});
    if (node.op != ir::Op::kKernel || node.kernel->algorithm == ir::Algorithm::kInterpreter)
      continue;
    auto lowered = codegen::lower(graph, {i});
    if (!lowered.ok()) names += lowered.error().message + "\n";
  }
  return names;
}

inline std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += name + " ";
  return out;
}

}  // namespace driftc::tests
