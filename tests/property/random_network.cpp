#include "tests/support/random_network.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "ir/builder.h"
#include "ir/support/rng.h"
#include "passes/registry.h"

namespace driftc::tests {
namespace {

class Generator {
 public:
  Generator(std::uint64_t seed, Vocabulary vocabulary)
      : rng_(seed, "random_graph"), vocabulary_(vocabulary), builder_(graph_) {}

  RandomNetwork run(std::uint64_t seed) {
    data_ = static_cast<DataKind>(pick(6));
    const ir::Shape shape{1 + pick(2), 1 + pick(8), 5 + pick(8), 5 + pick(8)};
    values_.push_back(graph_.add_input("x", {ir::DType::kF32, shape, ir::Layout::kNchw}));
    const std::int64_t count = 3 + pick(7);
    for (std::int64_t i = 0; i < count; ++i) step();
    ir::ValueId last = values_.back();
    if (pick(3) == 0) last = classify(last);
    graph_.set_outputs({last});
    RandomNetwork out{std::move(graph_), {}, data_};
    ir::Tensor x(ir::DType::kF32, shape);
    fill_data(seed, "x", x.data_mut<float>());
    out.inputs.push_back({"x", std::move(x)});
    return out;
  }

 private:
  std::int64_t pick(std::int64_t n) {
    return static_cast<std::int64_t>(rng_.bits(counter_++) % static_cast<std::uint64_t>(n));
  }
  const ir::Shape& shape(ir::ValueId v) const { return graph_.value(v).type.shape; }
  ir::ValueId any() {
    return values_[static_cast<std::size_t>(pick(static_cast<std::int64_t>(values_.size())))];
  }

  void fill_data(std::uint64_t seed, std::string_view name, std::span<float> out) {
    fill(data_ == DataKind::kIntegers   ? Distribution::kIntegers
         : data_ == DataKind::kPositive ? Distribution::kUniform
         : data_ == DataKind::kSparse   ? Distribution::kRelu
                                        : Distribution::kRandom,
         seed, name, out);
    // Powers of two far from both ends: partial sums neither overflow nor become subnormal.
    const float scale = data_ == DataKind::kHuge   ? 0x1p20f
                        : data_ == DataKind::kTiny ? 0x1p-20f
                                                   : 1.0f;
    for (float& v : out) v *= scale;
  }
  ir::ValueId constant(std::string name, ir::Shape s) {
    ir::Tensor t(ir::DType::kF32, s);
    const std::string unique = graph_.fresh_name(name);
    fill(data_ == DataKind::kIntegers ? Distribution::kIntegers : Distribution::kSymmetric, 7,
         unique, t.data_mut<float>());
    return graph_.add_constant(unique, ir::Literal::dense(std::move(t)));
  }
  ir::ValueId positive(std::string name, ir::Shape s) {
    ir::Tensor t(ir::DType::kF32, s);
    const std::string unique = graph_.fresh_name(name);
    fill(Distribution::kUniform, 7, unique, t.data_mut<float>());
    for (float& v : t.data_mut<float>()) v += 0.5f;
    return graph_.add_constant(unique, ir::Literal::dense(std::move(t)));
  }
  void push(Result<ir::ValueId> value) {
    if (value.ok()) values_.push_back(*value);  // a window that does not fit: no node
  }

