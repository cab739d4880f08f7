#include "runtime/numeric/product_sums.h"

#include <cmath>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/numeric/norms.h"
#include "runtime/sums/sum_engine.h"

namespace driftc::runtime {
namespace {

class StoreSink final : public SumSink<double> {
 public:
  StoreSink(const SumProblem& problem, const WindowColumns<double>& columns, double* out)
      : problem_(problem), columns_(columns), out_(out) {}
  void store(std::int64_t row, std::int64_t column, const SumBlock<double>& block) override {
    columns_.for_runs(
        column, block.columns, [&](std::int64_t at, const Pixel& pixel, std::int64_t length) {
          for (std::int64_t r = 0; r < block.rows; ++r)
            std::copy_n(
                block.row(r) + (at - column), length,
                out_ +
                    (pixel.image * problem_.channels_out + row + r) * problem_.window.out_pixels() +
                    pixel.position);
        });
  }

 private:
  const SumProblem& problem_;
  const WindowColumns<double>& columns_;
  double* out_;
};

}  // namespace

ir::Tensor product_sums(const SumProblem& problem, const ir::Tensor& columns,
                        const ir::Tensor& rows, ThreadPool& pool) {
  ir::Tensor out(ir::DType::kF64, problem.result);
  const auto to = out.data_mut<double>();
  ir::ReductionOrder order;
  order.walk = ir::Walk::kCrs;
  const SumPlan plan = make_plan(ir::denote(
      order, {problem.group_channels(), problem.window.kernel_h, problem.window.kernel_w}));
  const std::vector<double> ones(rows.defined() ? 0 : static_cast<std::size_t>(problem.positions()),
                                 1.0);
  for (const SumProduct& product : problem.products) {
    SumRows<double> engine_rows;
    engine_rows.a = rows.defined() ? rows.data<double>().data() + product.rows_offset : ones.data();
    engine_rows.groups = problem.groups;
    engine_rows.rows = problem.group_rows();
    engine_rows.group_stride = engine_rows.rows * problem.positions();
    engine_rows.row_stride = rows.defined() ? problem.positions() : 0;
    const SumEngine<double> engine(plan, SumArith::kFma, false, engine_rows, pool);
    for_each_panel<double>(problem.window, columns.data<double>().data() + product.columns_offset,
                           pool, [&](const WindowColumns<double>& panel) {
                             std::vector<std::int64_t> offsets;
                             for (std::int64_t c = 0; c < problem.group_channels(); ++c)
                               for (std::int64_t tap : panel.tap_offsets)
                                 offsets.push_back(c * panel.channel_stride + tap);
                             StoreSink sink(problem, panel, to.data() + product.out_offset);
                             engine.run({panel.storage.data(), panel.columns,
                                         problem.group_channels() * panel.channel_stride, offsets},
                                        {}, sink);
                           });
  }
  return out;
}

ir::Tensor absolute(const ir::Tensor& values, ThreadPool& pool, int power) {
  DRIFTC_ASSERT(power == 1 || power == 2, "a power that is not offered");
  ir::Tensor out(ir::DType::kF64, values.shape());
  const auto to = out.data_mut<double>();
  const bool wide = values.dtype() == ir::DType::kF64;
  for_ranges(pool, values.elements(), [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const double v =
          wide ? values.data<double>()[i] : static_cast<double>(values.data<float>()[i]);
      to[i] = power == 2 ? mul_rn(v, v) : std::abs(v);
    }
  });
  return out;
}

ir::Tensor magnitudes(const SumProblem& problem, std::span<const double> factors,
                      ThreadPool& pool) {
  ir::Tensor rows;
  const std::int64_t positions = problem.positions();
  if (problem.has_products) {
    rows = absolute(problem.rows, pool);
  } else if (!factors.empty()) {
    rows = ir::Tensor(ir::DType::kF64, {1, positions});
    for (double& v : rows.data_mut<double>()) v = 1;
  }
  if (!factors.empty()) {
    const auto weights = rows.data_mut<double>();
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = mul_rn(weights[i], factors[i % static_cast<std::size_t>(positions)]);
  }
  ir::Tensor out = product_sums(problem, absolute(problem.columns, pool), rows, pool);
  for (double& v : out.data_mut<double>()) v = mul_rn(v, kSumSlack);
  return out;
}

}  // namespace driftc::runtime
