// `judge` on what other systems make: ONNX Runtime with and without its optimisations, numpy,
// oneDNN. Right results are accepted as f32; those of another image, another model and with two
// classes swapped are not. Python packages come from ./dev setup, oneDNN with the benchmarks.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#ifdef DRIFTC_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include "frontend/npy/npy.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/onnx.h"
#include "frontend/report/judge_report.h"
#include "frontend/zoo/reseed.h"
#include "ir/support/rng.h"
#include "runtime/study/judge.h"
#include "tests/support/services.h"

using namespace driftc;
using runtime::compare::Verdict;
namespace study = runtime::study;
namespace fs = std::filesystem;

namespace {

const std::string kSource = DRIFTC_SOURCE_DIR, kShared = kSource + "/../shared/models/";
const std::string kPython = kSource + "/.deps/onnx/bin/python";

bool python_has(const char* package, const char* what) {
  if (std::system(fmt::format("{} -c 'import {}' > /dev/null 2>&1", kPython, package).c_str()) == 0)
    return true;
  std::printf("[skip] %s: no %s in .deps/onnx (./dev setup)\n", what, package);
  return false;
}

// Removed at the end, with all that is in it.
struct Folder {
  std::string path;
  Folder()
      : path((fs::temp_directory_path() / fmt::format("driftc-systems-{}", ::getpid())).string()) {
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
};

ir::Tensor read(const std::string& path) {
  auto tensor = frontend::npy::read_npy(path);
  REQUIRE_MESSAGE(tensor.ok(), (tensor.ok() ? "" : tensor.error().render()));
  return std::move(*tensor);
}
void write(const std::string& path, const ir::Tensor& tensor) {
  REQUIRE(frontend::npy::write_npy(path, tensor).ok());
}

struct Subject {
  std::string name, file;  // the file that the other system runs
  ir::Graph graph;
  ir::Tensor input;
};
// A file with the first sample of the input that lies beside it.
Subject from_file(const std::string& name, const std::string& path, const std::string& input) {
  Subject s{name, path, ir::Graph("file"), read(input)};
  auto info = frontend::onnx::inspect_onnx(path);
  REQUIRE(info.ok());
  frontend::onnx::ImportOptions options;
  options.input_shapes[info->inputs[0].name] = s.input.shape();
  auto graph = frontend::onnx::import_onnx(path, options);
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().render()));
  s.graph = std::move(*graph);
  return s;
}
// A graph, exported to the folder.
Subject exported(const std::string& name, ir::Graph graph, ir::Tensor input, const Folder& folder) {
  Subject s{name, folder.path + "/exported.onnx", std::move(graph), std::move(input)};
  auto bytes = frontend::onnx::export_onnx(s.graph);
  REQUIRE_MESSAGE(bytes.ok(), (bytes.ok() ? "" : bytes.error().render()));
  std::ofstream(s.file, std::ios::binary) << *bytes;
  return s;
}
ir::Tensor random_input(const ir::Graph& graph, std::uint64_t seed) {
  const ir::Value& value = graph.value(graph.inputs()[0]);
  ir::Tensor x(ir::DType::kF32, value.type.shape);
  fill(Distribution::kRandom, seed, value.name, x.data_mut<float>());
  return x;
}

using Outputs = std::vector<study::NamedTensor>;
Outputs by_runtime(const Subject& s, const ir::Tensor& input, const char* level,
                   const Folder& folder) {
  write(folder.path + "/x.npy", input);
  REQUIRE_MESSAGE(std::system(fmt::format("{} {}/tests/python/run_onnxruntime.py {} {}/x.npy {} {}",
                                          kPython, kSource, s.file, folder.path, folder.path, level)
                                  .c_str()) == 0,
                  s.name);
  Outputs outputs;
  for (std::size_t i = 0; i < s.graph.outputs().size(); ++i) {
    ir::Tensor tensor = read(fmt::format("{}/{}.npy", folder.path, i));
    if (tensor.dtype() != ir::DType::kI64)
      outputs.push_back({s.graph.value(s.graph.outputs()[i]).name, std::move(tensor)});
  }
  return outputs;
}

study::JudgeReport judged(const Subject& s, const Outputs& a) {
  auto report = study::judge(s.graph, {{s.graph.value(s.graph.inputs()[0]).name, s.input}}, a, {},
                             {}, tests::services());
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
  return std::move(*report);
}
std::string text_of(const study::JudgeReport& report) {
  return frontend::judge_text(report, {"m", "a", "b", {}, 0}, {});
}

