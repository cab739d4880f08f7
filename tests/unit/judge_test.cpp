// `judge`: results of other systems. Healthy results in every precision and several orders are
// accepted with the true precision named; wrong ones are not.
#include "runtime/study/judge.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "frontend/npy/npy.h"
#include "frontend/onnx/onnx.h"
#include "frontend/report/judge_report.h"
#include "ir/support/rng.h"
#include "tests/support/services.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
using runtime::Hypothesis;
using runtime::compare::Evidence;
using runtime::compare::Verdict;
namespace study = runtime::study;
namespace fs = std::filesystem;

namespace {

const std::string kShared = DRIFTC_SOURCE_DIR "/../shared/models/";

std::vector<ir::ReductionOrder> orders(const std::string& list) {
  if (list.empty()) return {};
  auto parsed = ir::parse_order_list(list);
  REQUIRE(parsed.ok());
  return *parsed;
}

study::GivenValues given_of(const ir::Graph& graph, const std::vector<study::NamedTensor>& inputs) {
  study::GivenValues given(graph.value_count());
  for (const auto& input : inputs) given[graph.find(input.name)->index] = input.tensor;
  return given;
}

// What a correct system makes of the graph.
std::vector<study::NamedTensor> made(const ir::Graph& graph,
                                     const std::vector<study::NamedTensor>& inputs,
                                     const study::PrecisionHypothesis& h,
                                     const std::string& order) {
  const auto outputs = study::healthy_twin(graph, given_of(graph, inputs), graph.outputs(), h,
                                           orders(order), tests::thread_pool());
  std::vector<study::NamedTensor> named;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    named.push_back({graph.value(graph.outputs()[i]).name, outputs[i]});
  return named;
}

study::JudgeReport judged(const ir::Graph& graph, const std::vector<study::NamedTensor>& inputs,
                          const std::vector<study::NamedTensor>& a,
                          const std::vector<study::NamedTensor>& b = {},
                          const std::string& node = "") {
  auto report = study::judge(graph, inputs, a, b, {node}, tests::services());
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
  return std::move(*report);
}

std::string text_of(const study::JudgeReport& report) {
  return frontend::judge_text(report, {"m", "a", "b", {}, 0}, {});
}

struct Model {
  ir::Graph graph;
  std::vector<study::NamedTensor> inputs;
};
// The first `batch` samples of the model's input file, from sample `from` on.
std::optional<Model> load(const std::string& path, const std::string& input_path, std::int64_t from,
                          std::int64_t batch) {
  if (!fs::exists(path)) return std::nullopt;
  auto all = frontend::npy::read_npy(input_path);
  REQUIRE(all.ok());
  auto info = frontend::onnx::inspect_onnx(path);
  REQUIRE(info.ok());
  std::vector<std::int64_t> shape = all->shape().dims();
  const std::int64_t size = all->elements() / shape[0];
  batch = std::min(batch, shape[0]);
  shape[0] = batch;
  const auto data = all->data<float>().subspan(static_cast<std::size_t>(from * size),
                                               static_cast<std::size_t>(batch * size));
  Model model;
  model.inputs.push_back({info->inputs[0].name, ir::Tensor::of<float>(ir::Shape(shape), data)});
  frontend::onnx::ImportOptions options;
  options.input_shapes[info->inputs[0].name] = ir::Shape(shape);
  auto graph = frontend::onnx::import_onnx(path, options);
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().render()));
  model.graph = std::move(*graph);
  return model;
}
std::optional<Model> digits(std::int64_t from = 0) {
  return load(DRIFTC_SOURCE_DIR "/tests/models/digits-resnet.onnx",
              DRIFTC_SOURCE_DIR "/tests/models/digits.images.npy", from, 8);
}
std::optional<Model> resnet20() {
  return load(kShared + "resnet20-cifar10.onnx", kShared + "resnet20-cifar10.input.npy", 0, 1);
}

ir::Tensor edited(const ir::Tensor& tensor, const std::function<void(std::span<float>)>& edit) {
  ir::Tensor copy = ir::Tensor::of<float>(tensor.shape(), tensor.data<float>());
  edit(copy.data_mut<float>());
  return copy;
}

double rms_of(const ir::Tensor& tensor) {
  double sum = 0;
  for (float v : tensor.data<float>()) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(tensor.elements()));
}

