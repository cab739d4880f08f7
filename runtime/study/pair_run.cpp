#include "runtime/study/pair_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "ir/printer.h"
#include "ir/support/hash.h"
#include "passes/pipeline.h"
#include "runtime/compare/bounds.h"
#include "runtime/compare/structure.h"
#include "runtime/eager/region.h"
#include "runtime/numeric/sum_problem.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"
#include "runtime/study/cost.h"
#include "runtime/study/cudnn_arm.h"
#include "runtime/study/locate.h"
#include "runtime/study/source_map.h"

namespace driftc::runtime::study {
namespace {

using compare::Cause;
using compare::CauseKind;
using compare::Evidence;
using compare::Verdict;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double largest_difference(const ir::Tensor& a, const ir::Tensor& b) {
  return compare::measure(a, b, nullptr, 0).max_abs;
}

class PairRun {
 public:
  PairRun(const ir::Graph& source, const PairSettings& settings, const Services& services)
      : source_(source), settings_(settings), services_(services) {}

  Result<PairReport> run(const std::vector<NamedTensor>& inputs) {
    DRIFTC_TRY(bound, bind_inputs(source_, inputs));
    for (const NamedTensor& input : bound)
      report_.inputs.push_back(describe_input(input.name, input.tensor));
    report_.graph_name = source_.name();
    report_.graph_hash = hash64_hex(ir::print_outline(source_));
    report_.graph_nodes = static_cast<std::int64_t>(source_.node_count());
    report_.eager_order = settings_.declared      ? "declared"
                          : settings_.eager_order ? to_string(*settings_.eager_order)
                                                  : "default";
    const auto start_compile = std::chrono::steady_clock::now();
    DRIFTC_TRY(compiled, compile(source_, settings_, services_));
    for (const passes::PassTrace& trace : compiled.traces)
      report_.passes.push_back({std::string(trace.name), trace.enabled, trace.changed});
    DRIFTC_TRY(arm, CompiledArm::prepare(compiled.graph, settings_, services_));
    arm_ = std::move(arm);
    if (settings_.faults != nullptr && settings_.faults->declaration)
      settings_.faults->declaration(compiled.graph);
    map_ = map_to_source(source_, compiled.graph,
                         eager_contracts(source_, settings_.eager_order, settings_.eager_precision,
                                         settings_.eager_contracts));
    if (settings_.declared) map_.eager_recipes = map_.compiled_recipes;
    if (settings_.cudnn != nullptr) let_cudnn_run(map_.eager_recipes, *settings_.cudnn);
    report_.kernels = arm_->kernel_reports();
    DRIFTC_TRY(mitigations, mitigation_costs(source_, compiled.graph, settings_, services_));
    report_.mitigations = std::move(mitigations);
    DRIFTC_TRY(time, time_against_default(source_, compiled.graph, settings_, services_));
    report_.time = time;
    report_.tuned = std::move(compiled.tuned);
    report_.fallbacks = arm_->fallback_reports();
    report_.refusals = arm_->refusal_reports();
    report_.kernels_compiled = arm_->kernels_compiled();
    report_.seconds_compile = seconds_since(start_compile);

    const auto start_run = std::chrono::steady_clock::now();
    const EvalContext context{services_.pool, settings_.schedule_seed};
    eager_ = std::make_unique<Evaluator>(source_, map_.eager_recipes, context);
    compiled_ = std::make_unique<Evaluator>(source_, map_.compiled_recipes, context);
    if (settings_.reference)
      reference_ =
          std::make_unique<Evaluator>(source_, eager_recipes(source_), context, ir::DType::kF64);
    for (std::size_t i = 0; i < bound.size(); ++i) {
      const ir::ValueId id = source_.inputs()[i];
      eager_->know(id, bound[i].tensor);
      compiled_->know(id, bound[i].tensor);
      if (reference_) reference_->know(id, bound[i].tensor);
      arm_->set_input(compiled.graph.inputs()[i], bound[i].tensor);
    }
    verdict_of_.assign(source_.value_count(), Verdict::kIdentical);
    DRIFTC_CHECK(walk(compiled.graph));
    if (!failed_.empty()) DRIFTC_CHECK(locate_failures(bound));
    report_.seconds_run = seconds_since(start_run);
    finish();
    return std::move(report_);
  }