void expect_right_and_wrong(const Subject& s, const Folder& folder) {
  Outputs right;
  for (const char* level : {"all", "none"}) {
    right = by_runtime(s, s.input, level, folder);
    const auto report = judged(s, right);
    // A 16-bit model's values are stored in f16, unless an optimisation keeps f32 between its ops.
    const bool half = s.name.ends_with("fp16");
    CHECK_MESSAGE(report.verdict <= (half ? Verdict::kPrecision : Verdict::kOrder),
                  s.name << ", optimisations " << level << "\n"
                         << text_of(report));
    const std::string& precision = report.files[0].precision;
    CHECK_MESSAGE((precision == "f32" || (half && precision.starts_with("f16"))),
                  s.name << ": " << precision);
  }
  const study::JudgeReport accepted = judged(s, right);
  // Another image, where the model makes something else of it: some of the reseeded ones do not.
  ir::Tensor other = ir::Tensor::of<float>(s.input.shape(), s.input.data<float>());
  std::ranges::reverse(other.data_mut<float>());
  const Outputs of_other = by_runtime(s, other, "all", folder);
  bool differs = false;
  for (std::size_t i = 0; i < right.size(); ++i)
    differs = differs || runtime::compare::measure(right[i].tensor.converted(ir::DType::kF32),
                                                   of_other[i].tensor.converted(ir::DType::kF32))
                                 .max_abs > accepted.files[0].values[i].visible.largest;
  if (differs) {
    const auto another = judged(s, of_other);
    CHECK_MESSAGE(another.verdict == Verdict::kUnexplained, s.name << ", another image\n"
                                                                   << text_of(another));
  } else {
    std::printf("  %s makes the same of another image\n", s.name.c_str());
  }
  // The largest and the smallest element of an output change places.
  Outputs swapped = right;
  ir::Tensor& output = swapped[0].tensor;
  if (output.elements() < 2) return;
  const ir::Tensor f32 = output.converted(ir::DType::kF32);
  output = ir::Tensor::of<float>(f32.shape(), f32.data<float>());
  const auto [low, high] = std::ranges::minmax_element(output.data_mut<float>());
  if (*low == *high) return;
  std::swap(*low, *high);
  const auto report = judged(s, swapped);
  CHECK_MESSAGE(report.verdict == Verdict::kUnexplained, s.name << ", swapped\n"
                                                                << text_of(report));
}

}  // namespace

TEST_CASE("judge: ONNX Runtime's results are f32 results, another image's are not") {
  if (!python_has("onnxruntime", "judge")) return;
  const Folder folder;
  const Subject digits = from_file("digits", kSource + "/tests/models/digits-resnet.onnx",
                                   kSource + "/tests/models/digits.images.npy");
  expect_right_and_wrong(digits, folder);
  if (!fs::exists(kShared)) return;
  const Subject a = from_file("resnet20", kShared + "resnet20-cifar10.onnx",
                              kShared + "resnet20-cifar10.input.npy");
  expect_right_and_wrong(a, folder);
  // Another model of the same task, on the same image.
  const Subject b = from_file("resnet56", kShared + "resnet56-cifar10.onnx",
                              kShared + "resnet20-cifar10.input.npy");
  Outputs other = by_runtime(b, a.input, "all", folder);
  other[0].name = a.graph.value(a.graph.outputs()[0]).name;
  CHECK(judged(a, other).verdict == Verdict::kUnexplained);
}

TEST_CASE("judge: numpy's convolutions are f32 results") {
  if (!python_has("numpy", "judge")) return;
  const Folder folder;
  ir::Tensor x(ir::DType::kF32, {2, 37, 14, 13}), w(ir::DType::kF32, {16, 37, 3, 3});
  fill(Distribution::kRandom, 1, "x", x.data_mut<float>());
  fill(Distribution::kSymmetric, 2, "w", w.data_mut<float>());
  write(folder.path + "/x.npy", x);
  write(folder.path + "/w.npy", w);
  REQUIRE(std::system(fmt::format("{0} {1}/tests/python/run_numpy.py {2}/x.npy {2}/w.npy {2}",
                                  kPython, kSource, folder.path)
                          .c_str()) == 0);
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[2,37,14,13], %w: f32[16,37,3,3]) {
  %y = conv2d %x, %w {pad=[1,1,1,1]}
  return %y
})");
  for (const char* way : {"blas", "einsum", "taps"}) {
    auto report = study::judge(graph, {{"x", x}, {"w", w}},
                               {{"y", read(fmt::format("{}/{}.npy", folder.path, way))}}, {}, {"y"},
                               tests::services());
    REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
    CHECK_MESSAGE(report->verdict <= Verdict::kOrder, way << "\n" << text_of(*report));
    CHECK(report->files[0].precision == "f32");
  }
}

