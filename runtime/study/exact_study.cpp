#include "runtime/study/exact_study.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <ranges>

#include "ir/support/round.h"
#include "runtime/numeric/exact.h"
#include "runtime/study/propagate.h"

namespace driftc::runtime::study {
namespace {

bool is_f32(const ir::Graph& graph, ir::ValueId value) {
  return graph.value(value).type.dtype == ir::DType::kF32;
}

class Study {
 public:
  explicit Study(const ExactSubject& subject) : subject_(subject), graph_(subject.source) {
    collect();
  }

  std::optional<ExactFigures> run() {
    for (ir::NodeId id : nodes_)
      if (!is_f32(graph_, graph_.node(id).result)) return std::nullopt;
    for (ir::ValueId v : leaves_)
      if (!is_f32(graph_, v)) return std::nullopt;
    ExactFigures figures;
    const ir::Tensor &eager = subject_.eager.known(subject_.value),
                     &compiled = subject_.compiled.known(subject_.value);
    const ir::Tensor exact = exact_of(subject_.eager, &figures.condition_max);
    figures.eager = compare::distance(eager, exact);
    // The same inputs: the same exact value.
    const bool same_inputs =
        std::ranges::all_of(subject_.boundary, [&](ir::ValueId v) { return same(v); });
    figures.compiled =
        compare::distance(compiled, same_inputs ? exact : exact_of(subject_.compiled, nullptr));
    if (!ir::same_bits(eager, compiled)) figures.bound = bound(same_inputs);
    return figures;
  }

 private:
  // Nodes between the boundary and the value, in order, and the values they start from: the
  // boundary and whatever depends on constants alone.
  void collect() {
    const std::size_t count = graph_.value_count();
    // Nodes are in topological order: backwards, what the value needs; forwards, what of that
    // depends on the boundary.
    std::vector<bool> depends(count, false), needed(count, false), listed(count, false);
    for (ir::ValueId v : subject_.boundary) depends[v.index] = true;
    needed[subject_.value.index] = true;
    std::vector<ir::NodeId> found;
    for (std::uint32_t i = graph_.value(subject_.value).producer->index + 1; i-- > 0;) {
      const ir::Node& node = graph_.node({i});
      const bool given = depends[node.result.index] && node.result != subject_.value;
      if (!needed[node.result.index] || given) continue;
      found.push_back({i});
      for (ir::ValueId v : node.operands) needed[v.index] = true;
    }
    for (ir::NodeId id : found | std::views::reverse) {
      const ir::Node& node = graph_.node(id);
      if (std::ranges::none_of(node.operands, [&](ir::ValueId v) { return depends[v.index]; }))
        continue;
      depends[node.result.index] = true;
      nodes_.push_back(id);
      listed[node.result.index] = true;
    }
    for (ir::NodeId id : nodes_)
      for (ir::ValueId v : graph_.node(id).operands) {
        if (!listed[v.index]) leaves_.push_back(v);
        listed[v.index] = true;
      }
  }

  bool same(ir::ValueId v) const {
    return ir::same_bits(subject_.eager.known(v), subject_.compiled.known(v));
  }
  // f32 value of a leaf in an arm: given, or made from constants.
  static ir::Tensor leaf(const Evaluator& arm, ir::ValueId v) {
    return arm.knows(v) ? arm.known(v) : arm.value(v);
  }
  static ir::Tensor widened(const ir::Tensor& tensor) {
    ir::Tensor out(ir::DType::kF64, tensor.shape());
    std::ranges::copy(tensor.data<float>(), out.data_mut<double>().begin());
    return out;
  }
  static ir::Tensor narrowed(const ir::Tensor& tensor) {
    ir::Tensor out(ir::DType::kF32, tensor.shape());
    std::ranges::transform(tensor.data<double>(), out.data_mut<float>().begin(),
                           [](double v) { return static_cast<float>(v); });
    return out;
  }

