#include "runtime/study/winograd_trace.h"

#include <fmt/format.h>

#include "ir/support/assert.h"
#include "ir/support/half.h"
#include "runtime/eager/winograd_tile.h"
#include "runtime/study/tree.h"

namespace driftc::runtime::study {
namespace {

float operand(float v, ir::Precision in) {
  if (in == ir::Precision::kTf32Rna) return tf32_rna(v);
  if (in == ir::Precision::kTf32Trunc) return tf32_trunc(v);
  return v;
}

template <class T>
void filter(const ir::WinogradMatrices& wm, bool fused, const float* taps, float* out) {
  T wide[9], spread[Sandwich<T>::kLargest * Sandwich<T>::kLargest];
  for (int i = 0; i < 9; ++i) wide[i] = static_cast<T>(taps[i]);
  Sandwich<T>(wm.g, fused)(wide, spread);
  for (int i = 0; i < wm.n() * wm.n(); ++i) out[i] = static_cast<float>(spread[i]);
}

}  // namespace

WinogradTrace trace_winograd(const ir::Graph& graph, ir::NodeId id,
                             std::span<const std::int64_t> index,
                             std::span<const ir::Tensor> operands,
                             const ir::NumericContract& contract) {
  DRIFTC_ASSERT(contract.transform.m != 0 && contract.order, "a contract without a transform");
  const ir::Node& node = graph.node(id);
  const ir::WinogradMatrices& wm = ir::winograd_matrices(contract.transform.m);
  const bool fused = contract.order->arith != ir::Arith::kMulAdd;
  const ir::Shape &x = operands[0].shape(), &w = operands[1].shape();
  const int n = wm.n(), m = wm.m, area = n * n;
  WinogradTrace out;
  out.transform = contract.transform;
  out.n = n;
  out.tile_y = index[2] / m * m;
  out.tile_x = index[3] / m * m;
  out.row = static_cast<int>(index[2] % m);
  out.column = static_cast<int>(index[3] % m);
  out.channels = w[1];
  const std::int64_t group = index[1] / (w[0] / node.integer("groups"));
  // U and V by channel, then one sum per place under the contract's order.
  std::vector<std::vector<float>> u, v;
  const Sandwich<float> bt(wm.bt, fused);
  for (std::int64_t c = 0; c < w[1]; ++c) {
    const float* plane =
        operands[0].data<float>().data() + (index[0] * x[1] + group * w[1] + c) * x[2] * x[3];
    std::vector<float> patch;
    for (int r = 0; r < n; ++r)
      for (int s = 0; s < n; ++s) {
        const std::int64_t y = out.tile_y - node.ints("pad")[0] + r,
                           z = out.tile_x - node.ints("pad")[1] + s;
        const bool inside = y >= 0 && y < x[2] && z >= 0 && z < x[3];
        patch.push_back(inside ? plane[y * x[3] + z] : 0.0f);
      }
    v.emplace_back(static_cast<std::size_t>(area));
    bt(patch.data(), v.back().data());
    u.emplace_back(static_cast<std::size_t>(area));
    const float* taps = operands[1].data<float>().data() + (index[1] * w[1] + c) * 9;
    if (contract.transform.filters == ir::Precision::kF64)
      filter<double>(wm, fused, taps, u.back().data());
    else
      filter<float>(wm, fused, taps, u.back().data());
  }
  ir::ReductionOrder order = *contract.order;
  order.bias = ir::BiasPoint::kNone;
  for (int place = 0; place < area; ++place) {
    SumOperands terms;
    terms.extent = {w[1], 1, 1};
    for (std::size_t c = 0; c < u.size(); ++c) {
      terms.a.push_back(operand(v[c][static_cast<std::size_t>(place)], contract.in));
      terms.b.push_back(operand(u[c][static_cast<std::size_t>(place)], contract.in));
      terms.padded.push_back(false);
    }
    out.sums.push_back(trace_sum(order, terms).value().result);
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j)
      out.factors.push_back(mul_rn(wm.at.at(out.row, i).value(), wm.at.at(out.column, j).value()));
  const Sandwich<float> at(wm.at, fused);
  const auto nothing = [](int, float, float) {};
  for (int j = 0; j < n; ++j)
    out.columns.push_back(at.row(out.row, out.sums.data() + j, n, nothing));
  out.result = at.row(out.column, out.columns.data(), 1, [&](int j, float c, float partial) {
    out.steps.push_back(
        {c == 1 ? fmt::format("column {}", j) : fmt::format("{} * column {}", c, j), partial});
  });
  if (operands.size() == 3) {
    out.result = add_rn(out.result, operands[2].data<float>()[static_cast<std::size_t>(index[1])]);
    out.steps.push_back({"+ bias", out.result});
  }
  return out;
}

}  // namespace driftc::runtime::study
