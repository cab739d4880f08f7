// conv_transpose: a sum over (c, r, s) like a convolution's, in which position (c, r, s) of output
// row y reads input row i with i * stride + r * dilation - pad = y. Where there is no such row the
// position is padding, which eager's order skips; output pixels whose taps are padding alike share
// one plan.
#include <map>
#include <memory>

#include "runtime/eager/conv_sink.h"

namespace driftc::runtime {
namespace {

// The input row (or column) that each tap of an output row reads; -1: none.
using Taps = std::vector<std::int64_t>;

struct Direction {
  std::int64_t in, kernel, stride, pad, dilation;
  Taps taps(std::int64_t out) const {
    Taps taps;
    for (std::int64_t r = 0; r < kernel; ++r) {
      const std::int64_t at = out + pad - r * dilation;
      taps.push_back(at >= 0 && at % stride == 0 && at / stride < in ? at / stride : -1);
    }
    return taps;
  }
};

// The sink of a list of pixels: column i is the i-th of them.
template <class T>
class PixelListSink final : public SumSink<T> {
 public:
  PixelListSink(std::span<const Pixel> pixels, PixelSink<T>& sink) : pixels_(pixels), sink_(sink) {}
  void store(std::int64_t row, std::int64_t column, const SumBlock<T>& block) override {
    for (std::int64_t i = 0; i < block.columns; ++i) {
      const Pixel& pixel = pixels_[static_cast<std::size_t>(column + i)];
      sink_.store(pixel.image, row, pixel.position, {block.sums + i, block.rows, 1, block.stride});
    }
  }

 private:
  std::span<const Pixel> pixels_;
  PixelSink<T>& sink_;
};

template <class T>
class TransposedSums {
 public:
  TransposedSums(const OpCall& call, const SumSettings& settings)
      : call_(call),
        settings_(settings),
        x_(call.operand(0).shape()),
        w_(call.operand(1).shape()),
        y_(call.result_shape()),
        groups_(call.node.integer("groups")),
        channels_(w_[0] / groups_),
        taps_(w_[2] * w_[3]),
        input_(call.operand(0), settings.in, call.context.pool),
        weights_(call.operand(1), settings.in, call.context.pool) {
    const auto &stride = call.node.ints("stride"), &pad = call.node.ints("pad"),
               &dilation = call.node.ints("dilation");
    rows_ = {x_[2], w_[2], stride[0], pad[0], dilation[0]};
    columns_ = {x_[3], w_[3], stride[1], pad[1], dilation[1]};
    // [groups][K/groups][positions], as the engine wants its rows.
    packed_ = Scratch<T>(static_cast<std::size_t>(w_.elements()));
    for (std::int64_t g = 0; g < groups_; ++g)
      for (std::int64_t k = 0; k < w_[1]; ++k)
        for (std::int64_t c = 0; c < channels_; ++c)
          std::copy_n(weights_.data() + ((g * channels_ + c) * w_[1] + k) * taps_, taps_,
                      packed_.data() + ((g * w_[1] + k) * channels_ + c) * taps_);
    if (call.operands.size() == 3 && settings.bias == ir::BiasPoint::kFirst)
      start_ = SumOperand<T>(call.operand(2), ir::Precision::kF32, call.context.pool);
  }

  void run(PixelSink<T>& sink) {
    std::map<std::pair<std::vector<bool>, std::vector<bool>>, std::vector<std::int64_t>> by_mask;
    for (std::int64_t y = 0; y < y_[2]; ++y) {
      const std::vector<bool> row_mask = mask(rows_.taps(y));
      for (std::int64_t x = 0; x < y_[3]; ++x)
        by_mask[{row_mask, mask(columns_.taps(x))}].push_back(y * y_[3] + x);
    }
    for (const auto& [masks, positions] : by_mask) {
      const std::int64_t leaves = channels_ * taps_;
      const auto padded = std::make_unique<bool[]>(static_cast<std::size_t>(leaves));
      if (settings_.order.skip)
        for (std::int64_t p = 0; p < leaves; ++p)
          padded[static_cast<std::size_t>(p)] =
              !masks.first[static_cast<std::size_t>(p % taps_ / w_[3])] ||
              !masks.second[static_cast<std::size_t>(p % w_[3])];
      const SumPlan plan = make_plan(settings_.order, {channels_, w_[2], w_[3]},
                                     {padded.get(), static_cast<std::size_t>(leaves)},
                                     call_.context.atomic_seed, sizeof(T) == 8);
      const SumRows<T> rows{packed_.data(), groups_, w_[1], w_[1] * leaves, leaves, 1};
      const SumEngine<T> engine(plan, settings_.arith, settings_.flush, rows, call_.context.pool,
                                sizeof(T) == 4 ? settings_.mma : std::nullopt);
      std::vector<Pixel> pixels;
      for (std::int64_t n = 0; n < x_[0]; ++n)
        for (std::int64_t p : positions) pixels.push_back({n, p});
      constexpr std::int64_t kElements = std::int64_t{1} << 22;
      const auto batch = static_cast<std::size_t>(std::max<std::int64_t>(
          kColumnSlack, kElements / std::max<std::int64_t>(1, x_[1] * taps_)));
      for (std::size_t i = 0; i < pixels.size(); i += batch)
        run_pixels(engine, std::span(pixels).subspan(i, std::min(batch, pixels.size() - i)), sink);
    }
  }

