#include "tests/unit/emit_families.h"

namespace driftc::test {
namespace {

using ir::Algorithm;
using ir::Layout;
using ir::Op;

const ir::Schedule kTile{32, 64, 16, 2, 4, 1}, kVector{32, 32, 16, 4, 2, 4},
    kRow{1, 128, 32, 1, 1, 1}, kPixels{64, 32, 16, 4, 2, 4};

KernelCase matmul(Draw& d, const char* order, const ir::Schedule& schedule, ir::Shape a_lead,
                  ir::Shape b_lead) {
  KernelCase test(Algorithm::kMatmul, order, schedule);
  const std::int64_t m = schedule.block_m == 1 ? d(1, 3) : d(1, 70), k = d(1, 70), n = d(1, 140);
  auto with = [](const ir::Shape& lead, std::int64_t rows, std::int64_t columns) {
    std::vector<std::int64_t> dims = lead.dims();
    dims.push_back(rows);
    dims.push_back(columns);
    return ir::Shape(std::move(dims));
  };
  const ir::ValueId a = test.input(with(a_lead, m, k)), b = test.input(with(b_lead, k, n));
  test.add(Op::kMatmul, {a, b});
  return test;
}

struct GemmSpec {
  const char* order = "k.fma";
  bool ta = false, tb = false, c = false;
  double alpha = 1, beta = 1;
  int c_rank = 1;
};
KernelCase gemm(Draw& d, const GemmSpec& s) {
  KernelCase test(Algorithm::kMatmul, s.order, kVector);
  const std::int64_t m = d(1, 50), k = d(1, 60), n = d(1, 50);
  std::vector<ir::ValueId> operands{test.input(s.ta ? ir::Shape{k, m} : ir::Shape{m, k}),
                                    test.input(s.tb ? ir::Shape{n, k} : ir::Shape{k, n})};
  if (s.c) operands.push_back(test.input(s.c_rank == 1 ? ir::Shape{n} : ir::Shape{m, n}));
  test.add(Op::kGemm, operands,
           {{"alpha", s.alpha},
            {"beta", s.beta},
            {"trans_a", std::int64_t{s.ta}},
            {"trans_b", std::int64_t{s.tb}}});
  test.finish();
  return test;
}

KernelCase conv1x1(Draw& d, const char* order, Layout in, Layout out, bool residual) {
  KernelCase test(Algorithm::kMatmul, order, kPixels);
  const std::int64_t n = d(1, 3), c = d(1, 60), k = d(2, 60), h = d(2, 9), w = d(1, 9);
  ir::ValueId y = test.add(Op::kConv1x1Matmul, {test.input({n, c, h, w}, in),
                                                test.input({k, c, 1, 1}), test.input({k})});
  if (residual) y = test.add(Op::kRelu, {test.add(Op::kAdd, {test.input({n, k, h, w}, out), y})});
  test.finish(out);
  return test;
}

KernelCase finished(KernelCase test) {
  test.finish();
  return test;
}

const Family kFamilies[] = {
    {"matmul", [](Draw& d) { return finished(matmul(d, "k.fma", kTile, {}, {})); }},
    {"matmul muladd, one b",
     [](Draw& d) {
       return finished(matmul(d, "k.muladd", kTile, {d(2, 3), d(2, 3)}, {}));
     }},
    {"matmul batched",
     [](Draw& d) {
       return finished(matmul(d, "k.fma", kTile, {2, d(2, 3)}, {2, 1}));
     }},
    {"matmul, few rows, relu",
     [](Draw& d) {
       KernelCase test = matmul(d, "k.fma", kRow, {}, {});
       test.add(Op::kRelu, {test.kernel.body.nodes().back().result});
       return finished(std::move(test));
     }},
    {"matmul split", [](Draw& d) { return finished(matmul(d, "k.split4.fma", kTile, {}, {})); }},
    {"matmul split pairwise f64",
     [](Draw& d) { return finished(matmul(d, "k.split2p.f64", kTile, {}, {})); }},
    {"matmul split atomic",
     [](Draw& d) { return finished(matmul(d, "k.split3a.fma", kTile, {}, {})); }},
    {"gemm", [](Draw& d) { return gemm(d, {.c = true}); }},
    {"gemm b transposed, bias first",
     [](Draw& d) { return gemm(d, {.order = "k.fma+bias.first", .tb = true, .c = true}); }},
    {"gemm a transposed, alpha, beta",
     [](Draw& d) {
       return gemm(d, {.order = "k.kahan+bias.stored",
                       .ta = true,
                       .c = true,
                       .alpha = 0.3,
                       .beta = -1.7,
                       .c_rank = 2});
     }},
    {"gemm both transposed, bias last, beta",
     [](Draw& d) {
       return gemm(d, {.order = "k.fma+bias.last",
                       .ta = true,
                       .tb = true,
                       .c = true,
                       .beta = 0.3,
                       .c_rank = 2});
     }},
    {"conv1x1 nchw",
     [](Draw& d) { return conv1x1(d, "k.fma+bias.stored", Layout::kNchw, Layout::kNchw, true); }},
    {"conv1x1 nhwc",
     [](Draw& d) { return conv1x1(d, "k.fma+bias.first", Layout::kNhwc, Layout::kNhwc, true); }},
    {"conv1x1 nchw to nhwc",
     [](Draw& d) { return conv1x1(d, "k.fma+bias.last", Layout::kNchw, Layout::kNhwc, false); }},
    {"conv1x1 nhwc to nchw, split",
     [](Draw& d) {
       return conv1x1(d, "k.split2.fma+bias.stored", Layout::kNhwc, Layout::kNchw, true);
     }},
};

}  // namespace

std::span<const Family> matmul_families() { return kFamilies; }

}  // namespace driftc::test