 private:
  // Runs the compiled graph node by node; each materialised source value is compared as it appears.
  Result<void> walk(const ir::Graph& graph) {
    std::size_t next = 0;
    for (std::size_t i = 0; i < graph.node_count(); ++i) {
      const ir::NodeId id{static_cast<std::uint32_t>(i)};
      if (graph.node(id).op == ir::Op::kConstant) continue;
      if (services_.progress)
        services_.progress(
            fmt::format("running {}/{} {}", i + 1, graph.node_count(), graph.name_of(id)));
      DRIFTC_TRY(tensor, arm_->run(id));
      if (next < map_.values.size() && map_.values[next].producer == id) {
        DRIFTC_CHECK(compare_value(next, tensor));
        ++next;
      }
    }
    // A graph output that is an input or a constant has no kernel; it is the same bits in both
    // arms.
    return {};
  }

  Result<void> compare_value(std::size_t index, const ir::Tensor& value) {
    const Materialised& m = map_.values[index];
    eager_->know(m.source, eager_->value(m.source));
    compiled_->know(m.source, value);
    if (reference_) reference_->know(m.source, reference_->value(m.source));
    const ir::Tensor& eager = eager_->known(m.source);
    const ir::Tensor* reference = reference_ ? &reference_->known(m.source) : nullptr;
    NodeReport node = describe(m);
    node.metrics = compare::measure(eager, value, reference);
    if (reference != nullptr) {
      node.eager_to_reference = compare::distance(eager, *reference);
      node.compiled_to_reference = compare::distance(value, *reference);
    }
    judge(m, node);
    if (settings_.cudnn != nullptr) {
      DRIFTC_CHECK(judge_cudnn(m, node));
      DRIFTC_CHECK(settings_.cudnn->status());
    }
    if (node.metrics.mismatched > 0) {
      node.specials = compare::count_specials(value, eager);
      if (node.specials.accusing())
        node.causes.push_back(
            {CauseKind::kSpecials, node.name, compare::explain(node.specials).front()});
    }
    if (settings_.exact || node.verdict == Verdict::kUnexplained)
      node.exact = exact_figures({source_,
                                  m.source,
                                  m.boundary,
                                  *eager_,
                                  *compiled_,
                                  {services_.pool, settings_.schedule_seed}});
    if (settings_.on_value) settings_.on_value(node.name, eager, value, reference);
    ++report_.values;
    if (node.metrics.mismatched > 0) ++report_.values_differ;
    report_.max_ulp = std::max(report_.max_ulp, node.metrics.max_ulp);
    if (source_.is_output(m.source) && !report_.classes)
      report_.classes = compare::class_changes(eager, value);
    verdict_of_[m.source.index] = node.verdict;
    report_.nodes.push_back(std::move(node));
    release(index);
    return {};
  }

  void release(std::size_t index) {
    auto drop = [&](ir::ValueId v) {
      if (map_.last_use[v.index] != index) return;
      eager_->forget(v);
      compiled_->forget(v);
      if (reference_) reference_->forget(v);
    };
    for (ir::ValueId v : map_.values[index].boundary) drop(v);
    drop(map_.values[index].source);
  }

  // Source nodes that the compiled arm computes together to make the value.
  const std::vector<ir::NodeId>& covered(const Materialised& m) const {
    return map_.covers[m.producer.index];
  }

  NodeReport describe(const Materialised& m) const {
    NodeReport node;
    const ir::Value& value = source_.value(m.source);
    node.name = value.name;
    node.op = ir::info(source_.producer(m.source)->op).name;
    node.kernel = arm_->kernel_name(m.producer);
    node.type = value.type;
    node.type.layout = arm_->layout(m.producer);
    for (ir::NodeId id : covered(m)) node.source_nodes.push_back(source_.name_of(id));
    const ir::NodeId main = main_node(m);
    node.eager_contract = to_string(map_.eager_recipes[main.index].contract);
    node.compiled_contract = to_string(map_.compiled_recipes[main.index].contract);
    return node;
  }

  // The node whose contract describes the value best: the covered reduction, else its own producer.
  ir::NodeId main_node(const Materialised& m) const {
    for (ir::NodeId id : covered(m))
      if (map_.eager_recipes[id.index].contract.order) return id;
    return *source_.value(m.source).producer;
  }

