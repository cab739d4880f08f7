// What code generation decides, without a compiler: arguments, grids, names, widths, refusals,
// preparations.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "codegen/index_space.h"
#include "codegen/ptx_facts.h"
#include "ir/schedule.h"
#include "tests/unit/emit_families.h"

using namespace driftc;
using namespace driftc::test;
using codegen::Argument;
using Ints = std::vector<std::int64_t>;

namespace {

const ir::Schedule kTile{64, 64, 36, 4, 4, 1};

KernelCase conv(ir::Shape x, ir::Shape w, const char* order = "crs.fma", std::int64_t pad = 1,
                std::int64_t groups = 1) {
  KernelCase test(ir::Algorithm::kImplicitGemm, order, kTile);
  test.add(ir::Op::kConv2d, {test.input(std::move(x)), test.input(std::move(w))},
           {{"pad", Ints{pad, pad, pad, pad}}, {"groups", groups}});
  test.finish();
  return test;
}
std::int64_t argument(const codegen::Launch& launch, const std::string& name) {
  for (const Argument& a : launch.arguments)
    if (a.name == name) return a.integer;
  return -1;
}
bool wide(const codegen::Launch& launch) {
  return std::any_of(launch.arguments.begin(), launch.arguments.end(),
                     [](const Argument& a) { return a.kind == Argument::Kind::kInt64; });
}

}  // namespace

TEST_CASE("lower: one source serves every shape; grid and arguments carry it") {
  const auto a = conv({1, 64, 56, 56}, {64, 64, 3, 3}).lower().value();
  const auto b = conv({8, 17, 9, 31}, {70, 17, 3, 3}).lower().value();
  REQUIRE(a.launches.size() == 1);
  CHECK(a.launches[0].entry == "conv_implicit_gemm_3x3_crs_64x64");
  const bool same_source = a.launches[0].source == b.launches[0].source;  // kept out of the message
  CHECK(same_source);
  CHECK(a.launches[0].grid == std::array<std::uint32_t, 3>{49, 1, 1});
  CHECK(b.launches[0].grid == std::array<std::uint32_t, 3>{35, 2, 1});
  CHECK(a.launches[0].block == std::array<std::uint32_t, 3>{16, 16, 1});
  CHECK(argument(b.launches[0], "positions") == 17 * 9);
  CHECK(argument(b.launches[0], "matrix_row") == 72);
  CHECK(codegen::to_string(b.preparations[0]) == "walk_major(operand=1, walk=crs)");
}

TEST_CASE("lower: a source names exactly its parameters") {
  for (auto families : {conv_families(), algorithm_families(), all_algorithm_families(),
                        matmul_families(), other_families()})
    for (const Family& family : families) {
      Draw draw(1);
      const auto lowered = family.make(draw).lower();
      REQUIRE_MESSAGE(lowered.ok(), family.name);
      for (const codegen::Launch& launch : lowered->launches) {
        CHECK(launch.source.find(" " + launch.entry + "(") != std::string::npos);
        const std::size_t body = launch.source.find(launch.entry + "(");
        std::set<std::string> names;
        for (const Argument& a : launch.arguments) {
          CHECK(names.insert(a.name).second);
          CHECK(launch.source.find(" " + a.name, body) != std::string::npos);
        }
        const std::uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
        CHECK(threads >= 32);
        CHECK(threads <= 1024);
      }
    }
}

TEST_CASE("lower: nothing is declared that is not used, the column of a single channel's bias") {
  // NVRTC warns of unused variables, and a warning fails every kernel test.
  KernelCase test(ir::Algorithm::kImplicitGemm, "rsc.fma+bias.first", {32, 16, 16, 4, 2, 1});
  for (const std::int64_t columns : {1, 7}) {
    KernelCase one = test;
    one.add(ir::Op::kConv2d, {one.input({1, 4, 6, 6}, ir::Layout::kNhwc),
                              one.input({columns, 4, 3, 3}), one.input({columns})});
    one.finish(ir::Layout::kNhwc);
    const auto lowered = one.lower();
    REQUIRE(lowered.ok());
    const std::string& source = lowered->launches[0].source;
    const std::size_t begin = source.find("Sums start with the bias"),
                      end = source.find("#pragma unroll 1", begin);
    REQUIRE(begin != std::string::npos);
    REQUIRE(end != std::string::npos);
    const bool declared =
        source.substr(begin, end - begin).find("index_t column") != std::string::npos;
    CHECK(declared == (columns > 1));
  }
}

