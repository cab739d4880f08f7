// eager-plan: PyTorch's filter, the convolutions it asks about, its report; through a scripted fake
// of cuDNN (tests/fake_cudnn), and through the real one where it is installed.
#include "runtime/study/eager_plan.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

#include "frontend/report/json_text.h"
#include "runtime/study/cudnn_model.h"
#include "tests/support/command_line.h"
#include "tests/support/services.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
using frontend::Json;
using runtime::cuda::EngineChoice;
using runtime::study::Difference;
using tests::Outcome;
namespace fs = std::filesystem;

namespace {

// `fake` is a folder below DRIFTC_FAKE_CUDNN, or "" for what is installed.
Outcome plan(const std::string& fake, const std::string& arguments,
             const std::string& command = "eager-plan") {
  // The real cuDNN keeps memory of its own until the end, which a leak sanitizer would report.
  const std::string environment = fake.empty()
                                      ? "ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
                                      : "DRIFTC_LIBRARY_PATH='" DRIFTC_FAKE_CUDNN + fake + "'";
  return tests::run_command("export " + environment + "\ndriftc " + command + " " + arguments,
                            tests::TemporaryFolder());
}

bool have_cudnn() {
  Settings settings = Settings::from_env();
  if (runtime::cuda::load_cudnn(settings).ok()) return true;
  std::printf("[skip] no cuDNN\n");
  return false;
}

Json checked_json(const Outcome& outcome) {
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  Json json = Json::parse(outcome.out);
  const Json schema =
      Json::parse(tests::read_file(DRIFTC_SOURCE_DIR "/docs/schema/eager-plan-1.json"));
  CHECK(tests::schema_faults(schema, json) == "");
  return json;
}

// Two convolutions alike, one that is padded on one side, one depthwise.
const std::string kModel =
    "'" DRIFTC_SOURCE_DIR "/tests/filetests/cli/data/four_convolutions.gir' ";

}  // namespace

TEST_CASE("eager plan: PyTorch's filter over cuDNN's ranking") {
  auto choice = [](std::int64_t engine, std::vector<std::string> notes) {
    EngineChoice c;
    c.engine = engine;
    c.notes = std::move(notes);
    c.deterministic = !c.has_note("NONDETERMINISTIC");
    return c;
  };
  std::vector<EngineChoice> ranked = {choice(0, {"TENSOR_CORE", "DOWN_CONVERT_INPUTS"}),
                                      choice(1, {"NONDETERMINISTIC"}), choice(2, {"TENSOR_CORE"}),
                                      choice(3, {}), choice(4, {"WINOGRAD"})};
  ranked[3].builds = false;
  using runtime::cuda::pytorch_choice;
  CHECK(pytorch_choice(ranked, ir::DType::kF32, {}) == 1);
  CHECK(pytorch_choice(ranked, ir::DType::kF32, {.deterministic = true}) == 2);
  CHECK(pytorch_choice(ranked, ir::DType::kF32, {.allow_tf32 = false, .deterministic = true}) == 4);
  // In f16 tensor cores are not TF32, so that the flag says nothing.
  CHECK(pytorch_choice(ranked, ir::DType::kF16, {.allow_tf32 = false, .deterministic = true}) == 2);
  ranked.resize(1);
  CHECK(!pytorch_choice(ranked, ir::DType::kF32, {}).has_value());
}

TEST_CASE("eager plan: how two answers differ") {
  runtime::study::Answer a, b;
  a.choice.precision = b.choice.precision = "f32";
  CHECK(difference(a, b) == Difference::kNone);
  b.choice.knobs = {{"STAGES", 4}};
  CHECK(difference(a, b) == Difference::kKnobs);
  b.choice.engine = 3;
  CHECK(difference(a, b) == Difference::kEngine);
  b.choice.notes = {"STRICT_NAN_PROP"};
  CHECK(difference(a, b) == Difference::kEngine);
  b.choice.precision = "tf32";
  CHECK(difference(a, b) == Difference::kClass);
  b.choice.precision = "f32";
  a.choice.notes = {"WINOGRAD_TILE_4x4"};
  b.choice.notes = {"WINOGRAD_TILE_6x6"};
  CHECK(difference(a, b) == Difference::kClass);
}

TEST_CASE("eager plan: the device as cuDNN takes it") {
  const auto t4 = runtime::device_profile("t4");
  const Json json = Json::parse(runtime::cuda::device_json(*t4));
  CHECK(json["deviceVer"] == 750);
  CHECK(json["multiProcessorCount"] == 40);
  CHECK(json["totalGlobalMem"] == std::int64_t{16} << 30);
  CHECK(json["maxSharedMemoryPerBlockOptin"] == 65536);
  CHECK(json["l2CacheSize"] == 4 << 20);
  CHECK(json.size() == 23);
}