  bool inputs_equal(const Materialised& m) const {
    return std::all_of(m.boundary.begin(), m.boundary.end(), [&](ir::ValueId v) {
      return ir::same_bits(eager_->known(v), compiled_->known(v));
    });
  }
  double input_difference(const Materialised& m) const {
    double largest = 0;
    for (ir::ValueId v : m.boundary)
      largest = std::max(largest, largest_difference(eager_->known(v), compiled_->known(v)));
    return largest;
  }
  bool contracts_equal(const std::vector<ir::NodeId>& nodes) const {
    for (ir::NodeId id : nodes) {
      if (map_.eager_recipes[id.index].runner != nullptr) return false;
      for (compare::ContractPart part : compare::kContractParts)
        if (compare::difference(map_.eager_recipes[id.index].contract,
                                map_.compiled_recipes[id.index].contract, part))
          return false;
    }
    return true;
  }

  // The value as the compiled arm would have made it with other recipes for the nodes it covers.
  ir::Tensor with_recipes(const Materialised& m, const std::vector<ir::NodeId>& nodes,
                          const std::function<Recipe(ir::NodeId)>& recipe_of) {
    for (ir::NodeId id : nodes) compiled_->set_recipe(id, recipe_of(id));
    ir::Tensor tensor = compiled_->value(m.source);
    for (ir::NodeId id : nodes) compiled_->set_recipe(id, map_.compiled_recipes[id.index]);
    return tensor;
  }

  // The ladder of product.md, idea 2, for an arm whose kernels are ours.
  void judge(const Materialised& m, NodeReport& node) {
    const ir::Tensor &eager = eager_->known(m.source), &compiled = compiled_->known(m.source);
    const std::vector<ir::NodeId>& nodes = covered(m);
    const bool same = node.metrics.mismatched == 0;
    const bool equal_inputs = inputs_equal(m);
    node.evidence = Evidence::kReplayed;
    // Where contracts and inputs agree, the eager value itself is the source replay.
    const bool is_replay = same && equal_inputs && contracts_equal(nodes);
    const ir::Tensor promised = is_replay ? compiled : compiled_->value(m.source);
    const bool replayed = is_replay || ir::same_bits(promised, compiled);
    if (!replayed && within_bound_of_atomics(m, promised, compiled)) {
      node.evidence = Evidence::kBounded;
      evidence_ = std::max(evidence_, node.evidence);
    } else if (!replayed) {
      node.pattern = compare::pattern_of(promised, compiled);
      node.verdict = Verdict::kUnexplained;
      node.evidence = Evidence::kNone;
      node.local = largest_difference(eager, compiled);
      failed_.push_back(report_.nodes.size());
      return;
    }
    if (node.kernel.empty()) node.verdict = Verdict::kNotCompiled;
    if (same) return;
    // Eager's way on the compiled arm's inputs: what differs from eager came in, what differs from
    // the compiled value was made here.
    const ir::Tensor own = equal_inputs ? eager : with_recipes(m, nodes, [&](ir::NodeId id) {
      return map_.eager_recipes[id.index];
    });
    node.inherited = largest_difference(eager, own);
    node.local = largest_difference(own, compiled);
    const double input = input_difference(m);
    if (input > 0) node.amplification = node.inherited / input;
    Verdict rung = Verdict::kIdentical;
    if (!ir::same_bits(own, compiled)) rung = name_local_causes(m, nodes, node);
    if (!equal_inputs && !ir::same_bits(eager, own))
      rung = compare::worse(rung, name_upstream(m, node));
    // A node that stayed in the interpreter under another contract (mode eager) differs all the
    // same.
    if (node.verdict == Verdict::kNotCompiled)
      report_.verdict = compare::worse(report_.verdict, rung);
    else
      node.verdict = rung;
  }

  // What cuDNN made is not replayed: each of its convolutions behind a value that differs must be a
  // correct result of its own operands, which says how good the evidence is.
  Result<void> judge_cudnn(const Materialised& m, NodeReport& node) {
    if (node.metrics.mismatched == 0 || node.verdict == Verdict::kUnexplained) return {};
    for (const ir::NodeId id : covered(m)) {
      if (!settings_.cudnn->runs(id)) continue;
      const auto value_of = [&](ir::ValueId v) {
        return eager_->knows(v) ? eager_->known(v) : eager_->value(v);
      };
      std::vector<ir::Tensor> operands;
      for (const ir::ValueId v : source_.node(id).operands) operands.push_back(value_of(v));
      const ir::ValueId result = source_.node(id).result;
      const ir::Tensor made = value_of(result);
      DRIFTC_TRY(judged, settings_.cudnn->judged(id, operands, made, services_));
      node.evidence = std::max(node.evidence, judged.evidence);
      if (judged.verdict != Verdict::kUnexplained) continue;
      node.verdict = Verdict::kUnexplained;
      node.evidence = Evidence::kNone;
      node.fault = fmt::format("cuDNN's {} is no correct result of its operands in {}",
                               source_.value(result).name, judged.precision);
    }
    evidence_ = std::max(evidence_, node.evidence);
    return {};
  }