Model conv_model(int channels, Distribution data, std::uint64_t seed, float scale = 1) {
  Model m{tests::parse(fmt::format(R"(gir 1
graph @g(%x: f32[2,{0},11,13]) {{
  %w = constant f32[20,{0},3,3] random(seed={1}, he)
  %b = constant f32[20] splat({2})
  %y = conv2d %x, %w, %b {{pad=[1,1,1,1]}}
  return %y
}})",
                                   channels, seed, 0.375f * scale)),
          {}};
  ir::Tensor x(ir::DType::kF32, {2, channels, 11, 13});
  fill(data, seed, "x", x.data_mut<float>());
  for (float& v : x.data_mut<float>()) v *= scale;
  m.inputs.push_back({"x", x});
  return m;
}

// Hypotheses of sums in f32 (tensor cores, Winograd and autocast: judge_variants_test.cpp).
std::vector<study::PrecisionHypothesis> chains(const ir::Graph& graph) {
  auto list = study::graph_hypotheses(graph);
  std::erase_if(list, [](const study::PrecisionHypothesis& h) {
    return !h.arch.empty() || h.winograd != 0 || h.autocast;
  });
  return list;
}

const char* const kOrders[] = {"", "rsc.fma,k.split4p.fma,hw.acc4.add",
                               "crs.lanes8.muladd,k.acc4.fma,hw.lanes16.add",
                               "c16rs.tile8.fma,k.tile16.muladd", "crs.f64,k.f64"};

}  // namespace

TEST_CASE("slow: judge: outputs of whole models are accepted with their precision named") {
  for (int which = 0; which < 2; ++which) {
    const auto model = which == 0 ? digits() : resnet20();
    if (!model) {
      std::printf("[skip] judge: ../shared/models is missing\n");
      continue;
    }
    for (const auto& h : chains(model->graph))
      for (const char* order : kOrders) {
        const auto report =
            judged(model->graph, model->inputs, made(model->graph, model->inputs, h, order));
        const std::string what =
            fmt::format("model {} {} {}\n{}", which, name_of(h), order, text_of(report));
        CHECK_MESSAGE(report.files[0].values[0].accepted, what);
        CHECK_MESSAGE(report.files[0].precision == name_of(h), what);
        const bool f32 = h.operands == Hypothesis::kF32;
        CHECK_MESSAGE(report.verdict == (!f32          ? Verdict::kPrecision
                                         : *order == 0 ? Verdict::kIdentical
                                                       : Verdict::kOrder),
                      what);
      }
  }
}

TEST_CASE("judge: other images, other models, swapped classes and small errors are rejected") {
  const auto model = digits(), other = digits(8);
  const auto right = made(model->graph, model->inputs, {}, kOrders[1]);
  auto rejected = [&](const std::vector<study::NamedTensor>& a, const std::string& what) {
    const auto report = judged(model->graph, model->inputs, a);
    CHECK_MESSAGE(report.verdict == Verdict::kUnexplained, what << "\n" << text_of(report));
    CHECK(report.files[0].evidence == Evidence::kNone);
  };
  rejected(made(other->graph, other->inputs, {}, ""), "another image");
  const std::string name = right[0].name;
  rejected({{name, edited(right[0].tensor, [](std::span<float> y) { std::swap(y[3], y[7]); })}},
           "classes swapped");
  rejected({{name, edited(right[0].tensor,
                          [](std::span<float> y) { std::reverse(y.begin(), y.end()); })}},
           "reversed");
  rejected({{name, edited(right[0].tensor,
                          [&](std::span<float> y) {
                            y[23] += static_cast<float>(0.01 * rms_of(right[0].tensor));
                          })}},
           "one element off by 1 % of the RMS");
  rejected(
      {{name, edited(right[0].tensor,
                     [](std::span<float> y) { y[0] = std::numeric_limits<float>::quiet_NaN(); })}},
      "NaN");
  // Another model: one weight differs by 2 %.
  const auto first = judged(model->graph, model->inputs, right);
  CHECK(first.verdict == Verdict::kOrder);
  // The error that the report promises to see is seen.
  const double seen = first.files[0].values[0].visible.largest;
  CHECK(seen < 0.01 * rms_of(right[0].tensor));
  rejected({{name, edited(right[0].tensor,
                          [&](std::span<float> y) { y[5] += static_cast<float>(1.01 * seen); })}},
           "the visible error");
}

