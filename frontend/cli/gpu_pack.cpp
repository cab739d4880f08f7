#include "frontend/cli/gpu_pack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "frontend/cli/pair_options.h"
#include "frontend/npy/npy.h"
#include "runtime/study/compile.h"
#include "runtime/study/compiled_arm.h"
#include "runtime/study/eager_plan.h"
#include "runtime/study/gpu_check.h"

namespace driftc::frontend {
namespace {

namespace fs = std::filesystem;

// Every emitter and every way to sum is in one of these; no atomics, whose order a GPU does not
// keep.
constexpr std::array kCorpus = {
    CorpusEntry{"digits-resnet.onnx", "--passes none"},
    CorpusEntry{"digits-resnet.onnx", "--mode default"},
    CorpusEntry{"digits-resnet.onnx", "--mode strict"},
    CorpusEntry{"digits-resnet.onnx", "--passes all"},
    CorpusEntry{"zoo:residual-block", "--mode default"},
    CorpusEntry{"zoo:conv1x1", "--passes none,+split-k --set split-k.slices=4"},
    CorpusEntry{"zoo:conv3x3", "--set choose-tiling.accumulate=kahan"},
    CorpusEntry{"zoo:conv3x3", "--set choose-tiling.accumulate=f64"},
    CorpusEntry{"zoo:mlp", "--mode default"},
    CorpusEntry{"resnet20-cifar10.onnx", "--passes none"},
    CorpusEntry{"resnet20-cifar10.onnx", "--mode default"},
    CorpusEntry{"rfb-320.onnx", "--mode default"}};
constexpr std::array<std::string_view, 2> kNetworks = {"resnet20-cifar10", "rfb-320"};

Json attribute(const ir::AttributeValue& value) {
  return std::visit([](const auto& v) { return Json(v); }, value);
}

// The graph for a reader that knows nothing of driftc: nodes with names, attributes, shapes;
// constants are ranges of one flat f32 array.
Result<void> write_torch(const std::string& pack, std::string_view name, const ir::Graph& graph,
                         const std::vector<runtime::study::NamedTensor>& inputs) {
  Json nodes = Json::array(), constants = Json::object(), given = Json::array(),
       outputs = Json::array();
  std::vector<float> weights;
  for (const ir::Node& node : graph.nodes()) {
    const ir::Value& result = graph.value(node.result);
    if (node.op == ir::Op::kConstant) {
      const ir::Tensor tensor = node.literal->tensor().converted(ir::DType::kF32);
      const auto data = tensor.data<float>();
      constants[result.name] = {{"offset", weights.size()}, {"shape", result.type.shape.dims()}};
      weights.insert(weights.end(), data.begin(), data.end());
      continue;
    }
    Json operands = Json::array(), attributes = Json::object();
    for (const ir::ValueId v : node.operands) operands.push_back(graph.value(v).name);
    const ir::OpInfo& info = ir::info(node.op);
    for (std::size_t i = 0; i < info.attributes.size(); ++i)
      attributes[std::string(info.attributes[i].name)] = attribute(node.attributes[i]);
    nodes.push_back({{"op", std::string(info.name)},
                     {"name", result.name},
                     {"operands", operands},
                     {"attributes", attributes},
                     {"shape", result.type.shape.dims()}});
  }
  for (const runtime::study::NamedTensor& input : inputs) given.push_back(input.name);
  for (const ir::ValueId v : graph.outputs()) outputs.push_back(graph.value(v).name);
  const Json json = {
      {"inputs", given}, {"outputs", outputs}, {"constants", constants}, {"nodes", nodes}};
  ir::Tensor flat(ir::DType::kF32, ir::Shape({static_cast<std::int64_t>(weights.size())}));
  std::memcpy(flat.bytes_mut().data(), weights.data(), weights.size() * sizeof(float));
  const std::string base = fmt::format("{}/torch/{}", pack, name);
  DRIFTC_CHECK(write_file(base + ".json", json_text(json)));
  return write_file(base + ".weights.npy", npy::npy_bytes(flat));
}

}  // namespace

std::span<const CorpusEntry> gpu_corpus() { return kCorpus; }
std::span<const std::string_view> packed_networks() { return kNetworks; }

bool has_model(const CorpusEntry& entry, const std::string& pack) {
  std::error_code error;
  return entry.model.starts_with("zoo:") ||
         fs::exists(fmt::format("{}/models/{}", pack, entry.model), error);
}

Arguments corpus_arguments(const CorpusEntry& entry, const std::string& pack) {
  Arguments out;
  if (entry.model.starts_with("zoo:")) {
    out.add("MODEL", std::string(entry.model));
    out.add("--input", "random:1");
  } else {
    const std::string path = fmt::format("{}/models/{}", pack, entry.model);
    out.add("MODEL", path);
    out.add("--input", path.substr(0, path.size() - 5) + ".input.npy");
  }
  std::istringstream words{std::string(entry.flags)};
  for (std::string flag, value; words >> flag >> value;) out.add(flag, value);
  out.add("--executor", "ptx");
  return out;
}

std::string corpus_name(const CorpusEntry& entry) {
  return fmt::format("kernels {} {}", entry.model, entry.flags);
}

Result<runtime::study::PairSettings> convolution_settings(const Settings& environment) {
  Arguments arguments;
  arguments.add("--passes", "none");
  arguments.add("--executor", "ptx");
  return pair_settings(arguments, environment);
}

Result<std::vector<PackedConvolution>> packed_convolutions(const std::string& pack,
                                                           const Context& context) {
  constexpr std::size_t kMost = 12;
  std::vector<PackedConvolution> out;
  for (const std::string_view name : kNetworks) {
    const std::string file = std::string(name) + ".onnx";
    const CorpusEntry entry{file, ""};
    if (!has_model(entry, pack)) continue;
    DRIFTC_TRY(session, Session::open(corpus_arguments(entry, pack), context));
    auto groups = runtime::study::convolution_groups(session->graph(), {});
    std::erase_if(groups, [](const runtime::study::PlanGroup& group) {
      return runtime::study::uses_depthwise_kernel(group.problem);
    });
    auto work = [](const runtime::study::PlanGroup& group) {
      return ir::Shape(group.problem.y).elements() * ir::Shape(group.problem.w).elements() /
             group.problem.w[0];
    };
    std::stable_sort(groups.begin(), groups.end(),
                     [&](const auto& a, const auto& b) { return work(a) > work(b); });
    for (std::size_t i = 0; i < groups.size() && i < kMost; ++i)
      out.push_back({fmt::format("cuDNN {} {}", name, groups[i].nodes[0]), groups[i].problem});
  }
  return out;
}

Result<std::size_t> prepare_pack(const std::string& pack, const std::string& only,
                                 const Context& context) {
  Context local = context;
  local.settings.cache_dir = pack + "/kernels";
  std::error_code error;
  fs::create_directories(pack + "/kernels", error);
  fs::create_directories(pack + "/torch", error);
  for (const CorpusEntry& entry : kCorpus) {
    if (!has_model(entry, pack) || corpus_name(entry).find(only) == std::string::npos) continue;
    const Arguments arguments = corpus_arguments(entry, pack);
    DRIFTC_TRY(settings, pair_settings(arguments, local.settings));
    DRIFTC_TRY(session, Session::open(arguments, local));
    DRIFTC_TRY(compiled, runtime::study::compile(session->graph(), settings, session->services()));
    DRIFTC_CHECK(
        runtime::study::CompiledArm::prepare(compiled.graph, settings, session->services()));
  }
  for (const std::string_view name : kNetworks) {
    const std::string file = std::string(name) + ".onnx";
    const CorpusEntry entry{file, ""};
    if (!has_model(entry, pack)) continue;
    DRIFTC_TRY(session, Session::open(corpus_arguments(entry, pack), local));
    DRIFTC_TRY(inputs, session->inputs());
    DRIFTC_CHECK(write_torch(pack, name, session->graph(), *inputs));
  }
  DRIFTC_TRY(convolutions, packed_convolutions(pack, local));
  DRIFTC_TRY(alone, convolution_settings(local.settings));
  const auto cache = open_kernel_cache(local.settings);
  runtime::ThreadPool pool(0);
  const runtime::study::Services services{*cache, pool, {}};
  for (const PackedConvolution& c : convolutions) {
    if (c.name.find(only) == std::string::npos) continue;
    DRIFTC_TRY(graph, runtime::study::convolution_graph(c.problem));
    DRIFTC_TRY(compiled, runtime::study::compile(graph, alone, services));
    DRIFTC_CHECK(runtime::study::CompiledArm::prepare(compiled.graph, alone, services));
  }
  std::size_t kernels = 0;
  for (const auto& file : fs::directory_iterator(pack + "/kernels", error))
    kernels += file.path().extension() == ".ptx";
  return kernels;
}

}  // namespace driftc::frontend