  // On a GPU the slices of an atomic sum meet in an order that nobody knows: any order of the same
  // products is then within the bound of any other (global atomics flush subnormals).
  bool within_bound_of_atomics(const Materialised& m, const ir::Tensor& promised,
                               const ir::Tensor& compiled) const {
    if (settings_.executor == nullptr || settings_.executor->orders_atomics() ||
        covered(m).size() != 1)
      return false;
    const ir::NodeId id = covered(m).front();
    const auto& order = map_.compiled_recipes[id.index].contract.order;
    if (!order || order->combine != ir::SplitCombine::kAtomic || order->split == 1 ||
        !is_sum_node(source_.node(id).op))
      return false;
    std::vector<ir::Tensor> operands;
    for (const ir::ValueId v : source_.node(id).operands)
      operands.push_back(source_.is_constant(v) ? source_.producer(v)->literal->tensor()
                                                : compiled_->known(v));
    const compare::TensorBound bound =
        compare::any_order_bound(sum_problem(source_, id, operands), services_.pool);
    const double flushed = order->split * 0x1p-126;
    const auto a = promised.data<float>(), b = compiled.data<float>();
    const auto limit = bound.value.data<double>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double distance = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      if (!same && !(distance <= 2 * limit[i] + flushed)) return false;
    }
    return true;
  }

  // The rung of the worst input that differs.
  Verdict name_upstream(const Materialised& m, NodeReport& node) const {
    Verdict rung = Verdict::kOrder;
    std::string from;
    for (ir::ValueId v : m.boundary) {
      if (ir::same_bits(eager_->known(v), compiled_->known(v))) continue;
      from += (from.empty() ? "from " : ", ") + source_.value(v).name;
      rung = compare::worse(rung, verdict_of_[v.index]);
    }
    node.causes.push_back({CauseKind::kUpstream, node.name, from});
    return rung;
  }

  // Sets each part of the contract back to eager's, alone: a part whose reset changes bits is a
  // cause. Returns the worst rung among them.
  Verdict name_local_causes(const Materialised& m, const std::vector<ir::NodeId>& nodes,
                            NodeReport& node) {
    const ir::Tensor& compiled = compiled_->known(m.source);
    std::vector<Cause> candidates;
    Verdict rung = Verdict::kIdentical;
    for (compare::ContractPart part : compare::kContractParts) {
      std::optional<compare::PartDifference> found;
      for (ir::NodeId id : nodes)
        if (!found)
          found = compare::difference(map_.eager_recipes[id.index].contract,
                                      map_.compiled_recipes[id.index].contract, part);
      if (!found) continue;
      candidates.push_back({found->kind, node.name, found->detail});
      const ir::Tensor reset = with_recipes(m, nodes, [&](ir::NodeId id) {
        Recipe recipe = map_.compiled_recipes[id.index];
        recipe.contract =
            compare::with_part(recipe.contract, map_.eager_recipes[id.index].contract, part);
        return recipe;
      });
      if (ir::same_bits(reset, compiled)) continue;
      node.causes.push_back(candidates.back());
      rung = compare::worse(rung, compare::rung_of(found->kind));
    }
    if (rung != Verdict::kIdentical) return rung;
    // No part alone changes bits, though all together do: name them all, and the worst counts.
    rung = Verdict::kOrder;
    if (candidates.empty() && settings_.cudnn != nullptr)
      node.causes.push_back(
          {CauseKind::kReductionOrder, node.name, "cuDNN's own order, which is not known"});
    for (Cause& cause : candidates) {
      rung = compare::worse(rung, compare::rung_of(cause.kind));
      cause.detail += " (only together)";
      node.causes.push_back(std::move(cause));
    }
    return rung;
  }

  Result<void> locate_failures(const std::vector<NamedTensor>& inputs) {
    DRIFTC_TRY(where, locate(source_, inputs, settings_, services_));
    for (std::size_t index : failed_) {
      NodeReport& node = report_.nodes[index];
      node.fault = where.describe(node.name);
    }
    report_.fault_pass = where.first_wrong_pass;
    return {};
  }