TEST_CASE("eager plan: the report of a scripted cuDNN") {
  const Json json = checked_json(plan("works", kModel + "--device t4,a100 --json - "));
  CHECK(json["cudnn"] == "9.99.0");
  CHECK(json["convolutions"] == 4);
  CHECK(json["different"] == 3);
  REQUIRE(json["nodes"].size() == 8);
  const Json& first = json["nodes"][0];
  CHECK(first["name"] == "a");
  CHECK(first["device"] == "t4");
  CHECK(first["engine"] == 5);  // engine 3 converts its inputs
  CHECK(first["precision"] == "f32");
  CHECK(first["deterministic"] == false);
  CHECK(first["other_layout"]["differs"] == "engine");  // only the fallback list is left
  CHECK(first["other_layout"]["answer"]["engine"] == 1);
  CHECK(first["other_layout"]["answer"]["fallback_list"] == true);
  CHECK(json["nodes"][2]["name"] == "b");
  CHECK(json["nodes"][2]["same_as"] == "a");
  CHECK(json["nodes"][4]["padded_first"] == true);
  const Json& depthwise = json["nodes"][6];
  CHECK(depthwise["runs"] == "pytorch-depthwise");
  CHECK(depthwise["engine"] == nullptr);
  CHECK(depthwise["algorithm"] == "direct");
  CHECK(depthwise["other_layout"]["answer"]["runs"] == "cudnn");
  CHECK(json["between_devices"][0]["differs"] == "none");

  const Json strict = checked_json(plan("works", kModel + "--deterministic --json -"));
  CHECK(strict["settings"]["devices"][0] == "h200");
  CHECK(strict["nodes"][0]["engine"] == 7);
  CHECK(strict["nodes"][0]["precision"] == "tf32");
  CHECK(strict["nodes"][0]["knobs"].dump() == R"({"KNOB_999":1,"STAGES":4,"TILE_SIZE":8})");
  const Json& without = strict["nodes"][0]["other_tf32"];  // engine 8 makes no plan
  CHECK(without["differs"] == "class");
  CHECK(without["answer"]["engine"] == 9);
  CHECK(without["answer"]["algorithm"] == "winograd");

  const Outcome text = plan("works", kModel + "--device t4,a100 --deterministic");
  CHECK(text.code == 0);
  CHECK(text.out.find("cuDNN  9.99.0 at ") != std::string::npos);
  CHECK(text.out.find("f32 winograd 4x4") != std::string::npos);
  CHECK(text.out.find("PyTorch's own depthwise kernel, not cuDNN") != std::string::npos);
  CHECK(text.out.find("t4 against a100: 4 the same") != std::string::npos);
  CHECK(text.out.find("Padding that differs on two sides") != std::string::npos);
  CHECK(plan("works", kModel + "--device t4,a100 --deterministic").out == text.out);
}

TEST_CASE("eager plan: a cuDNN that is too old, incomplete or failing ends with 3") {
  const Outcome old = plan("old", kModel);
  CHECK(old.code == 3);
  CHECK(old.out == "");
  CHECK(old.err.find("cuDNN 9.1.0 at ") != std::string::npos);
  CHECK(old.err.find("is too old") != std::string::npos);
  const Outcome incomplete = plan("incomplete", kModel);
  CHECK(incomplete.code == 3);
  CHECK(incomplete.err.find("it has no cudnnBackendGetAttribute") != std::string::npos);
  const Outcome fails = plan("fails", kModel + "--device t4 --json -");
  CHECK(fails.code == 3);
  CHECK(fails.out == "");
  CHECK(fails.err.find("cuDNN 9.99.0 fails in cudnnBackendFinalize of the heuristics: "
                       "CUDNN_STATUS_INTERNAL_ERROR") != std::string::npos);
  CHECK(fails.err.find("the fake fails as asked") != std::string::npos);
  CHECK(fails.err.find("asked about a on t4: x [1,8,16,16]") != std::string::npos);
  // The rest works.
  for (const char* fake : {"old", "incomplete", "fails"})
    CHECK(plan(fake, "zoo:conv3x3", "show").code == 0);
  CHECK(plan("old", "", "doctor").out.find("is too old") != std::string::npos);
}