  // f64: the exact value on the arm's inputs.
  ir::Tensor exact_of(const Evaluator& arm, std::optional<double>* condition) {
    std::vector<ir::Tensor> values(graph_.value_count());
    std::vector<ir::Tensor> given(graph_.value_count());
    for (ir::ValueId v : leaves_) given[v.index] = leaf(arm, v);
    for (ir::NodeId id : nodes_) {
      const ir::Node& node = graph_.node(id);
      ir::Tensor& result = values[node.result.index];
      if (is_sum_node(node.op)) {
        std::vector<ir::Tensor> operands;
        for (ir::ValueId v : node.operands)
          operands.push_back(given[v.index].defined() ? given[v.index] : narrowed(values[v.index]));
        SumProblem problem = sum_problem(graph_, id, operands);
        ExactSettings settings;
        settings.intervals = true;
        const ExactResult exact = exact_value(problem, settings, subject_.context.pool);
        if (condition != nullptr) {
          const double c =
              compare::conditioning(problem, exact.value, exact.value64, subject_.context.pool)
                  .condition_max;
          *condition = std::max(condition->value_or(0), c);
        }
        result = exact.value64;
      } else {
        std::vector<ir::Tensor> operands;
        for (ir::ValueId v : node.operands)
          operands.push_back(given[v.index].defined() ? widened(given[v.index]) : values[v.index]);
        result = evaluate(graph_, id, operands, eager_contract(node), subject_.context);
      }
    }
    return values[subject_.value.index];
  }

  const ir::NumericContract& contract(const Evaluator& arm, ir::NodeId id) const {
    return arm.recipe(id).contract;
  }
  // Both arms round the same operands of the node in the same way: what that changes is no
  // difference between them.
  Against against(ir::NodeId id) const {
    const ir::NumericContract &a = contract(subject_.eager, id),
                              &b = contract(subject_.compiled, id);
    const bool alike = a.transform.m == 0 && b.transform.m == 0 && a.fold == ir::Fold::kNone &&
                       b.fold == ir::Fold::kNone &&
                       compare::hypothesis_of(a) == compare::hypothesis_of(b);
    return alike && std::ranges::all_of(graph_.node(id).operands,
                                        [&](ir::ValueId v) {
                                          return std::ranges::find(leaves_, v) != leaves_.end() &&
                                                 ir::same_bits(leaf(subject_.eager, v),
                                                               leaf(subject_.compiled, v));
                                        })
               ? Against::kMatched
               : Against::kExact;
  }

  // Every node's rounding in one arm: of the node under the arm's contract on the arm's values.
  std::vector<LocalError> local_errors(const Evaluator& arm, std::vector<ir::Tensor>& values) {
    std::vector<LocalError> out;
    values.assign(graph_.value_count(), {});
    for (ir::ValueId v : leaves_) values[v.index] = leaf(arm, v);
    for (ir::NodeId id : nodes_) {
      const ir::Node& node = graph_.node(id);
      std::vector<ir::Tensor> operands;
      for (ir::ValueId v : node.operands) operands.push_back(values[v.index]);
      const ir::NumericContract& c = contract(arm, id);
      ir::Tensor result = node.result.index == subject_.value.index
                              ? arm.known(node.result)
                              : evaluate(graph_, id, operands, c, subject_.context);
      if (node.result.index != subject_.value.index && c.store != ir::Precision::kF32)
        result =
            rounded(result, c.store == ir::Precision::kF16 ? Hypothesis::kF16 : Hypothesis::kBf16,
                    subject_.context.pool);
      out.push_back(local_error(graph_, id, operands, result, c, subject_.context.pool,
                                subject_.context.atomic_seed, against(id)));
      values[node.result.index] = std::move(result);
    }
    return out;
  }

  // Errors of both arms; undefined: none.
  static ir::Tensor sum(const ir::Tensor& a, const ir::Tensor& b) {
    if (!a.defined()) return b;
    if (!b.defined()) return a;
    ir::Tensor out(ir::DType::kF64, a.shape());
    const auto to = out.data_mut<double>();
    for (std::size_t i = 0; i < to.size(); ++i)
      to[i] = mul_rn(add_rn(a.data<double>()[i], b.data<double>()[i]), 1 + 0x1p-50);
    return out;
  }