TEST_CASE("slow: judge: one node names the precision of its operands in every order") {
  for (const auto& m :
       {conv_model(64, Distribution::kRandom, 1), conv_model(64, Distribution::kRelu, 2),
        conv_model(40, Distribution::kUniform, 3), conv_model(3, Distribution::kRandom, 4),
        conv_model(16, Distribution::kRandom, 5, 0x1p40f),
        conv_model(16, Distribution::kRandom, 6, 0x1p-40f)})
    for (const auto& h : study::node_hypotheses()) {
      if (h.operands == Hypothesis::kFtz)
        continue;  // these data have no subnormals: the same as f32
      if (h.operands == Hypothesis::kF16 && std::fabs(m.inputs[0].tensor.data<float>()[0]) > 1e6)
        continue;
      if (h.operands == Hypothesis::kF16 && std::fabs(m.inputs[0].tensor.data<float>()[0]) < 1e-6)
        continue;
      for (const char* order : kOrders) {
        const auto a = made(m.graph, m.inputs, h, order);
        const auto report = judged(m.graph, m.inputs, a, {}, "y");
        const std::string what = fmt::format("{} {}\n{}", name_of(h), order, text_of(report));
        CHECK_MESSAGE(report.verdict != Verdict::kUnexplained, what);
        CHECK_MESSAGE(report.files[0].precision == name_of(h), what);
        // One element off by 1 % of the RMS is found, in any precision.
        const auto wrong = edited(a[0].tensor, [&](std::span<float> y) {
          y[777] += static_cast<float>(0.01 * rms_of(a[0].tensor));
        });
        CHECK_MESSAGE(
            judged(m.graph, m.inputs, {{"y", wrong}}, {}, "y").verdict == Verdict::kUnexplained,
            what);
      }
    }
}

TEST_CASE("judge: TF32 inside the worst-case f32 bound is still named TF32 (PT-156301)") {
  const auto m = conv_model(512, Distribution::kRandom, 9);
  const auto report = judged(m.graph, m.inputs,
                             made(m.graph, m.inputs, {Hypothesis::kTf32Rna}, "rsc.fma"), {}, "y");
  const auto& fits = report.files[0].values[0].fits;
  CHECK(fits[0].name == "f32");
  CHECK(fits[0].bound_used < 1);  // any order of f32 operations could be that far off
  CHECK(!fits[0].accepted);
  CHECK_MESSAGE(report.verdict == Verdict::kPrecision, text_of(report));
  CHECK(report.files[0].precision == "tf32:rna");
}

TEST_CASE("judge: small wrongs that hide inside loose bounds show as structure") {
  const auto m = conv_model(64, Distribution::kRandom, 11);
  for (const Hypothesis h : {Hypothesis::kF32, Hypothesis::kTf32Rna, Hypothesis::kTf32Trunc}) {
    const auto a = made(m.graph, m.inputs, {h}, "rsc.split4.fma")[0].tensor;
    auto words = [&](const std::function<void(std::span<float>)>& edit) {
      const auto report = judged(m.graph, m.inputs, {{"y", edited(a, edit)}}, {}, "y");
      CHECK(report.verdict == Verdict::kUnexplained);
      std::string out;
      for (const auto& s : report.files[0].values[0].structure) out += s.words + "\n";
      return out;
    };
    // Half a standard deviation of rounding on one channel: no element is beyond any limit.
    const auto sigma = [&](std::size_t i) {
      study::Expectation e = study::expect(m.graph, given_of(m.graph, m.inputs), m.graph.outputs(),
                                           {h}, tests::thread_pool())[0];
      return std::sqrt(e.variance.data<double>()[i]);
    }(0);
    const std::string channel = words([&](std::span<float> y) {
      for (std::size_t i = 0; i < y.size(); ++i)
        if (i / 143 % 20 == 3) y[i] += static_cast<float>(sigma);
    });
    CHECK_MESSAGE(channel.find("channel 3") != std::string::npos, channel);
    // A bias doubled on one channel.
    words([&](std::span<float> y) {
      for (std::size_t i = 0; i < y.size(); ++i)
        if (i / 143 % 20 == 3) y[i] += 2e-3f;
    });
    words([&](std::span<float> y) { y[100] += 5e-4f; });
    words([&](std::span<float> y) {
      for (std::size_t i = y.size() / 2; i < y.size(); ++i) y[i] *= 1 + 0x1p-16f;
    });
  }
}

