#include "tests/unit/random_graph.h"

#include <string>

#include "ir/builder.h"
#include "ir/support/rng.h"

namespace driftc::tests {
namespace {

using ir::Op;
using Ints = std::vector<std::int64_t>;

class Maker {
 public:
  explicit Maker(std::uint64_t seed)
      : rng_(seed, "random_graph"), graph_("random"), builder_(graph_) {}

  ir::Graph run() {
    const std::int64_t channels = pick(1, 3) * 2, height = pick(3, 6), width = height + pick(0, 2);
    const std::int64_t batch = pick(1, 2);
    for (const char* name : {"x", "r"})
      pool_.push_back(graph_.add_input(
          name, {ir::DType::kF32, {batch, channels, height, width}, ir::Layout::kNchw}));
    const std::int64_t nodes = pick(4, 14);
    for (std::int64_t i = 0; i < nodes; ++i) step();
    std::vector<ir::ValueId> outputs = {pool_.back()};
    if (pick(0, 2) == 0) outputs.push_back(any());
    if (outputs.size() == 2 && outputs[0] == outputs[1]) outputs.pop_back();
    graph_.set_outputs(outputs);
    return graph_;
  }

 private:
  std::int64_t pick(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>(rng_.bits(counter_++) %
                                          static_cast<std::uint64_t>(hi - lo + 1));
  }
  // Mostly the newest value, so that chains form.
  ir::ValueId any() {
    const auto size = static_cast<std::int64_t>(pool_.size());
    return pool_[static_cast<std::size_t>(pick(0, 3) > 0 ? size - 1 : pick(0, size - 1))];
  }
  const ir::Shape& shape(ir::ValueId value) const { return graph_.value(value).type.shape; }
  std::string name() { return "v" + std::to_string(graph_.value_count()); }

  ir::ValueId constant(const ir::Shape& wanted, double lowest = -1) {
    ir::Tensor tensor(ir::DType::kF32, wanted);
    for (float& value : tensor.data_mut<float>())
      value = static_cast<float>(lowest + static_cast<double>(pick(0, 4096)) * 0x1p-11);
    return graph_.add_constant(name(), ir::Literal::dense(tensor));
  }
  void add(Op op, std::vector<ir::ValueId> operands, const ir::AttributeList& attributes = {}) {
    auto made = builder_.add(op, std::move(operands), attributes, name());
    if (made.ok() && shape(*made).rank() == 4)
      pool_.push_back(*made);  // a step that does not fit is skipped
  }

  void step() {
    const ir::ValueId x = any();
    const ir::Shape s = shape(x);
    switch (pick(0, 20)) {
      case 0:
      case 1:
      case 2:
        return convolution(x);
      case 3:
        return normalise(x);
      case 4:
      case 5:
        return add(Op::kRelu, {x});
      case 6:
        return pick(0, 1) == 0 ? add(Op::kClip, {x})
                               : add(Op::kClip, {x}, {{"min", -0.5}, {"max", 0.5}});
      case 7:
      case 8:
      case 9:
        return binary(x);
      case 10:
        return binary_with_constant(x);
      case 11:
        return add(Op::kIdentity, {x});
      case 12:
        return add(Op::kReshape, {x}, {{"shape", s.dims()}});
      case 13: {
        const std::int64_t value = pick(0, 2);
        return add(Op::kPad, {x},
                   {{"before", Ints{0, 0, pick(0, 1), pick(0, 1)}},
                    {"after", Ints{0, 0, pick(0, 1), pick(-1, 1)}},
                    {"value", value == 0   ? 1.0
                              : value == 1 ? -0.0
                                           : 0.0}});
      }
      case 14:
        return add(pick(0, 1) == 0 ? Op::kMaxPool : Op::kAvgPool, {x},
                   {{"kernel", Ints{2, 3}}, {"pad", Ints{0, 1, 1, 1}}});
      case 15:
        return add(Op::kTranspose, {x},
                   {{"perm", pick(0, 1) == 0 ? Ints{0, 1, 3, 2} : Ints{1, 0, 2, 3}}});
      case 17:
      case 18:
        return activation(x);
      case 19:
        return reduction(x);
      case 16:
        return add(Op::kConcat, {x, any()}, {{"axis", std::int64_t{1}}});
      default:
        return add(Op::kSlice, {x},
                   {{"starts", Ints{0, 0, 0, pick(0, 1)}},
                    {"steps", Ints{1, 1, 1, 1}},
                    {"sizes", Ints{s[0], s[1], s[2], s[3] - pick(0, 1)}}});
    }
  }

