#include "tests/unit/emit_families.h"

namespace driftc::test {
namespace {

using ir::Algorithm;
using ir::Layout;
using ir::Op;
using Ints = std::vector<std::int64_t>;

constexpr Layout kNchw = Layout::kNchw, kNhwc = Layout::kNhwc;

struct ConvSpec {
  Algorithm algorithm = Algorithm::kImplicitGemm;
  const char* order = "crs.fma";
  ir::Schedule schedule{};
  std::int64_t kernel_h = 3, kernel_w = 3;
  Layout in = kNchw, out = kNchw;
  bool bias = false, grouped = false, depthwise = false;
  std::int64_t channels_low = 1, channels_high = 40;
  bool tall = false;            // several lines a thread
  std::int64_t dilation_w = 0;  // 0: drawn
};

// The convolution node of a case with random shapes; `x` and the output's shape are for epilogues.
KernelCase conv(Draw& draw, const ConvSpec& s) {
  KernelCase test(s.algorithm, s.order, s.schedule);
  std::int64_t groups = s.grouped ? draw(2, 4) : 1;
  std::int64_t channels = draw(s.channels_low, s.channels_high), columns = draw(2, 90);
  if (s.grouped) channels = draw(1, 6), columns = draw(1, 20) * 4;
  if (s.depthwise) groups = draw(2, 9), channels = 1, columns = draw(1, 2);
  const std::int64_t dh = draw(1, 2), dw = s.dilation_w > 0 ? s.dilation_w : draw(1, 2);
  const Ints pad{draw(0, 3), draw(0, 3), draw(0, 3), draw(0, 3)};
  const std::int64_t h =
      s.tall ? draw(72, 90) : std::max(draw(1, 13), (s.kernel_h - 1) * dh + 3 - pad[0] - pad[2]);
  const std::int64_t w = std::max(draw(1, 13), (s.kernel_w - 1) * dw + 3 - pad[1] - pad[3]);
  std::vector<ir::ValueId> operands;
  operands.push_back(test.input({draw(1, 3), groups * channels, h, w}, s.in));
  operands.push_back(test.input({groups * columns, channels, s.kernel_h, s.kernel_w}));
  if (s.bias) operands.push_back(test.input({groups * columns}));
  test.add(Op::kConv2d, operands,
           {{"stride", Ints{draw(1, 2), draw(1, 2)}},
            {"pad", pad},
            {"dilation", Ints{dh, dw}},
            {"groups", groups}});
  return test;
}
ir::ValueId last(const KernelCase& test) { return test.kernel.body.nodes().back().result; }
ir::Shape shape_of(const KernelCase& test) { return test.kernel.body.value(last(test)).type.shape; }

KernelCase plain(Draw& draw, const ConvSpec& s) {
  KernelCase test = conv(draw, s);
  test.finish(s.out);
  return test;
}
KernelCase add_relu(Draw& draw, const ConvSpec& s) {
  KernelCase test = conv(draw, s);
  const ir::ValueId residual = test.input(shape_of(test), s.out);
  test.add(Op::kRelu, {test.add(Op::kAdd, {last(test), residual})});
  test.finish(s.out);
  return test;
}
KernelCase transposed(Draw& d, const char* order, Layout in, Layout out, bool bias, bool tanh) {
  KernelCase test(Algorithm::kDirect, order);
  const std::int64_t groups = d(1, 3), channels = groups * d(1, 5), columns = d(1, 4);
  const Ints stride{d(1, 3), d(1, 3)}, dilation{d(1, 2), d(1, 2)};
  std::vector<ir::ValueId> operands{test.input({d(1, 2), channels, d(2, 6), d(2, 6)}, in),
                                    test.input({channels, columns, 3, 2})};
  if (bias) operands.push_back(test.input({groups * columns}));
  const ir::ValueId y = test.add(Op::kConvTranspose, operands,
                                 {{"stride", stride},
                                  {"pad", Ints{d(0, 1), d(0, 1), d(0, 1), d(0, 1)}},
                                  {"dilation", dilation},
                                  {"output_pad", Ints{d(0, stride[0] - 1), d(0, stride[1] - 1)}},
                                  {"groups", groups}});
  if (tanh) test.add(Op::kTanh, {y});
  test.finish(out);
  return test;
}
KernelCase silu(Draw& draw, const ConvSpec& s) {  // x * sigmoid(x), then a function of it
  KernelCase test = conv(draw, s);
  const ir::ValueId y = last(test);
  test.add(Op::kHardSwish, {test.add(Op::kMul, {y, test.add(Op::kSigmoid, {y})})});
  test.finish(s.out);
  return test;
}
KernelCase batch_norm_clip(Draw& draw, const ConvSpec& s, bool contract) {
  KernelCase test = conv(draw, s);
  std::vector<ir::ValueId> operands{last(test)};
  const std::int64_t c = shape_of(test)[1];
  for (int i = 0; i < 4; ++i) operands.push_back(test.input({c}));
  test.add(Op::kClip, {test.add(Op::kBatchNorm, operands)}, {{"min", -0.75}, {"max", 6.0}});
  test.finish(s.out);
  test.kernel.contract.contract = contract;
  return test;
}
KernelCase with_precision(KernelCase test, ir::Precision in) {
  test.kernel.contract.in = in;
  return test;
}

const ir::Schedule kSmall{32, 16, 18, 4, 2, 1}, kRuns{64, 32, 16, 4, 2, 4},
    kFlat{32, 32, 16, 4, 2, 1}, kChannels{64, 80, 8, 4, 5, 1},
    // Lanes along the columns of an NCHW result; threads are left over by the rows.
    kSevens{49, 64, 36, 7, 2, 4};

const Family kFamilies[] = {
    {"conv_transpose, eager's order, tanh",
     [](Draw& d) { return transposed(d, "crs.skip.fma+bias.stored", kNchw, kNchw, true, true); }},
    {"conv_transpose rsc nhwc, padding multiplied",
     [](Draw& d) { return transposed(d, "rsc.muladd", kNhwc, kNhwc, false, false); }},
    {"conv_transpose tiles, bias first, f64",
     [](Draw& d) { return transposed(d, "c2rs.skip.f64+bias.first", kNhwc, kNchw, true, false); }},
    {"silu and hard_swish after a convolution",
     [](Draw& d) {
       return silu(d, {.order = "rsc.fma+bias.stored",
                       .schedule = kSmall,
                       .in = kNhwc,
                       .out = kNhwc,
                       .bias = true});
     }},
    {"3x3 crs", [](Draw& d) { return plain(d, {.schedule = kSevens}); }},
    {"3x3 crs, bias stored, residual, relu",
     [](Draw& d) {
       return add_relu(d, {.order = "crs.fma+bias.stored", .schedule = kSmall, .bias = true});
     }},
    {"3x3 crs, batch_norm, clip",
     [](Draw& d) { return batch_norm_clip(d, {.schedule = kSmall}, false); },
     Distribution::kUniform},
    {"3x3 crs, batch_norm contracted",
     [](Draw& d) { return batch_norm_clip(d, {.schedule = kSmall}, true); },
     Distribution::kUniform},
    {"3x3 rsc nhwc, bias first",
     [](Draw& d) {
       return add_relu(d, {.order = "rsc.fma+bias.first",
                           .schedule = kRuns,
                           .in = kNhwc,
                           .out = kNhwc,
                           .bias = true,
                           .channels_low = 16});
     }},
    {"3x3 rsc nhwc, few channels",
     [](Draw& d) {
       return plain(
           d,
           {.order = "rsc.fma", .schedule = kRuns, .in = kNhwc, .out = kNhwc, .channels_high = 15});
     }},
    {"3x3 rsc nchw to nhwc",
     [](Draw& d) {
       return plain(d, {.order = "rsc.fma", .schedule = kRuns, .out = kNhwc, .channels_low = 16});
     }},
    {"3x3 crs nhwc",
     [](Draw& d) { return plain(d, {.schedule = kSmall, .in = kNhwc, .out = kNhwc}); }},
    {"3x3 c16rs nhwc",
     [](Draw& d) {
       return plain(d, {.order = "c16rs.fma",
                        .schedule = kChannels,
                        .in = kNhwc,
                        .out = kNhwc,
                        .channels_low = 8,
                        .channels_high = 50});
     }},
    {"3x3 c5rs kahan, bias last",
     [](Draw& d) {
       return plain(
           d,
           {.order = "c5rs.kahan+bias.last", .schedule = kFlat, .bias = true, .channels_high = 15});
     }},
    {"1x1 crs f64, bias last",
     [](Draw& d) {
       return plain(d, {.order = "crs.f64+bias.last",
                        .schedule = {64, 32, 16, 4, 2, 4},
                        .kernel_h = 1,
                        .kernel_w = 1,
                        .bias = true,
                        .channels_high = 70});
     }},
    {"7x7 crs flat",
     [](Draw& d) {
       return plain(d, {.schedule = kFlat, .kernel_h = 7, .kernel_w = 7, .channels_high = 4});
     }},
    {"1x3 rsc flat",
     [](Draw& d) {
       return plain(d, {.order = "rsc.fma",
                        .schedule = kFlat,
                        .kernel_h = 1,
                        .kernel_w = 3,
                        .channels_high = 15});
     }},
    {"3x1 rsc runs",
     [](Draw& d) {
       return plain(d, {.order = "rsc.muladd",
                        .schedule = kFlat,
                        .kernel_h = 3,
                        .kernel_w = 1,
                        .channels_low = 16});
     }},
    {"3x3 crs grouped muladd",
     [](Draw& d) {
       return plain(d, {.order = "crs.muladd", .schedule = kSmall, .grouped = true});
     }},
    {"3x3 rsc grouped nhwc, bias first",
     [](Draw& d) {
       return plain(d, {.order = "rsc.fma+bias.first",
                        .schedule = kFlat,
                        .in = kNhwc,
                        .out = kNhwc,
                        .bias = true,
                        .grouped = true});
     }},
    {"3x3 crs split serial, bias first, relu",
     [](Draw& d) {
       return add_relu(d, {.order = "crs.split5.fma+bias.first", .schedule = kSmall, .bias = true});
     }},
    {"3x3 rsc split pairwise nhwc",
     [](Draw& d) {
       return plain(d, {.order = "rsc.split3p.fma+bias.stored",
                        .schedule = kRuns,
                        .in = kNhwc,
                        .out = kNhwc,
                        .bias = true,
                        .channels_low = 16});
     }},
    {"3x3 c4rs split f64",
     [](Draw& d) {
       return plain(
           d, {.order = "c4rs.split3.f64", .schedule = {32, 16, 4, 4, 2, 1}, .channels_low = 4});
     }},
    {"3x3 crs split atomic",
     [](Draw& d) {
       return plain(d, {.order = "crs.split4a.fma+bias.last", .schedule = kSmall, .bias = true});
     }},
    {"3x3 crs tf32 rna",
     [](Draw& d) {
       return with_precision(plain(d, {.schedule = kSmall}), ir::Precision::kTf32Rna);
     }},
    {"1x1 rsc tf32 trunc",
     [](Draw& d) {
       return with_precision(plain(d, {.order = "rsc.fma",
                                       .schedule = kRuns,
                                       .kernel_h = 1,
                                       .kernel_w = 1,
                                       .in = kNhwc,
                                       .out = kNhwc,
                                       .channels_low = 16}),
                             ir::Precision::kTf32Trunc);
     }},
    {"3x3 crs wide",
     [](Draw& d) {
       KernelCase test = plain(d, {.schedule = kSmall});
       test.options.force_wide_index = true;
       return test;
     }},
    {"direct 3x3 crs depthwise, bias first",
     [](Draw& d) {
       return plain(d, {.algorithm = Algorithm::kDirect,
                        .order = "crs.fma+bias.first",
                        .bias = true,
                        .depthwise = true});
     }},
    {"direct 3x3 depthwise nhwc, residual",
     [](Draw& d) {
       return add_relu(d, {.algorithm = Algorithm::kDirect,
                           .order = "rsc.fma",
                           .in = kNhwc,
                           .out = kNhwc,
                           .depthwise = true});
     }},
    {"direct 3x3 crs skip",
     [](Draw& d) { return plain(d, {.algorithm = Algorithm::kDirect, .order = "crs.skip.fma"}); }},
    {"direct 3x3 rsc skip grouped",
     [](Draw& d) {
       return plain(d, {
                           .algorithm = Algorithm::kDirect,
                           .order = "rsc.skip.muladd",
                           .in = kNhwc,
                           .out = kNhwc,
                           .grouped = true,
                       });
     }},
    {"direct 5x2 c3rs kahan",
     [](Draw& d) {
       return plain(d, {.algorithm = Algorithm::kDirect,
                        .order = "c3rs.kahan+bias.last",
                        .kernel_h = 5,
                        .kernel_w = 2,
                        .bias = true,
                        .channels_low = 2,
                        .channels_high = 9});
     }},
    {"direct 3x3 crs depthwise, tall",
     [](Draw& d) {
       return plain(d, {.algorithm = Algorithm::kDirect,
                        .order = "crs.fma",
                        .depthwise = true,
                        .tall = true,
                        .dilation_w = 1});
     }},
    {"direct 2x3 crs skip muladd, tall, bias, dilated columns",
     [](Draw& d) {
       return plain(d, {.algorithm = Algorithm::kDirect,
                        .order = "crs.skip.muladd+bias.stored",
                        .kernel_h = 2,
                        .bias = true,
                        .channels_high = 4,
                        .tall = true});
     }},
    {"direct 1x1 crs f64",
     [](Draw& d) {
       return plain(d, {.algorithm = Algorithm::kDirect,
                        .order = "crs.f64+bias.stored",
                        .kernel_h = 1,
                        .kernel_w = 1,
                        .bias = true,
                        .channels_low = 2});
     }},
    {"direct 3x3 rsc skip, tall, residual",
     [](Draw& d) {
       return add_relu(d, {.algorithm = Algorithm::kDirect,
                           .order = "rsc.skip.fma",
                           .channels_high = 4,
                           .tall = true});
     }},
};

}  // namespace

std::span<const Family> conv_families() { return kFamilies; }

}  // namespace driftc::test