TEST_CASE("eager plan: no cuDNN at all ends with 3 and says where to get one") {
  Settings settings = Settings::from_env();
  if (runtime::cuda::load_cudnn(settings).ok()) {
    std::printf("[skip] cuDNN is installed here\n");
    return;
  }
  const Outcome none = plan("", kModel);
  CHECK(none.code == 3);
  CHECK(none.err.find("cuDNN was not found") != std::string::npos);
  CHECK(none.err.find("nvidia-cudnn-cu13") != std::string::npos);
}

TEST_CASE("cudnn model: contracts of a plan, and what has no model") {
  const ir::Graph graph = tests::parse(R"(gir 1
graph @g(%x: f32[1,8,16,16]) {
  %w = constant f32[8,8,3,3] random(seed=1, he)
  %b = constant f32[8] splat(0x1p0)
  %tf32 = conv2d %x, %w, %b {pad=[1,1,1,1]} : f32[1,8,16,16]
  %wino = conv2d %tf32, %w {pad=[1,1,1,1]} : f32[1,8,16,16]
  %fft = conv2d %wino, %w {pad=[1,1,1,1]} : f32[1,8,16,16]
  %wide = conv2d %fft, %w {stride=[2,2], pad=[1,1,1,1]} : f32[1,8,8,8]
  %out = relu %wide : f32[1,8,8,8]
  return %out
})");
  runtime::study::EagerPlan plan;
  plan.cudnn_version = "9.1.2";
  auto add = [&](const char* node, const char* precision, runtime::cuda::Algorithm algorithm,
                 std::vector<std::string> notes) {
    runtime::study::Answer answer;
    answer.choice.precision = precision;
    answer.choice.algorithm = algorithm;
    answer.choice.notes = std::move(notes);
    plan.groups.push_back({{}, {node}, false, {{answer, {}, {}}}, Difference::kNone});
  };
  using runtime::cuda::Algorithm;
  add("tf32", "tf32", Algorithm::kImplicitGemm, {"TENSOR_CORE"});
  add("wino", "f32", Algorithm::kWinograd, {"WINOGRAD", "WINOGRAD_TILE_6x6"});
  add("fft", "f32", Algorithm::kFft, {"FFT"});
  add("wide", "f32", Algorithm::kWinograd, {"WINOGRAD", "WINOGRAD_TILE_4x4"});
  const auto model = cudnn_model(graph, plan, *runtime::device_profile("a100"));
  CHECK(model.device == "a100");
  REQUIRE(model.convolutions.size() == 4);
  const auto& contracts = model.contracts;
  CHECK(to_string(contracts.at("tf32"))
            .starts_with("{order=crs.mma(sm_80,tf32,m16n8k8,rna)+bias.stored, in=tf32:rna, "
                         "acc=f32"));
  CHECK(to_string(contracts.at("wino")).starts_with("{order=crs.fma, in=f32"));
  CHECK(to_string(contracts.at("wino")).ends_with("transform=winograd4:f32}"));
  CHECK(to_string(contracts.at("wide")).starts_with("{order=crs.fma, in=f32"));
  CHECK(to_string(contracts.at("out")).ends_with("fold=none}"));
  CHECK(to_string(contracts.at("fft")).starts_with("{order=crs.fma, in=f32"));
  CHECK(model.convolutions[0].gap == "");
  CHECK(model.convolutions[1].gap == "");
  CHECK(model.convolutions[2].gap == "FFT");
  CHECK(model.convolutions[3].gap == "Winograd (its stride is 2x2, not 1)");
}

TEST_CASE("cudnn model: a comparison says that its eager arm is a model") {
  const std::string arguments = kModel + "--passes none --executor ptx --eager cudnn:t4 ";
  const Outcome outcome = plan("works", arguments + "--json -", "compare");
  REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
  const Json json = Json::parse(outcome.out);
  const Json schema =
      Json::parse(tests::read_file(DRIFTC_SOURCE_DIR "/docs/schema/compare-1.json"));
  CHECK(tests::schema_faults(schema, json) == "");
  const Json& eager = json["arms"]["eager"];
  CHECK(eager["executor"] == "cudnn-modelled");
  CHECK(eager["device"] == "t4");
  CHECK(eager["cudnn"] == "9.99.0");
  REQUIRE(eager["convolutions"].size() == 4);
  CHECK(eager["convolutions"][0]["engine"] == 5);
  CHECK(eager["convolutions"][3]["engine"] == nullptr);  // PyTorch's own depthwise kernel
  CHECK(json["verdict"] == "identical");                 // everything in f32, in eager's order
  const Outcome text = plan("works", arguments, "compare");
  CHECK(text.out.find("eager     cuDNN 9.99.0 on t4, modelled") != std::string::npos);
  CHECK(text.out.find("assumed: the order of summation") != std::string::npos);

  CHECK(plan("old", arguments, "compare").code == 3);
  CHECK(plan("works", kModel + "--eager cudnn:h2000", "compare").err.find("did you mean 'h200'?") !=
        std::string::npos);
  CHECK(plan("works", kModel + "--eager cudnn:t4 --mode strict", "compare").code == 2);
  CHECK(plan("works", kModel + "--eager cudnn:t4 --eager-order rsc.fma", "compare").code == 2);
  CHECK(plan("works", kModel + "--eager torch", "compare").code == 2);
}