  void activation(ir::ValueId x) {
    constexpr Op kOps[] = {Op::kSigmoid,   Op::kTanh,        Op::kSoftplus, Op::kGelu,
                           Op::kErf,       Op::kAbs,         Op::kNeg,      Op::kElu,
                           Op::kLeakyRelu, Op::kHardSigmoid, Op::kMax,      Op::kHardSwish,
                           Op::kExp,       Op::kPrelu,       Op::kMin,      Op::kSqrt,
                           Op::kLog,       Op::kPow,         Op::kCast};
    const Op op = kOps[pick(0, static_cast<std::int64_t>(std::size(kOps)) - 1)];
    std::vector<ir::ValueId> operands = {x};
    if (op == Op::kPrelu) operands.push_back(constant({shape(x)[1], 1, 1}));
    if (op == Op::kPow) operands.push_back(constant({}, 0.5));
    if (op == Op::kMax || op == Op::kMin)
      operands.push_back(pick(0, 1) == 0 ? constant({shape(x)[3]}) : x);
    if (op == Op::kCast)
      return add(op, operands, {{"to", std::string(pick(0, 1) == 0 ? "f16" : "bf16")}});
    add(op, operands);
  }
  void reduction(ir::ValueId x) {
    constexpr Op kOps[] = {Op::kReduceMean, Op::kReduceSum, Op::kReduceMax, Op::kReduceMin};
    const Ints axes[] = {{1}, {2, 3}, {0, 2}, {3}};
    add(kOps[pick(0, 3)], {x}, {{"axes", axes[pick(0, 3)]}});
  }
  void convolution(ir::ValueId x) {
    const std::int64_t in = shape(x)[1], kernel = pick(0, 1) == 0 ? 1 : 3;
    const std::int64_t groups = pick(0, 3) == 0 ? in : pick(0, 3) == 0 && in % 2 == 0 ? 2 : 1;
    const std::int64_t out = groups == in ? in * pick(1, 2) : pick(1, 4) * 2;
    const ir::Shape weights{out, in / groups, kernel, kernel};
    // Sometimes the weights of an earlier convolution.
    if (pick(0, 2) > 0 || !weights_ || shape(*weights_) != weights) weights_ = constant(weights);
    std::vector<ir::ValueId> operands = {x, *weights_};
    if (pick(0, 2) == 0) operands.push_back(constant({out}));
    const std::int64_t pad = kernel == 3 || pick(0, 3) == 0 ? 1 : 0;
    const std::int64_t stride = pick(0, 3) == 0 ? 2 : 1;
    add(Op::kConv2d, operands,
        {{"stride", Ints{stride, pick(0, 5) == 0 ? 2 : stride}},
         {"pad", Ints{pad, pad, pad, pick(0, 5) == 0 ? 0 : pad}},
         {"groups", groups}});
    if (pick(0, 2) == 0) normalise(pool_.back());
  }
  void normalise(ir::ValueId x) {
    const std::int64_t channels = shape(x)[1];
    add(Op::kBatchNorm, {x, constant({channels}), constant({channels}), constant({channels}),
                         constant({channels}, 0.25)});
  }
  Op binary_op() {
    constexpr Op kOps[] = {Op::kAdd, Op::kAdd, Op::kMul, Op::kMul, Op::kSub, Op::kDiv};
    return kOps[pick(0, 5)];
  }
  void binary(ir::ValueId x) {
    for (int attempt = 0; attempt < 4; ++attempt) {
      const ir::ValueId y =
          pool_[static_cast<std::size_t>(pick(0, static_cast<std::int64_t>(pool_.size()) - 1))];
      if (shape(x) != shape(y)) continue;
      return pick(0, 1) == 0 ? add(binary_op(), {x, y}) : add(binary_op(), {y, x});
    }
    add(binary_op(), {x, x});
  }
  void binary_with_constant(ir::ValueId x) {
    const ir::Shape& s = shape(x);
    const ir::Shape shapes[] = {{s[1], 1, 1}, {1, s[1], 1, 1}, {}, {1},
                                {s[3]},       {1, 1, s[2], 1}, s,  {2, 1, 1, 1}};
    const ir::Shape wanted = shapes[pick(0, 7)];
    ir::ValueId y{};
    if (pick(0, 3) == 0) {
      constexpr double kNeutral[] = {1.0, 0.0, -0.0};
      y = graph_.add_constant(
          name(),
          ir::Literal::splat({ir::DType::kF32, wanted, ir::Layout::kNchw}, kNeutral[pick(0, 2)]));
    } else {
      y = constant(wanted);
      if (pick(0, 3) == 0) {  // something for fold-constants
        auto folded = builder_.add(Op::kRelu, {y}, {}, name());
        if (folded.ok()) y = *folded;
      }
    }
    return pick(0, 2) > 0 ? add(binary_op(), {x, y}) : add(binary_op(), {y, x});
  }

  CounterRng rng_;
  std::uint64_t counter_ = 0;
  ir::Graph graph_;
  ir::Builder builder_;
  std::vector<ir::ValueId> pool_;
  std::optional<ir::ValueId> weights_;
};

}  // namespace

ir::Graph random_graph(std::uint64_t seed) { return Maker(seed).run(); }

}  // namespace driftc::tests