TEST_CASE("judge: two files, each explained, and their difference") {
  const auto m = conv_model(64, Distribution::kRandom, 21);
  const auto f32 = made(m.graph, m.inputs, {}, "rsc.fma"),
             tf32 = made(m.graph, m.inputs, {Hypothesis::kTf32Rna}, "");
  const auto other = made(m.graph, m.inputs, {}, "crs.split2.fma");
  auto report = judged(m.graph, m.inputs, f32, tf32, "y");
  CHECK(report.verdict == Verdict::kPrecision);
  CHECK(report.pair->words == "A is a f32 result, B a tf32:rna result");
  report = judged(m.graph, m.inputs, f32, other, "y");
  CHECK(report.verdict == Verdict::kOrder);
  report = judged(m.graph, m.inputs, f32, f32, "y");
  CHECK(report.verdict == Verdict::kIdentical);
  CHECK(report.evidence == Evidence::kBits);
  const auto wrong = edited(f32[0].tensor, [](std::span<float> y) { y[4] += 0.01f; });
  report = judged(m.graph, m.inputs, f32, {{"y", wrong}}, "y");
  CHECK(report.verdict == Verdict::kUnexplained);
  CHECK(report.pair->words.find("B is no correct result") == 0);
}

TEST_CASE("judge: specials must match and are explained") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,4,6,6]) {
  %w = constant f32[4,4,1,1] random(seed=3, he)
  %c = conv2d %x, %w
  %y = relu %c
  return %y
})");
  auto inputs = tests::random_inputs(graph, 3);
  inputs[0].tensor = edited(
      inputs[0].tensor, [](std::span<float> x) { x[7] = std::numeric_limits<float>::quiet_NaN(); });
  const auto right = made(graph, inputs, {}, "rsc.fma");
  CHECK(judged(graph, inputs, right).verdict == Verdict::kIdentical);  // K = 4: one order
  const auto swallowed = edited(right[0].tensor, [](std::span<float> y) {
    for (float& v : y) v = std::isnan(v) ? 0 : v;
  });
  const auto report = judged(graph, inputs, {{"y", swallowed}});
  CHECK(report.verdict == Verdict::kUnexplained);
  REQUIRE(report.causes.size() == 1);
  CHECK(report.causes[0].kind == runtime::compare::CauseKind::kSpecials);
  CHECK(report.causes[0].detail ==
        "4 NaN became 0: a relu or a maximum that swallows NaN (x > 0 ? x : 0)");
}

TEST_CASE("judge: flushed subnormals are named") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,6,6]) {
  %w = constant f32[4,8,3,3] random(seed=3, he)
  %y = conv2d %x, %w
  return %y
})");
  auto inputs = tests::random_inputs(graph, 3);
  inputs[0].tensor = edited(inputs[0].tensor, [](std::span<float> x) {
    for (float& v : x) v *= 0x1p-122f;
  });
  const auto kept = judged(graph, inputs, made(graph, inputs, {}, "rsc.fma"), {}, "y");
  CHECK_MESSAGE(kept.verdict <= Verdict::kOrder, text_of(kept));
  const auto flushed =
      judged(graph, inputs, made(graph, inputs, {Hypothesis::kFtz}, "rsc.fma"), {}, "y");
  CHECK_MESSAGE(flushed.verdict == Verdict::kPrecision, text_of(flushed));
  CHECK(flushed.files[0].precision == "ftz");
  REQUIRE(!flushed.causes.empty());
  CHECK(flushed.causes[0].kind == runtime::compare::CauseKind::kFlushToZero);
}