 private:
  // Without `.skip` all pixels share one plan: one mask for all.
  std::vector<bool> mask(const Taps& taps) const {
    std::vector<bool> out;
    for (std::int64_t at : taps) out.push_back(!settings_.order.skip || at >= 0);
    return out;
  }

  void run_pixels(const SumEngine<T>& engine, std::span<const Pixel> pixels, PixelSink<T>& sink) {
    const auto count = static_cast<std::int64_t>(pixels.size());
    const Scratch<T> gathered(static_cast<std::size_t>(x_[1] * taps_ * count + kColumnSlack));
    std::fill_n(gathered.data() + x_[1] * taps_ * count, kColumnSlack, T{0});
    for (std::int64_t i = 0; i < count; ++i) {
      const Pixel& pixel = pixels[static_cast<std::size_t>(i)];
      const Taps row = rows_.taps(pixel.position / y_[3]),
                 column = columns_.taps(pixel.position % y_[3]);
      for (std::int64_t c = 0; c < x_[1]; ++c) {
        const T* image = input_.data() + (pixel.image * x_[1] + c) * x_[2] * x_[3];
        T* to = gathered.data() + c * taps_ * count + i;
        for (std::int64_t iy : row)
          for (std::int64_t ix : column) {
            *to = iy < 0 || ix < 0 ? T{0} : image[iy * x_[3] + ix];
            to += count;
          }
      }
    }
    std::vector<std::int64_t> offsets;
    for (std::int64_t p = 0; p < channels_ * taps_; ++p) offsets.push_back(p * count);
    PixelListSink<T> list(pixels, sink);
    engine.run({gathered.data(), count, channels_ * taps_ * count, offsets}, {start_.data(), 1, 0},
               list);
  }

  const OpCall& call_;
  const SumSettings& settings_;
  const ir::Shape &x_, &w_, &y_;
  std::int64_t groups_, channels_, taps_;
  Direction rows_{}, columns_{};
  SumOperand<T> input_, weights_, start_;
  Scratch<T> packed_;
};

template <class T, class S>
ir::Tensor transposed(const OpCall& call, const SumSettings& settings) {
  const ir::Shape& y = call.result_shape();
  const S* bias = call.operands.size() == 3 ? call.operand(2).template data<S>().data() : nullptr;
  ir::Tensor result(call.operand(0).dtype(), y);
  const auto out = result.data_mut<S>();
  if (settings.flush) {
    ConvSink<T, S, true> sink(out, y[1], y[2] * y[3], bias, settings.bias);
    TransposedSums<T>(call, settings).run(sink);
  } else {
    ConvSink<T, S, false> sink(out, y[1], y[2] * y[3], bias, settings.bias);
    TransposedSums<T>(call, settings).run(sink);
  }
  return result;
}

}  // namespace

ir::Tensor evaluate_conv_transpose(const OpCall& call) {
  const SumSettings settings = sum_settings(call);
  if (stores_before_bias(call, settings)) {
    const OpCall sum{call.graph, call.node, call.operands.first(2), call.contract, call.context};
    return add_stored_bias(evaluate_conv_transpose(sum), call);
  }
  if (call.operand(0).dtype() == ir::DType::kF64) return transposed<double, double>(call, settings);
  return settings.wide ? transposed<double, float>(call, settings)
                       : transposed<float, float>(call, settings);
}

}  // namespace driftc::runtime