  std::optional<DifferenceBound> bound(bool same_inputs) {
    std::vector<ir::Tensor> eager_values, values;
    const std::vector<LocalError> eager = local_errors(subject_.eager, eager_values);
    const std::vector<LocalError> compiled = local_errors(subject_.compiled, values);
    ErrorPropagation errors(graph_, subject_.context.pool);
    double input_max = 0;
    for (ir::ValueId v : leaves_) {
      const ir::Tensor &a = eager_values[v.index], &b = values[v.index];
      if (ir::same_bits(a, b)) continue;
      ErrorTensors e{ir::Tensor(ir::DType::kF64, a.shape()),
                     ir::Tensor(ir::DType::kF64, a.shape())};
      const auto size = e.bound.data_mut<double>(), square = e.variance.data_mut<double>();
      for (std::size_t i = 0; i < size.size(); ++i) {
        const double x = a.data<float>()[i], y = b.data<float>()[i];
        size[i] = x == y || (x != x && y != y) ? 0 : std::abs(sub_rn(x, y));
        square[i] = mul_rn(size[i], size[i]);
        input_max = std::max(input_max, size[i]);
      }
      errors.set(v, std::move(e));
    }
    DifferenceBound out;
    out.kind = compare::BoundKind::kRunning;
    // The inputs' differences alone, to tell them from what is made here.
    ErrorPropagation inherited = errors;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const ir::Node& node = graph_.node(nodes_[i]);
      std::vector<ir::Tensor> operands;
      for (ir::ValueId v : node.operands) operands.push_back(values[v.index]);
      LocalError local = compiled[i];
      local.error = {sum(local.error.bound, eager[i].error.bound),
                     sum(local.error.variance, eager[i].error.variance)};
      if (eager[i].kind != compare::BoundKind::kRunning) out.kind = eager[i].kind;
      if (compiled[i].kind != compare::BoundKind::kRunning) out.kind = compiled[i].kind;
      errors.step(nodes_[i], operands, values[node.result.index], local);
      if (!same_inputs)
        inherited.step(nodes_[i], operands, values[node.result.index], LocalError{});
    }
    if (!same_inputs) out.kind = compare::BoundKind::kPropagated;
    const ErrorTensors& total = errors.at(subject_.value);
    const ErrorTensors& came = inherited.at(subject_.value);
    if (!total.bound.defined()) return std::nullopt;
    use(total, out);
    for (std::size_t i = 0; i < total.bound.data<double>().size(); ++i) {
      const auto at = [&](const ir::Tensor& t) { return t.defined() ? t.data<double>()[i] : 0.0; };
      const auto more = [](double& largest, double v) {
        if (std::isfinite(v)) largest = std::max(largest, v);
      };
      more(out.inherited, at(came.bound));
      more(out.local, sub_rn(at(total.bound), at(came.bound)));
      more(out.inherited_sigma, std::sqrt(at(came.variance)));
      more(out.local_sigma,
           std::sqrt(std::max(0.0, sub_rn(at(total.variance), at(came.variance)))));
    }
    if (input_max > 0 && std::isfinite(input_max)) {
      out.amplification = div_rn(out.inherited, input_max);
      out.amplification_sigma = div_rn(out.inherited_sigma, input_max);
    }
    return out;
  }

  // Where most of the bound is used, and the largest z. Elements without a finite bound say
  // nothing.
  void use(const ErrorTensors& total, DifferenceBound& out) const {
    const auto eager = subject_.eager.known(subject_.value).data<float>(),
               compiled = subject_.compiled.known(subject_.value).data<float>();
    const auto bounds = total.bound.data<double>(), variances = total.variance.data<double>();
    for (std::size_t i = 0; i < eager.size(); ++i) {
      const double a = eager[i], b = compiled[i];
      if (!std::isfinite(a) || !std::isfinite(b) || a == b || !std::isfinite(bounds[i])) continue;
      const double difference = std::abs(sub_rn(a, b));
      const double used =
          bounds[i] > 0 ? div_rn(difference, bounds[i]) : std::numeric_limits<double>::infinity();
      if (used > out.used) {
        out.used = used;
        out.value = bounds[i];
      }
      if (std::isfinite(variances[i]))
        out.z_max = std::max(out.z_max, compare::z_value(difference, variances[i], 0));
    }
  }

  const ExactSubject& subject_;
  const ir::Graph& graph_;
  std::vector<ir::NodeId> nodes_;
  std::vector<ir::ValueId> leaves_;
};

}  // namespace

std::optional<ExactFigures> exact_figures(const ExactSubject& subject) {
  return Study(subject).run();
}

}  // namespace driftc::runtime::study