TEST_CASE("lower: offsets are 64 bits wide where an element lies beyond 2^31") {
  CHECK(!wide(conv({1, 64, 56, 56}, {64, 64, 3, 3}).lower()->launches[0]));
  CHECK(wide(conv({40, 64, 1000, 1000}, {8, 64, 3, 3}).lower()->launches[0]));  // input
  CHECK(wide(conv({3, 1, 5000, 5000}, {64, 1, 3, 3}).lower()->launches[0]));    // result
  CHECK(
      wide(conv({1, 1, 4, 4}, {2, 1, 3, 3}, "crs.fma", 1 << 15).lower()->launches[0]));  // padding
  // The result fits, the partial sums do not.
  const auto split = conv({40, 9, 1000, 1000}, {16, 9, 3, 3}, "crs.split4.fma").lower();
  CHECK(wide(split->launches[0]));
  CHECK(wide(split->launches[1]));
  CHECK(split->workspaces[0].bytes == std::int64_t{4} * 4 * 40 * 16 * 1000 * 1000);
  KernelCase relu(ir::Algorithm::kElementwise, "");
  relu.add(ir::Op::kRelu, {relu.input({3, 1 << 30})});
  relu.finish();
  CHECK(wide(relu.lower()->launches[0]));
}

TEST_CASE("lower: split sums get a workspace and a combine kernel, empty slices vanish") {
  const auto four = conv({1, 4, 5, 5}, {3, 4, 3, 3}, "crs.split4.fma").lower().value();
  REQUIRE(four.launches.size() == 2);
  CHECK(four.launches[0].grid[2] == 4);
  CHECK(four.launches[1].entry == "combine_serial");
  CHECK(four.workspaces[0].bytes == 4 * 4 * 3 * 5 * 5);
  CHECK(!four.workspaces[0].zeroed);
  // 9 positions in 5 slices of 2: the fifth is shorter; in 8 slices of 2: three are empty.
  CHECK(conv({1, 1, 5, 5}, {3, 1, 3, 3}, "crs.split8.fma").lower()->launches[0].grid[2] == 5);
  const auto atomic = conv({1, 4, 5, 5}, {3, 4, 3, 3}, "crs.split4a.f64").lower().value();
  CHECK(atomic.workspaces[0].bytes == 8 * 3 * 5 * 5);
  CHECK(atomic.workspaces[0].zeroed);
  CHECK(atomic.launches[1].entry == "combine_atomic_f64");
}

TEST_CASE("lower: what no emitter has is refused by name, as driftc's own fault") {
  auto message = [](const KernelCase& test) {
    const auto lowered = test.lower();
    REQUIRE(!lowered.ok());
    CHECK(lowered.error().kind == ErrorKind::kInternal);
    return lowered.error().message;
  };
  CHECK(message(conv({1, 4, 5, 5}, {3, 4, 3, 3}, "crs.lanes2.fma")) ==
        "kernel 'v' (implicit_gemm): no kernel has order crs.lanes2.fma");
  CHECK(message(conv({1, 4, 5, 5}, {3, 4, 3, 3}, "crs.skip.fma")) ==
        "kernel 'v' (implicit_gemm): no kernel has order crs.skip.fma");
  KernelCase wide = conv({1, 4, 5, 5}, {3, 4, 3, 3});
  wide.kernel.contract.in = ir::Precision::kF64;
  CHECK(message(wide) ==
        "kernel 'v' (implicit_gemm): operands are f32; f64 is the arithmetic of a sum");
  CHECK(message(conv({1, 4, 5, 5}, {3, 4, 3, 3}, "crs.mma(sm_70,f16,m8n8k4)")) ==
        "kernel 'v' (implicit_gemm): no kernel has order crs.mma(sm_70,f16,m8n8k4)");
  KernelCase tile = conv({1, 4, 5, 5}, {3, 4, 3, 3});
  tile.kernel.schedule.thread_m = 3;
  CHECK(message(tile).find("block extents are multiples of the thread's") != std::string::npos);
  KernelCase wrong = conv({1, 4, 5, 5}, {3, 4, 3, 3});
  wrong.kernel.algorithm = ir::Algorithm::kElementwise;
  CHECK(message(wrong) == "kernel 'v' (elementwise): no kernel has order crs.fma");
}

TEST_CASE("collapse: axes merge exactly where every view walks them as one") {
  using codegen::Axis;
  using codegen::UnitAxes;
  const std::vector<Axis> axes{{2, {60, 60}}, {3, {20, 0}}, {4, {5, 5}}, {5, {1, 1}}};
  const auto merged = codegen::collapse(axes, UnitAxes::kKeep, 2);
  REQUIRE(merged.size() == 3);
  CHECK(merged[2].extent == 20);
  CHECK(merged[2].strides == Ints{1, 1});
  const std::vector<Axis> ones{{1, {7}}, {1, {7}}};
  CHECK(codegen::collapse(ones, UnitAxes::kDrop, 1).size() == 1);
  CHECK(codegen::collapse(ones, UnitAxes::kDrop, 1)[0].extent == 1);
}

