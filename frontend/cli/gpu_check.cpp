// driftc gpu-check PACK: what a GPU computes against what this CPU computes. One table, one JSON;
// what cannot be checked here is said, not left out.
#include "runtime/study/gpu_check.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "frontend/cli/gpu_pack.h"
#include "frontend/cli/options.h"
#include "frontend/cli/pair_options.h"
#include "frontend/report/version.h"

namespace driftc::frontend {
namespace {

namespace fs = std::filesystem;
namespace study = runtime::study;
using runtime::cuda::CudaExecutor;
using runtime::cuda::Gpu;

constexpr std::array kGpuCheckRows = {
    OptionRow{"--out", "DIR", "folder for gpu-check.json, gpu-check.txt and what PyTorch computed"},
    OptionRow{"--seconds", "N", "checks that have not begun by then are skipped; default 200"},
    OptionRow{"--only", "TEXT", "only checks whose name holds it"},
    OptionRow{"--runs", "N", "timed runs of each network; default 20"},
    OptionRow{"--prepare", "", "fill PACK with kernels and networks instead (./dev gpu-pack)"}};
const OptionGroup kGpuCheckOptions{"checks", kGpuCheckRows};

enum class Status { kOk, kDiffers, kRecorded, kSkipped, kFailed };
std::string_view name_of(Status status) {
  switch (status) {
    case Status::kOk:
      return "ok";
    case Status::kDiffers:
      return "differs";
    case Status::kRecorded:
      return "recorded";
    case Status::kSkipped:
      return "skipped";
    case Status::kFailed:
      return "failed";
  }
  return "";
}

struct Row {
  std::string check;
  Status status = Status::kOk;
  std::string detail;
  Json data = nullptr;
  double seconds = 0;
};

Row skipped(std::string check, std::string why) {
  return {std::move(check), Status::kSkipped, std::move(why), nullptr, 0};
}
Row failed(std::string check, const Diagnostic& error) {
  // Something missing is no fault of the GPU.
  return {std::move(check),
          error.kind == ErrorKind::kUnavailable ? Status::kSkipped : Status::kFailed, error.message,
          nullptr, 0};
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The pack's program brings its own unwinder pieces (frontend/pack): do exceptions still find home?
bool exceptions_work() {
  try {
    return std::string("x").at(std::getenv("PATH") == nullptr ? 1 : 2) == 'x';
  } catch (const std::out_of_range&) {
    return true;
  }
}

struct CheckSettings {
  std::string pack, out, only;
  double seconds = 200;
  int runs = 20;
};

class Checks {
 public:
  Checks(CheckSettings settings, const Context& context)
      : settings_(std::move(settings)),
        context_(context),
        start_(std::chrono::steady_clock::now()) {
    context_.settings.cache_dir = settings_.pack + "/kernels";
  }

  void run() {
    rows_.push_back({"exceptions in this program",
                     exceptions_work() ? Status::kOk : Status::kFailed, "thrown and caught",
                     nullptr, 0});
    open();
    for (const CorpusEntry& entry : gpu_corpus())
      timed(corpus_name(entry), [&](const std::string& name) { return network(name, entry); });
    vectors();
    convolutions();
    timed("PyTorch", [&](const std::string& name) { return pytorch(name); });
  }
  const std::vector<Row>& rows() const { return rows_; }
  const std::string& gpu_text() const { return gpu_text_; }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  template <class F>
  void timed(const std::string& name, const F& check) {
    if (name.find(settings_.only) == std::string::npos) return;
    if (elapsed() > settings_.seconds) return rows_.push_back(skipped(name, "out of time"));
    const double before = elapsed();
    rows_.push_back(check(name));
    rows_.back().seconds = elapsed() - before;
  }

  void open() {
    auto gpu = Gpu::open(context_.settings);
    if (!gpu) {
      no_gpu_ = "no GPU: " + gpu.error().message;
      gpu_text_ = "none";
      rows_.push_back(skipped("GPU", gpu.error().message));
      return;
    }
    gpu_ = *gpu;
    const auto& facts = gpu_->facts();
    gpu_text_ = fmt::format("{}, compute capability {}.{}, {} SMs, driver for CUDA {}", facts.name,
                            facts.compute_major, facts.compute_minor, facts.sm_count,
                            gpu_->api().version_text());
    rows_.push_back({"GPU", Status::kOk, gpu_text_, nullptr, 0});
    executor_ = std::make_shared<CudaExecutor>(gpu_);
    // The pack's kernels are for the default profile; it runs on every GPU as new or newer.
    auto own = runtime::cuda::profile_of(facts);
    if (own.ok()) arch_ = own->mma_arch;
  }

  Row network(const std::string& name, const CorpusEntry& entry) {
    if (!gpu_) return skipped(name, no_gpu_);
    if (!has_model(entry, settings_.pack)) return skipped(name, "the model is not in the pack");
    auto checked = check(entry);
    if (!checked) return failed(name, checked.error());
    const bool good = checked->mismatched == 0 && checked->plan_outputs_wrong == 0;
    std::string detail = fmt::format("{}, {} elements, {} differ",
                                     plural(static_cast<std::int64_t>(checked->kernels), "kernel"),
                                     checked->elements, checked->mismatched);
    if (!checked->first_wrong.empty()) detail += "; first " + checked->first_wrong;
    if (checked->planned)
      detail += fmt::format("; plan and CUDA graph {}; {:.3f} ms, as a graph {:.3f} ms",
                            checked->plan_outputs_wrong == 0 ? "the same bits" : "DIFFER",
                            median_of(checked->plan_ms), median_of(checked->graph_ms));
    return {name, good ? Status::kOk : Status::kDiffers, detail,
            Json{{"kernels", checked->kernels},
                 {"launches", checked->launches},
                 {"elements", checked->elements},
                 {"mismatched", checked->mismatched},
                 {"first_wrong", checked->first_wrong},
                 {"plan_outputs_wrong", checked->plan_outputs_wrong},
                 {"plan_ms", number(median_of(checked->plan_ms))},
                 {"graph_ms", number(median_of(checked->graph_ms))}},
            0};
  }

  Result<study::NetworkCheck> check(const CorpusEntry& entry) {
    const Arguments arguments = corpus_arguments(entry, settings_.pack);
    DRIFTC_TRY(settings, pair_settings(arguments, context_.settings));
    if (!runtime::cuda::runs_kernels_of(gpu_->facts(), settings.device))
      return unavailable(fmt::format("the GPU does not run kernels for {}", settings.device.name));
    DRIFTC_TRY(session, Session::open(arguments, context_));
    DRIFTC_TRY(inputs, session->inputs());
    return study::check_network(session->graph(), *inputs, settings, executor_, session->services(),
                                20);
  }

  void vectors() {
    if (!gpu_) {
      for (const char* name : {"tensor cores T1 to T11", "tensor cores, captured"})
        timed(name, [&](const std::string& text) { return skipped(text, no_gpu_); });
      return;
    }
    for (const runtime::TcVectors& group : runtime::discriminating_vectors(arch_))
      timed(vector_name(group), [&](const std::string& name) { return vector_row(name, group); });
    std::string folder = settings_.pack + "/tensorcore";
    if (!context_.settings.tensorcore_data.empty()) folder = context_.settings.tensorcore_data;
    const auto captured = runtime::captured_vectors(folder, arch_);
    if (!captured || captured->empty())
      return timed("tensor cores, captured", [&](const std::string& name) {
        return captured.ok() ? skipped(name, "no vectors of " + arch_ + " in " + folder)
                             : failed(name, captured.error());
      });
    for (const runtime::TcVectors& group : *captured)
      timed(vector_name(group), [&](const std::string& name) { return vector_row(name, group); });
  }

  static std::string vector_name(const runtime::TcVectors& group) {
    static constexpr std::array kFormats = {"f16", "bf16", "tf32"};
    return fmt::format("tensor cores {} {} -> {} k{}", group.source,
                       kFormats[static_cast<std::size_t>(group.format)],
                       group.accumulator == runtime::TcAccumulator::kF32 ? "f32" : "f16", group.k);
  }

  Row vector_row(const std::string& name, const runtime::TcVectors& group) {
    auto checked = study::check_vectors(group, *gpu_);
    if (!checked) return failed(name, checked.error());
    std::string detail =
        fmt::format("{} vectors, {} differ", checked->vectors, checked->mismatched);
    if (!checked->first_wrong.empty()) detail += "; first " + checked->first_wrong;
    for (const std::string& open : checked->recorded) detail += "; " + open;
    return {name,
            checked->mismatched != 0 ? Status::kDiffers
            : checked->vectors == 0  ? Status::kRecorded
                                     : Status::kOk,
            detail,
            Json{{"vectors", checked->vectors},
                 {"mismatched", checked->mismatched},
                 {"recorded", checked->recorded}},
            0};
  }

  // cuDNN's convolutions, as PyTorch eager would have them, against driftc's.
  void convolutions() {
    auto skip_all = [&](const std::string& why) {
      timed("cuDNN", [&](const std::string& name) { return skipped(name, why); });
    };
    if (!gpu_) return skip_all(no_gpu_);
    const auto problems = packed_convolutions(settings_.pack, context_);
    if (!problems) return skip_all(problems.error().message);
    if (problems->empty()) return skip_all("the pack has no network for it");
    const auto cudnn = runtime::cuda::CudnnExecutor::open(context_.settings, gpu_);
    if (!cudnn) return skip_all(cudnn.error().message);
    const auto alone = convolution_settings(context_.settings);
    if (!alone) return skip_all(alone.error().message);
    if (!runtime::cuda::runs_kernels_of(gpu_->facts(), alone->device))
      return skip_all("the GPU does not run kernels for " + alone->device.name);
    const auto cache = open_kernel_cache(context_.settings);
    runtime::ThreadPool pool(0);
    const study::Services services{*cache, pool, {}};
    for (const PackedConvolution& c : *problems)
      timed(c.name, [&](const std::string& name) {
        auto checked = study::check_convolution(c.problem, **cudnn, *alone, executor_, services,
                                                settings_.runs);
        return checked.ok() ? convolution_row(name, c, *checked, (*cudnn)->version())
                            : failed(name, checked.error());
      });
  }

  Row convolution_row(const std::string& name, const PackedConvolution& c,
                      const study::ConvolutionCheck& checked, const std::string& version) {
    const double theirs = median_of(checked.cudnn_ms), ours = median_of(checked.ours_ms);
    const std::string engine =
        fmt::format("engine {}, {} {}", checked.choice.engine, checked.choice.precision,
                    name_of(checked.choice.algorithm));
    const bool explained = checked.verdict != runtime::compare::Verdict::kUnexplained;
    return {name, explained ? Status::kOk : Status::kDiffers,
            fmt::format("{}: {} ({}), read as {}; cuDNN {:.4f} ms, driftc {:.4f} ms; its order: {}",
                        engine, name_of(checked.verdict), name_of(checked.evidence),
                        checked.precision, theirs, ours, checked.order),
            Json{{"cudnn", version},
                 {"x", c.problem.x},
                 {"w", c.problem.w},
                 {"engine", checked.choice.engine},
                 {"notes", checked.choice.notes},
                 {"precision", checked.choice.precision},
                 {"algorithm", std::string(name_of(checked.choice.algorithm))},
                 {"verdict", std::string(name_of(checked.verdict))},
                 {"evidence", std::string(name_of(checked.evidence))},
                 {"read_as", checked.precision},
                 {"words", checked.words},
                 {"order", checked.order},
                 {"cudnn_ms", number(theirs)},
                 {"driftc_ms", number(ours)}},
            0};
  }

  // PyTorch's own results of the packed networks, for `driftc judge`.
  Row pytorch(const std::string& name) {
    const std::string script = settings_.pack + "/torch/outputs.py";
    std::error_code error;
    if (!fs::exists(script, error)) return skipped(name, "the pack has no networks for it");
    if (settings_.out.empty()) return skipped(name, "no --out folder for its outputs");
    const std::string command =
        fmt::format("python3 {} {} {} >&2", shell_quoted(script), shell_quoted(settings_.pack),
                    shell_quoted(settings_.out));
    const int status = std::system(command.c_str());
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 3) return skipped(name, "no PyTorch here");
    if (code != 0) return {name, Status::kFailed, fmt::format("exit {}", code), nullptr, 0};
    return {name, Status::kRecorded, "outputs, eager and compiled, saved for driftc judge", nullptr,
            0};
  }

  CheckSettings settings_;
  Context context_;
  std::chrono::steady_clock::time_point start_;
  std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<CudaExecutor> executor_;
  std::string no_gpu_, gpu_text_, arch_;
  std::vector<Row> rows_;
};

std::string text(const Checks& checks, const TextStyle& style) {
  Table table({{"check"}, {""}, {"s", Table::Align::kRight}, {"found"}});
  for (const Row& row : checks.rows()) {
    const Colour colour = row.status == Status::kOk ? Colour::kGreen
                          : row.status == Status::kDiffers || row.status == Status::kFailed
                              ? Colour::kRed
                              : Colour::kYellow;
    table.add({row.check, std::string(name_of(row.status)), fmt::format("{:.1f}", row.seconds),
               row.detail},
              1, colour);
  }
  return fmt::format("gpu    {}\n\n", checks.gpu_text()) + table.render(style);
}

Json json(const Checks& checks) {
  Json rows = Json::array();
  for (const Row& row : checks.rows())
    rows.push_back({{"check", row.check},
                    {"status", std::string(name_of(row.status))},
                    {"detail", row.detail},
                    {"seconds", number(row.seconds)},
                    {"data", row.data}});
  return {{"schema", "driftc.gpu-check/1"},
          {"driftc", std::string(kVersion)},
          {"gpu", checks.gpu_text()},
          {"checks", rows}};
}

Result<int> run(const Arguments& arguments, const Context& context) {
  const std::string pack = arguments.value_or("PACK", "");
  std::error_code error;
  if (!fs::is_directory(pack, error))
    return input_error("no folder " + pack, "./dev gpu-pack builds one");
  CheckSettings settings;
  settings.pack = pack;
  settings.only = arguments.value_or("--only", "");
  if (arguments.has("--prepare")) {
    DRIFTC_TRY(kernels, prepare_pack(pack, settings.only, context));
    DRIFTC_CHECK(print(plural(static_cast<std::int64_t>(kernels), "kernel") + "\n"));
    return 0;
  }
  DRIFTC_TRY(seconds, arguments.integer("--seconds", 1, 3600));
  DRIFTC_TRY(runs, arguments.integer("--runs", 1, 1000));
  settings.seconds = static_cast<double>(seconds.value_or(200));
  settings.runs = static_cast<int>(runs.value_or(settings.runs));
  DRIFTC_CHECK(check_can_write(arguments.value_or("--json", "")));
  const std::string out = arguments.value_or("--out", "");
  if (!out.empty()) fs::create_directories(out, error);
  settings.out = out;
  Checks checks(settings, context);
  checks.run();
  if (!out.empty()) {
    DRIFTC_CHECK(write_file(out + "/gpu-check.json", json_text(json(checks))));
    DRIFTC_CHECK(write_file(out + "/gpu-check.txt", text(checks, {})));
  }
  DRIFTC_CHECK(emit(
      arguments, context, [&](const TextStyle& style) { return text(checks, style); },
      [&] { return json(checks); }));
  const bool wrong = std::any_of(checks.rows().begin(), checks.rows().end(), [](const Row& row) {
    return row.status == Status::kDiffers || row.status == Status::kFailed;
  });
  return wrong ? 1 : 0;
}

}  // namespace

Command gpu_check_command() {
  return {
      {"gpu-check",
       "checks a GPU against this CPU, bit for bit: kernels, tensor cores, cuDNN, PyTorch",
       {{"PACK", "the folder that ./dev gpu-pack built"}},
       {kGpuCheckOptions, kJsonOption},
       {"driftc gpu-check build/gpu-pack --out results",
        "driftc gpu-check build/gpu-pack --json - --seconds 60"},
       {"exit: 0 all that could be checked agrees, 1 something differs or failed; without a GPU "
        "everything is skipped, and said"}},
      run};
}

}  // namespace driftc::frontend