TEST_CASE("cudnn model: under the real cuDNN the verdict follows from the engines' classes") {
  if (!have_cudnn()) return;
  const std::string digits =
      "'" DRIFTC_SOURCE_DIR "/tests/models/digits-resnet.onnx' --input image='" DRIFTC_SOURCE_DIR
      "/tests/models/digits.images.npy' --passes none --executor ptx --json - ";
  for (const char* device : {"a100", "t4"}) {
    CAPTURE(device);
    const Json json = Json::parse(plan("", digits + "--eager cudnn:" + device, "compare").out);
    bool tf32 = false, transformed = false;
    for (const Json& c : json["arms"]["eager"]["convolutions"]) {
      tf32 |= c["precision"] == "tf32";
      transformed |= c["algorithm"] == "winograd" && c["no_model"] == nullptr;
    }
    CHECK(json["verdict"] == (transformed ? "algorithm" : tf32 ? "precision" : "identical"));
    if (std::string(device) == "t4") CHECK(!tf32);
  }
}

TEST_CASE("eager plan: what the command line refuses") {
  CHECK(plan("works", kModel + "--device h2000").err.find("did you mean 'h200'?") !=
        std::string::npos);
  CHECK(plan("works", kModel + "--device t4,t4").err.find("names t4 twice") != std::string::npos);
  CHECK(plan("works", kModel + "--device t4,").code == 2);
  CHECK(plan("works", kModel + "--layout chwn").code == 2);
  CHECK(plan("works", kModel + "--allow-tf32 maybe").code == 2);
  const Outcome none = plan("works", "zoo:mlp");
  CHECK(none.code == 0);
  CHECK(none.out.find("no convolutions: cuDNN has nothing to decide") != std::string::npos);
}

TEST_CASE("eager plan: the real cuDNN, the same bytes twice, TF32 only where it is allowed") {
  if (!have_cudnn()) return;
  const std::string arguments = "zoo:resnet18 --device a100,h200,t4,l40s --json - ";
  const Outcome first = plan("", arguments);
  const Json json = checked_json(first);
  CHECK(json["nodes"].size() == 80);
  CHECK(plan("", arguments).out == first.out);
  bool tf32 = false;
  for (const Json& node : json["nodes"]) {
    const std::string precision = node["precision"];
    tf32 = tf32 || precision == "tf32";
    if (node["device"] == "t4") CHECK(precision == "f32");  // Turing has no TF32
    CHECK(node["other_tf32"]["answer"]["precision"] == "f32");
  }
  CHECK(tf32);
  const Json off = checked_json(plan("", arguments + "--allow-tf32 off --deterministic"));
  for (const Json& node : off["nodes"]) {
    CHECK(node["precision"] == "f32");
    CHECK(node["deterministic"] == true);
  }
}

TEST_SUITE("soak") {
  TEST_CASE("soak: eager plan of every shared model, and zoo:resnet50 on four devices in time" *
            doctest::skip()) {
    if (!have_cudnn()) return;
    const fs::path shared = DRIFTC_SOURCE_DIR "/../shared/models";
    int models = 0;
    if (!fs::exists(shared)) std::printf("[skip part] no shared models\n");
    for (const auto& file : fs::directory_iterator(fs::exists(shared) ? shared : fs::path("."))) {
      fs::path input = file.path();
      if (input.extension() != ".onnx" || !fs::exists(input.replace_extension(".input.npy")))
        continue;
      CAPTURE(file.path().string());
      const std::string arguments = "'" + file.path().string() + "' --input '" + input.string() +
                                    "' --device a100,t4 --json -";
      const Outcome first = plan("", arguments);
      CHECK(checked_json(first)["nodes"].size() > 0);
      CHECK(plan("", arguments).out == first.out);
      ++models;
    }
    CHECK((models == 15 || !fs::exists(shared)));
    const auto start = std::chrono::steady_clock::now();
    CHECK(plan("", "zoo:resnet50 --device a100,h200,t4,l40s").code == 0);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    CHECK(spent.count() < 20);
  }
}