  static constexpr int kFew[] = {0, 1, 4, 4, 5, 6};  // conv twice, relu twice, add, pool
  void step() {
    const ir::ValueId x = pick(4) == 0 ? any() : values_.back();
    switch (vocabulary_ == Vocabulary::kAll ? pick(9) : kFew[pick(6)]) {
      case 0:
      case 1:
      case 2:
        return conv(x);
      case 3: {
        const std::int64_t c = shape(x)[1];
        return push(builder_.add(ir::Op::kBatchNorm,
                                 {x, positive("scale", {c}), constant("shift", {c}),
                                  constant("mean", {c}), positive("var", {c})},
                                 {}, "bn"));
      }
      case 4:
        return push(builder_.add(ir::Op::kRelu, {x}, {}, "relu"));
      case 5: {
        // A residual, when an earlier value has the shape; else a per-channel addend.
        for (int tries = 0; tries < 4; ++tries) {
          const ir::ValueId other = any();
          if (shape(other) == shape(x))
            return push(builder_.add(
                vocabulary_ == Vocabulary::kAll && pick(4) == 0 ? ir::Op::kMul : ir::Op::kAdd,
                {x, other}, {}, "add"));
        }
        return push(
            builder_.add(ir::Op::kAdd, {x, constant("b", {1, shape(x)[1], 1, 1})}, {}, "bias"));
      }
      case 6:
        return push(builder_.add(pick(2) ? ir::Op::kMaxPool : ir::Op::kAvgPool, {x},
                                 {{"kernel", std::vector<std::int64_t>{2, 2}},
                                  {"stride", std::vector<std::int64_t>{1 + pick(2), 1}}},
                                 "pool"));
      case 7: {
        const ir::ValueId scaled =
            *builder_.add(ir::Op::kMul, {x, constant("m", {1, shape(x)[1], 1, 1})}, {}, "mul");
        return push(builder_.add(ir::Op::kAdd, {scaled, constant("a", {1, shape(x)[1], 1, 1})}, {},
                                 "axpy"));
      }
      default:
        return push(builder_.add(ir::Op::kClip, {x},
                                 {{"min", -0.5}, {"max", data_ == DataKind::kHuge ? 0x1p30 : 6.0}},
                                 "clip"));
    }
  }

  void conv(ir::ValueId x) {
    const std::int64_t c = shape(x)[1];
    const std::int64_t size = pick(3) == 0 ? 1 : 3;
    std::int64_t groups = pick(4) == 0 ? c : 1;
    if (groups == 1 && c % 2 == 0 && pick(5) == 0) groups = 2;
    const std::int64_t k = groups * (1 + pick(groups == 1 ? 9 : 2));
    auto two = [&](std::int64_t n) { return std::vector<std::int64_t>{1 + pick(n), 1 + pick(n)}; };
    std::vector<ir::ValueId> operands = {x, constant("w", {k, c / groups, size, size})};
    if (pick(3) == 0) operands.push_back(constant("bias", {k}));
    const bool plain = size == 1 && pick(2) == 0;
    push(builder_.add(
        ir::Op::kConv2d, operands,
        {{"groups", groups},
         {"stride", plain ? std::vector<std::int64_t>{1, 1} : two(2)},
         {"dilation", size == 3 && pick(5) == 0 ? two(2) : std::vector<std::int64_t>{1, 1}},
         {"pad", plain ? std::vector<std::int64_t>{0, 0, 0, 0}
                       : std::vector<std::int64_t>{pick(2), pick(2), pick(2), pick(2)}}},
        "conv"));
  }

  ir::ValueId classify(ir::ValueId x) {
    const ir::ValueId pooled = *builder_.add(ir::Op::kGlobalAvgPool, {x}, {}, "gap");
    const ir::ValueId flat = *builder_.add(ir::Op::kFlatten, {pooled}, {}, "flat");
    const std::int64_t c = shape(flat)[1];
    return *builder_.add(ir::Op::kGemm, {flat, constant("fc", {10, c}), constant("fcb", {10})},
                         {{"trans_b", std::int64_t{1}}}, "logits");
  }

  CounterRng rng_;
  const Vocabulary vocabulary_;
  std::uint64_t counter_ = 0;
  ir::Graph graph_{"random"};
  ir::Builder builder_;
  std::vector<ir::ValueId> values_;
  DataKind data_ = DataKind::kRandom;
};

}  // namespace

RandomNetwork random_network(std::uint64_t seed, Vocabulary vocabulary) {
  return Generator(seed, vocabulary).run(seed);
}

RandomSettings random_settings(std::uint64_t seed) {
  const CounterRng rng(seed, "random_settings");
  RandomSettings settings;
  std::uint64_t n = 0;
  settings.passes = "none";
  for (const passes::PassInfo& pass : passes::all_passes())
    if (pass.on_in.all && rng.bits(n++) % 2 == 0) settings.passes += ",+" + std::string(pass.name);
  // One order for convolutions at a time; pools and matmuls keep theirs.
  static constexpr const char* kOrders[] = {"",       "", "rsc.fma", "crs.muladd", "crs.split2.fma",
                                            "crs.f64"};
  settings.eager_order = kOrders[rng.bits(n++) % std::size(kOrders)];
  return settings;
}

}  // namespace driftc::tests