  // Values that exist only inside a fused kernel share its verdict and have no metrics; then
  // everything in source order.
  void add_hidden_nodes() {
    std::vector<std::optional<NodeReport>> by_value(source_.value_count());
    std::vector<const NodeReport*> of_node(arm_->node_count());
    for (std::size_t i = 0; i < report_.nodes.size(); ++i)
      of_node[map_.values[i].producer.index] = &report_.nodes[i];
    for (std::size_t i = 0; i < source_.node_count(); ++i) {
      const ir::Node& node = source_.nodes()[i];
      if (!map_.covered_by[i]) continue;
      const NodeReport* kernel = of_node[map_.covered_by[i]->index];
      if (kernel == nullptr || kernel->name == source_.value(node.result).name) continue;
      NodeReport hidden;
      hidden.name = source_.value(node.result).name;
      hidden.op = ir::info(node.op).name;
      hidden.kernel = kernel->kernel;
      hidden.source_nodes = {hidden.name};
      hidden.materialised = false;
      hidden.type = source_.value(node.result).type;
      hidden.eager_contract = to_string(map_.eager_recipes[i].contract);
      hidden.compiled_contract = to_string(map_.compiled_recipes[i].contract);
      hidden.verdict = kernel->verdict;
      hidden.evidence = kernel->evidence;
      by_value[node.result.index] = std::move(hidden);
    }
    for (std::size_t i = 0; i < report_.nodes.size(); ++i)
      by_value[map_.values[i].source.index] = std::move(report_.nodes[i]);
    report_.nodes.clear();
    for (auto& node : by_value)
      if (node) report_.nodes.push_back(std::move(*node));
  }

  void count_coverage() {
    Coverage& c = report_.coverage;
    double all = 0, compiled = 0;
    for (std::size_t i = 0; i < source_.node_count(); ++i) {
      const ir::Node& node = source_.nodes()[i];
      if (node.op == ir::Op::kConstant) continue;
      // A node that no kernel covers was removed (identities, dead or folded code): nothing of it
      // is left.
      const bool is_compiled = !map_.covered_by[i] || arm_->is_compiled(*map_.covered_by[i]);
      ++c.nodes_of;
      c.nodes += is_compiled;
      if (node.op == ir::Op::kConv2d) {
        ++c.convolutions_of;
        c.convolutions += is_compiled;
      }
      const ir::OpClass op_class = ir::info(node.op).op_class;
      if (op_class != ir::OpClass::conv && op_class != ir::OpClass::matmul) continue;
      const double work = static_cast<double>(source_.value(node.result).type.shape.elements()) *
                          static_cast<double>(ir::reduction_extent(source_, node).positions());
      all += work;
      if (is_compiled) compiled += work;
    }
    c.multiply_adds = all > 0 ? compiled / all : 1;
  }

  void finish() {
    for (const NodeReport& node : report_.nodes) {
      report_.verdict =
          compare::worse(node.verdict == Verdict::kNotCompiled ? Verdict::kIdentical : node.verdict,
                         report_.verdict);
      for (const Cause& cause : node.causes) {
        if (cause.kind == CauseKind::kUpstream) continue;
        const bool known = std::any_of(
            report_.causes.begin(), report_.causes.end(),
            [&](const Cause& c) { return c.kind == cause.kind && c.detail == cause.detail; });
        if (!known) report_.causes.push_back(cause);
      }
    }
    report_.evidence = report_.verdict == Verdict::kUnexplained ? Evidence::kNone : evidence_;
    add_hidden_nodes();
    count_coverage();
    for (ir::ValueId output : source_.outputs())
      for (const NodeReport& node : report_.nodes)
        if (node.name == source_.value(output).name) report_.outputs.push_back(node);
  }

  const ir::Graph& source_;
  const PairSettings& settings_;
  const Services& services_;
  SourceMap map_;
  std::unique_ptr<CompiledArm> arm_;
  // The three arms as far as they are known: eager, the compiled arm's values under its contracts,
  // f64.
  std::unique_ptr<Evaluator> eager_, compiled_, reference_;
  std::vector<Verdict> verdict_of_;          // by source value
  Evidence evidence_ = Evidence::kReplayed;  // the weakest of any value
  std::vector<std::size_t> failed_;          // indices of report nodes whose replay failed
  PairReport report_;
};

}  // namespace

Result<PairReport> pair_run(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                            const PairSettings& settings, const Services& services) {
  return PairRun(source, settings, services).run(inputs);
}

}  // namespace driftc::runtime::study
