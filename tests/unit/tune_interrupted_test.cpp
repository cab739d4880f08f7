// --tuning FILE where a run ends early: choices are in the file as soon as they are made, and what
// comes in parts is in the end what comes at once.
#include <doctest/doctest.h>

#include <filesystem>

#include "frontend/cli/tuning_option.h"
#include "frontend/tuning/tuning_file.h"
#include "runtime/executor.h"
#include "tests/support/command_line.h"
#include "tests/unit/tune_support.h"

using namespace driftc;
using frontend::Arguments;
using tests::base_of;
using tests::Digits;
using tests::digits;
using tests::only_slices;
using tests::Recorded;
namespace study = runtime::study;

namespace {

// The PTX executor, as long as it lasts: after so many plans, one for each problem, the device is
// gone.
class Lasting final : public runtime::Executor {
 public:
  Lasting(runtime::ThreadPool& pool, int plans) : inner_(pool), left_(plans) {}
  std::string_view name() const override { return inner_.name(); }
  std::string device() const override { return inner_.device(); }
  bool checks() const override { return inner_.checks(); }
  bool orders_atomics() const override { return inner_.orders_atomics(); }
  Result<void> run(const runtime::CompiledKernel& kernel,
                   std::span<const runtime::DeviceTensor> operands,
                   std::span<const runtime::DeviceTensor> prepared, runtime::DeviceTensor& result,
                   const runtime::RunOptions& options) override {
    return inner_.run(kernel, operands, prepared, result, options);
  }
  Result<std::unique_ptr<runtime::LaunchPlan>> plan(
      const ir::Graph& graph, std::span<const runtime::CompiledKernel* const> kernels,
      bool as_graph) override {
    if (left_-- == 0) return unavailable("the device is gone", "");
    return inner_.plan(graph, kernels, as_graph);
  }
  int left() const { return left_; }

 private:
  runtime::PtxExecutor inner_;
  int left_;
};

}  // namespace

TEST_CASE("tuning file: a run that ends early keeps its choices, the next one goes on after them") {
  const Digits d = digits();
  const tests::TemporaryFolder folder;
  Recorded recorded;
  const auto problems_in = [](const std::string& path) {
    const auto file = frontend::parse_tuning(tests::read_file(path), path);
    REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.error().render()));
    return file->problems;
  };
  // A command of its own each time, on a device that lasts for `plans` problems.
  struct Ran {
    std::string error;
    int left;
    std::size_t tuned;
    std::vector<std::size_t> finished;
  };
  const auto command = [&](const std::string& path, int plans) {
    Arguments arguments;
    arguments.add("--tuning", path);
    study::PairSettings settings = only_slices();
    REQUIRE(frontend::set_tuning(arguments, settings).ok());
    Ran ran{};
    settings.tuning->finished = [&](std::size_t count) { ran.finished.push_back(count); };
    const auto executor = std::make_shared<Lasting>(recorded.pool, plans);
    settings.executor = executor;
    const ir::Graph base = base_of(d.graph, settings);
    const auto choices =
        study::tuned_choices({d.graph, base, settings}, *settings.tuning, recorded.services());
    if (!choices.ok()) ran.error = choices.error().message;
    ran.left = executor->left();
    ran.tuned = settings.tuning->tuned;
    return ran;
  };
  const std::string whole = (folder.path() / "whole.json").string(),
                    parts = (folder.path() / "parts.json").string();
  const Ran complete = command(whole, 1000);
  CHECK(complete.error == "");
  const study::TunedProblems all = problems_in(whole);
  const int n = static_cast<int>(all.size());
  REQUIRE(n >= 5);
  CHECK(complete.left == 1000 - n);
  CHECK(complete.finished == std::vector<std::size_t>{all.size()});
  // Two problems, then three more, then the rest.
  for (const int more : {2, 3}) {
    CAPTURE(more);
    const Ran early = command(parts, more);
    CHECK(early.error == "the device is gone");
    CHECK(early.tuned == static_cast<std::size_t>(more));
    CHECK(early.finished == std::vector<std::size_t>{early.tuned});
    const study::TunedProblems kept = problems_in(parts);
    CHECK(kept.size() == static_cast<std::size_t>(more == 2 ? 2 : 5));
    for (const auto& [text, problem] : kept) CHECK(problem == all.at(text));
  }
  const Ran rest = command(parts, 1000);
  CHECK(rest.error == "");
  CHECK(rest.left == 1000 - (n - 5));
  CHECK(tests::read_file(parts) == tests::read_file(whole));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  // Nothing left to tune: the file is not touched.
  const auto before = std::filesystem::last_write_time(parts);
  const Ran again = command(parts, 0);
  CHECK(again.error == "");
  CHECK(again.finished.empty());
  CHECK(std::filesystem::last_write_time(parts) == before);
  // A choice that cannot be kept ends the tuning.
  std::filesystem::create_directory(folder.path() / "gone");
  Arguments arguments;
  const std::string gone = (folder.path() / "gone/t.json").string();
  arguments.add("--tuning", gone);
  study::PairSettings settings = only_slices();
  REQUIRE(frontend::set_tuning(arguments, settings).ok());
  std::filesystem::remove(folder.path() / "gone");
  const ir::Graph base = base_of(d.graph, settings);
  const auto lost =
      study::tuned_choices({d.graph, base, settings}, *settings.tuning, recorded.services());
  REQUIRE(!lost.ok());
  CHECK(lost.error().message == "cannot write '" + gone + "': No such file or directory");
  CHECK(settings.tuning->tuned == 0);
}
