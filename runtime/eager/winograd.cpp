// Convolutions whose contract names a Winograd transform, in the named evaluation of ir/winograd.h:
// filters and data transformed tile by tile, channel sums under the contract's order, outputs
// transformed back; the bias is added to the result.
#include "ir/winograd.h"

#include <algorithm>

#include "ir/kernel.h"
#include "runtime/eager/ops.h"
#include "runtime/eager/winograd_tile.h"
#include "runtime/sums/sum_engine.h"

namespace driftc::runtime {
namespace {

// T: accumulator of the channel sums, S: storage and transforms.
template <class T, class S>
class Winograd {
 public:
  Winograd(const OpCall& call, const SumSettings& settings)
      : call_(call),
        settings_(settings),
        matrices_(ir::winograd_matrices(call.contract.transform.m)),
        fused_(settings.order.arith != ir::Arith::kMulAdd),
        n_(matrices_.n()),
        m_(matrices_.m),
        area_(n_ * n_),
        x_(call.operand(0).shape()),
        y_(call.result_shape()),
        groups_(call.node.integer("groups")),
        channels_(call.operand(1).shape()[1]),
        tiles_h_((y_[2] + m_ - 1) / m_),
        tiles_w_((y_[3] + m_ - 1) / m_) {}

  ir::Tensor run() {
    ir::Tensor result(call_.operand(0).dtype(), y_);
    const std::int64_t tiles = y_[0] * tiles_h_ * tiles_w_;
    if (result.elements() == 0) return result;
    ThreadPool& pool = call_.context.pool;
    const ir::Tensor filters = transformed_filters();
    const SumOperand<T> rows(filters, settings_.in, pool);
    const SumPlan plan = make_plan(settings_.order, {channels_, 1, 1}, {},
                                   call_.context.atomic_seed, sizeof(T) == 8);
    SumRows<T> weights;
    weights.a = rows.data();
    weights.groups = area_ * groups_;
    weights.rows = y_[1] / groups_;
    weights.group_stride = weights.rows * channels_;
    weights.row_stride = channels_;
    const SumEngine<T> engine(plan, settings_.arith, settings_.flush, weights, pool);
    // As many tiles at a time as keep the transformed data at some tens of megabytes.
    const std::int64_t chunk =
        std::max<std::int64_t>(64, (std::int64_t{1} << 23) / (area_ * std::max(x_[1], y_[1])));
    for (std::int64_t first = 0; first < tiles; first += chunk) {
      const std::int64_t count = std::min(chunk, tiles - first);
      const ir::Tensor data = transformed_data(first, count);
      const SumOperand<T> values(data, settings_.in, pool);
      std::vector<std::int64_t> offsets;
      for (std::int64_t c = 0; c < channels_; ++c) offsets.push_back(c * count);
      SumColumns<T> columns;
      columns.b = values.data();
      columns.columns = count;
      columns.group_stride = channels_ * count;
      columns.offsets = offsets;
      Scratch<S> sums(static_cast<std::size_t>(area_ * y_[1] * count));
      Sink sink(sums.data(), count);
      engine.run(columns, {}, sink);
      transform_back(sums.data(), first, count, result);
    }
    return result;
  }

 private:
  class Sink final : public SumSink<T> {
   public:
    Sink(S* to, std::int64_t columns) : to_(to), columns_(columns) {}
    void store(std::int64_t row, std::int64_t column, const SumBlock<T>& block) override {
      for (std::int64_t r = 0; r < block.rows; ++r)
        for (std::int64_t c = 0; c < block.columns; ++c)
          to_[(row + r) * columns_ + column + c] = static_cast<S>(block.row(r)[c]);
    }

   private:
    S* to_;
    std::int64_t columns_;
  };

  // A tensor that the sum engine may read as columns: kColumnSlack elements more than `count`.
  ir::Tensor values(std::int64_t count) const {
    return ir::Tensor(call_.operand(0).dtype(), {count + kColumnSlack});
  }

  // [n*n][output channels][channels of a group]
  ir::Tensor transformed_filters() const {
    const ir::Tensor& w = call_.operand(1);
    const std::int64_t count = y_[1] * channels_;
    ir::Tensor out = values(area_ * count);
    const auto from = w.data<S>();
    const auto to = out.data_mut<S>();
    const auto with = [&]<class F>(const Sandwich<F>& g) {
      for_each(call_.context.pool, y_[1], count * area_, [&](std::size_t k, int) {
        for (std::int64_t c = 0; c < channels_; ++c) {
          const std::int64_t at = static_cast<std::int64_t>(k) * channels_ + c;
          F taps[9], spread[Sandwich<F>::kLargest * Sandwich<F>::kLargest];
          for (int i = 0; i < 9; ++i)
            taps[i] = static_cast<F>(from[static_cast<std::size_t>(at * 9 + i)]);
          g(taps, spread);
          for (int i = 0; i < area_; ++i)
            to[static_cast<std::size_t>(i * count + at)] = static_cast<S>(spread[i]);
        }
      });
    };
    if (call_.contract.transform.filters == ir::Precision::kF64)
      with(Sandwich<double>(matrices_.g, fused_));
    else
      with(Sandwich<S>(matrices_.g, fused_));
    return out;
  }