TEST_CASE("judge: oneDNN's convolutions are f32 results") {
#ifndef DRIFTC_ONEDNN
  std::printf("[skip] judge: oneDNN is not installed (./dev setup)\n");
#else
  const struct {
    std::int64_t n, c, h, w, k, kernel, stride, pad;
  } shapes[] = {
      {2, 64, 15, 17, 32, 3, 1, 1}, {1, 3, 33, 31, 16, 7, 2, 3}, {2, 96, 9, 9, 40, 1, 1, 0}};
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  using tag = dnnl::memory::format_tag;
  for (const auto& s : shapes)
    for (const auto algorithm :
         {dnnl::algorithm::convolution_direct, dnnl::algorithm::convolution_auto}) {
      ir::Tensor x(ir::DType::kF32, {s.n, s.c, s.h, s.w}),
          w(ir::DType::kF32, {s.k, s.c, s.kernel, s.kernel});
      fill(Distribution::kRandom, 3, "x", x.data_mut<float>());
      fill(Distribution::kSymmetric, 4, "w", w.data_mut<float>());
      const std::int64_t oh = (s.h + 2 * s.pad - s.kernel) / s.stride + 1,
                         ow = (s.w + 2 * s.pad - s.kernel) / s.stride + 1;
      ir::Tensor y(ir::DType::kF32, {s.n, s.k, oh, ow});
      constexpr auto f32 = dnnl::memory::data_type::f32;
      const auto any = [](const dnnl::memory::dims& dims) {
        return dnnl::memory::desc(dims, f32, tag::any);
      };
      const dnnl::convolution_forward::primitive_desc desc({dnnl::prop_kind::forward_inference,
                                                            algorithm,
                                                            any({s.n, s.c, s.h, s.w}),
                                                            any({s.k, s.c, s.kernel, s.kernel}),
                                                            any({s.n, s.k, oh, ow}),
                                                            {s.stride, s.stride},
                                                            {s.pad, s.pad},
                                                            {s.pad, s.pad}},
                                                           engine);
      // Plain memory in and out, the library's own layouts between.
      const auto plain = [&](ir::Tensor& t, const dnnl::memory::dims& dims, tag layout) {
        return dnnl::memory({dims, f32, layout}, engine, t.data_mut<float>().data());
      };
      dnnl::memory src = plain(x, {s.n, s.c, s.h, s.w}, tag::nchw),
                   weights = plain(w, {s.k, s.c, s.kernel, s.kernel}, tag::oihw),
                   dst = plain(y, {s.n, s.k, oh, ow}, tag::nchw);
      dnnl::memory own_src(desc.src_desc(), engine), own_weights(desc.weights_desc(), engine),
          own_dst(desc.dst_desc(), engine);
      dnnl::reorder(src, own_src).execute(stream, src, own_src);
      dnnl::reorder(weights, own_weights).execute(stream, weights, own_weights);
      dnnl::convolution_forward(desc).execute(
          stream,
          {{DNNL_ARG_SRC, own_src}, {DNNL_ARG_WEIGHTS, own_weights}, {DNNL_ARG_DST, own_dst}});
      dnnl::reorder(own_dst, dst).execute(stream, own_dst, dst);
      stream.wait();
      const ir::Graph graph = tests::parse(fmt::format(
          "gir 1\ngraph @g(%x: f32[{0},{1},{2},{3}], %w: f32[{4},{1},{5},{5}]) {{\n"
          "  %y = conv2d %x, %w {{pad=[{6},{6},{6},{6}], stride=[{7},{7}]}}\n  return %y\n}}\n",
          s.n, s.c, s.h, s.w, s.k, s.kernel, s.pad, s.stride));
      auto report =
          study::judge(graph, {{"x", x}, {"w", w}}, {{"y", y}}, {}, {"y"}, tests::services());
      REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().render()));
      CHECK_MESSAGE(report->verdict <= Verdict::kOrder, text_of(*report));
      CHECK(report->files[0].precision == "f32");
    }
#endif
}

TEST_SUITE("soak") {
  TEST_CASE("soak: judge accepts ONNX Runtime on every shared and zoo model" * doctest::skip()) {
    if (!python_has("onnxruntime", "judge")) return;
    const Folder folder;
    std::vector<std::string> files;
    if (fs::exists(kShared))
      for (const auto& entry : fs::directory_iterator(kShared))
        if (entry.path().extension() == ".onnx" &&
            fs::exists(kShared + entry.path().stem().string() + ".input.npy"))
          files.push_back(entry.path().stem().string());
    std::ranges::sort(files);
    for (const std::string& name : files) {
      std::printf("soak: judge, %s\n", name.c_str());
      Subject s = from_file(name, kShared + name + ".onnx", kShared + name + ".input.npy");
      if (name.starts_with("light_"))
        s = exported(name, frontend::zoo::reseed_weights(s.graph, 1), s.input, folder);
      expect_right_and_wrong(s, folder);
    }
    for (const char* name :
         {"resnet18", "resnet50", "residual-block", "bottleneck-block", "depthwise-block", "lenet",
          "mlp", "conv3x3", "conv1x1", "vgg-block"}) {
      std::printf("soak: judge, zoo:%s\n", name);
      ir::Graph graph = tests::zoo(name);
      ir::Tensor input = random_input(graph, 5);
      expect_right_and_wrong(exported(name, std::move(graph), std::move(input), folder), folder);
    }
  }
}
