// Convolutions by Winograd, in phases and fused, and by im2col.
#include "tests/unit/emit_families.h"

namespace driftc::test {
namespace {

using ir::Algorithm;
using ir::Layout;
using ir::Op;
using Ints = std::vector<std::int64_t>;

constexpr Layout kNchw = Layout::kNchw, kNhwc = Layout::kNhwc;

struct Spec {
  Algorithm algorithm = Algorithm::kWinograd2;
  const char* order = "crs.fma";
  ir::Precision filters = ir::Precision::kF32, in = ir::Precision::kF32;
  Layout x = kNchw, y = kNchw;
  bool bias = false, grouped = false, add_relu = false;
  std::int64_t kernel = 3;                     // im2col only
  ir::Schedule schedule{32, 16, 16, 4, 2, 1};  // not of the fused forms
};

KernelCase make(Draw& draw, const Spec& s) {
  const int m = ir::winograd_tile(s.algorithm);
  const bool fused =
      s.algorithm == Algorithm::kWinograd2Fused || s.algorithm == Algorithm::kWinograd4Fused;
  KernelCase test(s.algorithm, s.order, fused ? ir::Schedule{16, 16, 8, 1, 1, 1} : s.schedule);
  const std::int64_t groups = s.grouped ? draw(2, 3) : 1;
  const std::int64_t channels = draw(1, s.grouped ? 9 : 37), columns = draw(1, s.grouped ? 9 : 40);
  const Ints pad{draw(0, 2), draw(0, 2), draw(0, 2), draw(0, 2)};
  std::vector<ir::ValueId> operands{
      test.input({draw(1, 2), groups * channels, draw(s.kernel, 13), draw(s.kernel, 13)}, s.x),
      test.input({groups * columns, channels, s.kernel, s.kernel})};
  if (s.bias) operands.push_back(test.input({groups * columns}));
  const std::int64_t stride = m == 0 ? draw(1, 2) : 1, dilation = m == 0 ? draw(1, 2) : 1;
  const bool fits = (s.kernel - 1) * dilation + 1 <= s.kernel;
  ir::ValueId y = test.add(Op::kConv2d, operands,
                           {{"pad", pad},
                            {"stride", Ints{stride, stride}},
                            {"dilation", fits ? Ints{dilation, dilation} : Ints{1, 1}},
                            {"groups", groups}});
  if (s.add_relu) {
    const ir::ValueId residual = test.input(test.kernel.body.value(y).type.shape, s.y);
    test.add(Op::kRelu, {test.add(Op::kAdd, {y, residual})});
  }
  test.finish(s.y);
  test.kernel.contract.in = s.in;
  if (m != 0) test.kernel.contract.transform = {m, s.filters};
  return test;
}

constexpr ir::Precision kF64 = ir::Precision::kF64;

// Chosen so that each emitter, both filter transforms and the combine launch run, from few sources.
const Family kSample[] = {
    {"winograd2 in phases, bias, residual, relu, to nhwc",
     [](Draw& d) {
       return make(d, {.algorithm = Algorithm::kWinograd2,
                       .order = "crs.fma+bias.stored",
                       .y = kNhwc,
                       .bias = true,
                       .add_relu = true,
                       // Vector loads, which take the padding of transformed filters along.
                       .schedule = {64, 64, 32, 4, 4, 4}});
     }},
    {"winograd4 fused, filters in f64, grouped",
     [](Draw& d) {
       return make(d, {.algorithm = Algorithm::kWinograd4Fused, .filters = kF64, .grouped = true});
     }},
    {"im2col 3x3 rsc split, grouped",
     [](Draw& d) {
       return make(d,
                   {.algorithm = Algorithm::kIm2col, .order = "rsc.split3.fma", .grouped = true});
     }},
};

#define DRIFTC_WINOGRAD(ALGORITHM)                                                                 \
  {#ALGORITHM " fma", [](Draw& d) { return make(d, {.algorithm = Algorithm::ALGORITHM}); }},       \
      {#ALGORITHM " fma, bias, residual, grouped, nhwc",                                           \
       [](Draw& d) {                                                                               \
         return make(d, {.algorithm = Algorithm::ALGORITHM,                                        \
                         .order = "crs.fma+bias.stored",                                           \
                         .x = kNhwc,                                                               \
                         .y = kNhwc,                                                               \
                         .bias = true,                                                             \
                         .grouped = true,                                                          \
                         .add_relu = true});                                                       \
       }},                                                                                         \
      {#ALGORITHM " muladd, filters in f64",                                                       \
       [](Draw& d) {                                                                               \
         return make(d,                                                                            \
                     {.algorithm = Algorithm::ALGORITHM, .order = "crs.muladd", .filters = kF64}); \
       }},                                                                                         \
      {#ALGORITHM " kahan",                                                                        \
       [](Draw& d) {                                                                               \
         return make(d, {.algorithm = Algorithm::ALGORITHM, .order = "crs.kahan"});                \
       }},                                                                                         \
      {#ALGORITHM " f64, bias",                                                                    \
       [](Draw& d) {                                                                               \
         return make(d, {.algorithm = Algorithm::ALGORITHM,                                        \
                         .order = "crs.f64+bias.stored",                                           \
                         .y = kNhwc,                                                               \
                         .bias = true});                                                           \
       }},                                                                                         \
      {#ALGORITHM " tf32 rna",                                                                     \
       [](Draw& d) {                                                                               \
         return make(d, {.algorithm = Algorithm::ALGORITHM, .in = ir::Precision::kTf32Rna});       \
       }},                                                                                         \
  {                                                                                                \
#ALGORITHM " tf32 trunc", [](Draw& d) {                                                    \
         return make(d, {.algorithm = Algorithm::ALGORITHM, .in = ir::Precision::kTf32Trunc});    \
       }       \
  }

const Family kAll[] = {
    DRIFTC_WINOGRAD(kWinograd2),
    DRIFTC_WINOGRAD(kWinograd4),
    DRIFTC_WINOGRAD(kWinograd2Fused),
    DRIFTC_WINOGRAD(kWinograd4Fused),
    {"im2col 3x3 crs, bias first, residual",
     [](Draw& d) {
       return make(d, {.algorithm = Algorithm::kIm2col,
                       .order = "crs.fma+bias.first",
                       .bias = true,
                       .add_relu = true});
     }},
    {"im2col 5x5 c4rs nhwc",
     [](Draw& d) {
       return make(d, {.algorithm = Algorithm::kIm2col,
                       .order = "c4rs.muladd",
                       .x = kNhwc,
                       .y = kNhwc,
                       .kernel = 5});
     }},
    {"im2col 1x1 rsc atomic",
     [](Draw& d) {
       return make(d, {.algorithm = Algorithm::kIm2col, .order = "rsc.split2a.fma", .kernel = 1});
     }},
    {"im2col 3x3 kahan grouped",
     [](Draw& d) {
       return make(d, {.algorithm = Algorithm::kIm2col, .order = "crs.kahan", .grouped = true});
     }},
    {"im2col 3x3 f64 split in pairs",
     [](Draw& d) {
       return make(d, {.algorithm = Algorithm::kIm2col, .order = "crs.split4p.f64"});
     }},
    {"im2col 3x3 tf32 trunc",
     [](Draw& d) {
       return make(
           d,
           {.algorithm = Algorithm::kIm2col, .order = "rsc.fma", .in = ir::Precision::kTf32Trunc});
     }},
};

}  // namespace

std::span<const Family> algorithm_families() { return kSample; }
std::span<const Family> all_algorithm_families() { return kAll; }

}  // namespace driftc::test