TEST_CASE("preparation: weights by walk position, rows padded to 16 bytes") {
  ir::Tensor w(ir::DType::kF32, {3, 2, 2, 1});
  for (std::size_t i = 0; i < 12; ++i) w.data_mut<float>()[i] = static_cast<float>(i);
  const auto rsc =
      codegen::prepare(codegen::walk_major(1, w.shape(), ir::parse_order("rsc.fma").value()), w);
  CHECK(rsc.shape() == ir::Shape{4, 4});
  // Positions in order: (r0, c0), (r0, c1), (r1, c0), (r1, c1).
  const float expected[] = {0, 4, 8, 0, 2, 6, 10, 0, 1, 5, 9, 0, 3, 7, 11, 0};
  CHECK(std::equal(std::begin(expected), std::end(expected), rsc.data<float>().begin()));
  ir::Tensor m(ir::DType::kF32, {2, 3});
  for (std::size_t i = 0; i < 6; ++i) m.data_mut<float>()[i] = static_cast<float>(i);
  const auto t = codegen::prepare(codegen::transposed(1, m.shape()), m);
  const float transposed[] = {0, 3, 0, 0, 1, 4, 0, 0, 2, 5, 0, 0};
  CHECK(std::equal(std::begin(transposed), std::end(transposed), t.data<float>().begin()));
}

TEST_CASE("ptx_facts: counts arithmetic and finds what leaves a rounding open") {
  const auto facts = codegen::ptx_facts(
      "\tfma.rn.f32 %f1, %f2, %f3, %f4;\n"
      "\t@%p1 mul.f32 \t%f1, %f2, %f3;\n"
      "\tadd.rn.f32 %f1, %f1, %f1; // mul.f32\n"
      "\tadd.f64 %fd1, %fd1, %fd1;\n"
      "\tsub.rn.f32 %f1, %f1, %f1;\n"
      "\tmul.lo.s32 %r1, %r2, %r3;\n"
      "\tatom.global.add.f32 %f1, [%rd1], %f2;\n"
      "\tex2.approx.ftz.f32 %f1, %f2;\n"
      "\tdiv.full.f32 %f1, %f2, %f2;\n");
  CHECK(facts.fma_rn == 1);
  CHECK(facts.mul_rn == 0);
  CHECK(facts.mul_unsuffixed == 1);
  CHECK(facts.add_rn == 2);
  CHECK(facts.add_unsuffixed == 1);
  CHECK(facts.approx == 2);
  CHECK(facts.ftz == 1);
  CHECK(facts.offences ==
        std::vector<std::string>{"mul.f32", "add.f64", "ex2.approx.ftz.f32", "div.full.f32"});
  CHECK(!codegen::check_ptx("mul.f32 %f1, %f2, %f3;", "k").ok());
  CHECK(codegen::check_ptx("mul.rn.f32 %f1, %f2, %f3;", "k").ok());
}

TEST_CASE("schedule: the defaults are legal for every shape, walk and layout") {
  Draw draw(5);
  for (int i = 0; i < 400; ++i) {
    const std::int64_t c = draw(1, 300), k = draw(1, 300), kernel = draw(1, 7);
    const char* order = i % 3 == 0 ? "crs.fma" : i % 3 == 1 ? "rsc.fma" : "c16rs.fma";
    KernelCase test(ir::Algorithm::kImplicitGemm, order);
    test.add(ir::Op::kConv2d, {test.input({draw(1, 4), c, draw(7, 60), draw(7, 60)}),
                               test.input({k, c, kernel, kernel})});
    const ir::Layout layout = draw(0, 1) == 0 ? ir::Layout::kNchw : ir::Layout::kNhwc;
    test.finish(layout);
    const ir::Schedule s = ir::default_schedule(test.kernel.algorithm, test.kernel.body,
                                                *test.kernel.contract.order, layout, 132);
    const auto legal = ir::check_schedule(test.kernel.algorithm, s);
    CHECK_MESSAGE(legal.ok(), ir::to_string(s));
    KernelCase product(ir::Algorithm::kMatmul, "k.fma");
    product.add(ir::Op::kMatmul, {product.input({draw(1, 200), c}), product.input({c, k})});
    product.finish();
    const ir::Schedule p =
        ir::default_schedule(product.kernel.algorithm, product.kernel.body,
                             *product.kernel.contract.order, ir::Layout::kNchw, 132);
    CHECK_MESSAGE(ir::check_schedule(product.kernel.algorithm, p).ok(), ir::to_string(p));
  }
}

TEST_CASE("schedule: each rule has its message") {
  auto why = [](ir::Schedule s) {
    const auto r = ir::check_schedule(ir::Algorithm::kMatmul, s);
    return r.ok() ? std::string() : r.error().message;
  };
  CHECK(why({64, 64, 16, 4, 4, 1}).empty());
  CHECK(why({64, 64, 16, 3, 4, 1}).ends_with("block extents are multiples of the thread's"));
  CHECK(why({16, 16, 16, 4, 4, 1}).ends_with("16 threads; 32 to 1024 in steps of 32 are possible"));
  CHECK(why({64, 8, 16, 4, 4, 1}).ends_with("32 threads are no multiple of block_m"));
  CHECK(why({64, 64, 128, 4, 4, 1}).ends_with("the tiles need more than 48 KiB of shared memory"));
  CHECK(why({64, 64, 16, 4, 4, 2}).ends_with("vector is 1 or 4"));
  CHECK(why({0, 64, 16, 4, 4, 1}).ends_with("every extent of a tiled kernel is at least 1"));
}