  struct Tile {
    std::int64_t image, y, x;  // of its first output
  };
  Tile tile(std::int64_t index) const {
    const std::int64_t per_image = tiles_h_ * tiles_w_;
    return {index / per_image, index / tiles_w_ % tiles_h_ * m_, index % tiles_w_ * m_};
  }

  // [n*n][channels][count]; outside the image data are +0.
  ir::Tensor transformed_data(std::int64_t first, std::int64_t count) const {
    ir::Tensor out = values(area_ * x_[1] * count);
    const auto from = call_.operand(0).data<S>();
    const auto to = out.data_mut<S>();
    const Sandwich<S> bt(matrices_.bt, fused_);
    const std::int64_t top = call_.node.ints("pad")[0], left = call_.node.ints("pad")[1];
    for_each(call_.context.pool, x_[1], x_[1] * count * area_, [&](std::size_t channel, int) {
      const auto c = static_cast<std::int64_t>(channel);
      S patch[Sandwich<S>::kLargest * Sandwich<S>::kLargest],
          spread[Sandwich<S>::kLargest * Sandwich<S>::kLargest];
      for (std::int64_t t = 0; t < count; ++t) {
        const Tile place = tile(first + t);
        const S* plane = from.data() + (place.image * x_[1] + c) * x_[2] * x_[3];
        for (int r = 0; r < n_; ++r)
          for (int s = 0; s < n_; ++s) {
            const std::int64_t y = place.y - top + r, x = place.x - left + s;
            const bool inside = y >= 0 && y < x_[2] && x >= 0 && x < x_[3];
            patch[r * n_ + s] = inside ? plane[y * x_[3] + x] : S{0};
          }
        bt(patch, spread);
        for (int i = 0; i < area_; ++i)
          to[static_cast<std::size_t>((i * x_[1] + c) * count + t)] = spread[i];
      }
    });
    return out;
  }

  void transform_back(const S* sums, std::int64_t first, std::int64_t count,
                      ir::Tensor& result) const {
    const auto out = result.data_mut<S>();
    const S* bias =
        call_.operands.size() == 3 ? call_.operand(2).template data<S>().data() : nullptr;
    const Sandwich<S> at(matrices_.at, fused_);
    for_each(call_.context.pool, y_[1], y_[1] * count * area_, [&](std::size_t channel, int) {
      const auto k = static_cast<std::int64_t>(channel);
      S from[Sandwich<S>::kLargest * Sandwich<S>::kLargest],
          block[Sandwich<S>::kLargest * Sandwich<S>::kLargest];
      for (std::int64_t t = 0; t < count; ++t) {
        for (int i = 0; i < area_; ++i) from[i] = sums[(i * y_[1] + k) * count + t];
        at(from, block);
        const Tile place = tile(first + t);
        S* plane = out.data() + (place.image * y_[1] + k) * y_[2] * y_[3];
        for (int r = 0; r < m_ && place.y + r < y_[2]; ++r)
          for (int s = 0; s < m_ && place.x + s < y_[3]; ++s) {
            S value = block[r * m_ + s];
            if (bias != nullptr) value = add_rn(value, bias[k]);
            plane[(place.y + r) * y_[3] + place.x + s] = canonical(value);
          }
      }
    });
  }

  const OpCall& call_;
  const SumSettings& settings_;
  const ir::WinogradMatrices& matrices_;
  bool fused_;
  int n_, m_, area_;
  const ir::Shape &x_, &y_;
  std::int64_t groups_, channels_, tiles_h_, tiles_w_;
};

}  // namespace

ir::Tensor evaluate_winograd(const OpCall& call) {
  const SumSettings settings = sum_settings(call);
  DRIFTC_ASSERT(ir::why_not(ir::Algorithm::kWinograd2, call.graph, call.node).empty(),
                "a Winograd contract for a convolution that does not fit");
  if (call.operand(0).dtype() == ir::DType::kF64)
    return Winograd<double, double>(call, settings).run();
  return settings.wide ? Winograd<double, float>(call, settings).run()
                       : Winograd<float, float>(call, settings).run();
}

}  // namespace driftc::runtime
