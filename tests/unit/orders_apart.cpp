#include "tests/support/orders_apart.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "runtime/compare/bounds.h"
#include "runtime/numeric/sum_problem.h"
#include "tests/support/services.h"

namespace driftc::tests {

namespace bounds = runtime::compare;
namespace study = runtime::study;

Apart orders_apart(const ir::Graph& graph, const std::string& node,
                   const std::vector<study::NamedTensor>& inputs, runtime::Hypothesis rounded) {
  const ir::NodeId id = *graph.value(*graph.find(node)).producer;
  std::vector<ir::Tensor> operands;
  for (const ir::ValueId v : graph.node(id).operands) {
    if (const ir::Node* producer = graph.producer(v)) {
      operands.push_back(producer->literal->tensor());
      continue;
    }
    const auto given = std::ranges::find(inputs, graph.value(v).name, &study::NamedTensor::name);
    REQUIRE(given != inputs.end());
    operands.push_back(given->tensor);
  }
  const runtime::SumProblem problem = runtime::sum_problem(graph, id, operands);
  runtime::ThreadPool& pool = thread_pool();
  const ir::Tensor one = bounds::any_order_bound(problem, pool).value,
                   other =
                       bounds::any_order_bound(bounds::matched(problem, rounded, pool), pool).value,
                   moved = bounds::input_rounding(problem, rounded, pool).value;
  Apart out;
  double squares = 0;
  for (std::size_t i = 0; i < one.data<double>().size(); ++i) {
    const double sum = one.data<double>()[i] + other.data<double>()[i] + moved.data<double>()[i];
    out.each.push_back(sum);
    out.most = std::max(out.most, sum);
    squares += sum * sum;
  }
  out.l2 = std::sqrt(squares);
  return out;
}

}  // namespace driftc::tests