TEST_CASE("judge: wrong usage is one clear message") {
  const auto m = conv_model(4, Distribution::kRandom, 31);
  auto error = [&](const std::vector<study::NamedTensor>& inputs,
                   const std::vector<study::NamedTensor>& a, const std::string& node) {
    auto report = study::judge(m.graph, inputs, a, {}, {node}, tests::services());
    REQUIRE(!report.ok());
    CHECK(report.error().kind == ErrorKind::kInput);
    return report.error().message;
  };
  const auto right = made(m.graph, m.inputs, {}, "");
  CHECK(error({}, right, "") == "input 'x' is not given");
  CHECK(error(m.inputs, right, "z") == "the model has no node 'z'");
  CHECK(error(m.inputs, right, "w") == "'w' is no result of a node: there is nothing to judge");
  CHECK(error(m.inputs, {{"y", m.inputs[0].tensor}}, "").find("has shape") != std::string::npos);
  CHECK(error(m.inputs, {{"q", right[0].tensor}}, "") == "no result for 'y' is given");
}

TEST_CASE("judge: the JSON fits its schema") {
  std::ifstream file(DRIFTC_SOURCE_DIR "/docs/schema/judge-1.json");
  REQUIRE(file.good());
  const auto schema = frontend::Json::parse(file);
  const auto m = conv_model(8, Distribution::kRandom, 41);
  const auto a = made(m.graph, m.inputs, {}, "rsc.fma");
  const auto wrong = edited(a[0].tensor, [](std::span<float> y) { y[4] += 0.01f; });
  for (const auto& report :
       {judged(m.graph, m.inputs, a), judged(m.graph, m.inputs, a, {{"y", wrong}}, "y")})
    CHECK(tests::schema_faults(
              schema, frontend::judge_json(report, {"m", "a.npy", "b.npy", {"order"}, 0})) == "");
}

TEST_CASE("judge: functions, reductions, resizing and transposed convolutions carry their spread") {
  const char* const kConv = R"(gir 1
graph @g(%x: f32[2,6,9,8]) {
  %w = constant f32[8,6,3,3] random(seed=3, he)
  %c = conv2d %x, %w {pad=[1,1,1,1]}
)";
  for (const char* rest :
       {"%s = sigmoid %c\n %y = mul %s, %c",
        "%y = tanh %c",
        "%y = gelu %c",
        "%y = erf %c",
        "%e = exp %c\n %one = constant f32[1] splat(1)\n %p = add %e, %one\n %y = log %p",
        "%a = abs %c\n %y = sqrt %a",
        "%y = hard_swish %c",
        "%y = hard_sigmoid %c",
        "%y = elu %c",
        "%y = leaky_relu %c",
        "%n = neg %c\n %y = max %c, %n",
        "%n = neg %c\n %y = min %c, %n",
        "%y = softplus %c",
        "%p = constant f32[1] splat(2)\n %y = pow %c, %p",
        "%y = reduce_mean %c {axes=[2,3]}",
        "%y = reduce_sum %c {axes=[1]}",
        "%y = reduce_max %c {axes=[2]}",
        "%y = reduce_min %c {axes=[2]}",
        "%y = resize %c {mode=linear, sizes=[15,20], scale_h=0x1.aaaaaap0, scale_w=0x1.4p1}",
        "%v = constant f32[8,4,3,3] random(seed=5, he)\n %y = conv_transpose %c, %v {stride=[2,2]}",
        "%y = cast %c {to=f16}"}) {
    const ir::Graph graph = tests::parse(std::string(kConv) + rest + "\n  return %y\n}\n");
    const auto inputs = tests::random_inputs(graph, 17);
    const bool cast = std::string(rest).find("cast") != std::string::npos;
    for (const auto& h : chains(graph)) {
      if (cast && h.storage) continue;  // the cast makes f16 of everything
      for (const char* order : kOrders) {
        const auto a = made(graph, inputs, h, order);
        const auto report = judged(graph, inputs, a);
        const std::string what =
            fmt::format("{}: {} {}\n{}", rest, name_of(h), order, text_of(report));
        CHECK_MESSAGE(report.verdict != Verdict::kUnexplained, what);
        CHECK_MESSAGE(report.files[0].precision == name_of(h), what);
      }
    }
    // f32 and one element off by 1 % of the RMS.
    const auto a = made(graph, inputs, {}, kOrders[1]);
    const auto wrong = edited(a[0].tensor, [&](std::span<float> y) {
      y[y.size() / 2] += static_cast<float>((cast ? 0.1 : 0.01) * rms_of(a[0].tensor));
    });
    const auto report = judged(graph, inputs, {{"y", wrong}});
    CHECK_MESSAGE(report.verdict == Verdict::kUnexplained, rest << "\n" << text_of(report));
  }
}
