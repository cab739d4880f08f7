// The command line as a user sees it: filetests/cli/*.txt run the program and hold stdout, stderr
// and exit code.
//   # text            a comment; "# needs: nvrtc" skips the file where NVRTC is missing
//   $ driftc ARGS     a command, run by sh in the repository; $TMP is a fresh folder, kept through
//   the file ? N               its exit code | text            its stdout, exactly ! text its
//   stderr, exactly ~ text            occurs in a line of stdout or stderr (the command then has no
//   | and ! lines)
// DRIFTC_BLESS=1 rewrites the | ! ? lines.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "codegen/nvrtc.h"
#include "frontend/cli/repro.h"
#include "frontend/report/version.h"
#include "tests/support/command_line.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
namespace fs = std::filesystem;

namespace {

using tests::Outcome;
using tests::TemporaryFolder;

std::string read(const fs::path& path) { return tests::read_file(path); }
Outcome run(const std::string& command, const TemporaryFolder& folder) {
  return tests::run_command(command, folder);
}

std::string with_placeholder(std::string text, const TemporaryFolder& folder) {
  const std::string path = folder.path().string();
  for (std::size_t at = 0; (at = text.find(path, at)) != std::string::npos;)
    text.replace(at, path.size(), "$TMP");
  return text;
}

bool have_nvrtc() {
  static const bool kFound = codegen::Nvrtc::load(Settings::from_env()).ok();
  return kFound;
}

std::vector<std::string> prefixed(const std::string& text, const std::string& prefix) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line.empty() ? prefix : prefix + " " + line);
  return lines;
}

struct Step {
  std::string command;
  std::vector<std::string> expected;  // lines that begin with ? | ! ~
};

// The expected lines of a step as they would be written for this outcome.
std::vector<std::string> rendered(const Outcome& outcome) {
  std::vector<std::string> lines = {"? " + std::to_string(outcome.code)};
  for (const std::string& line : prefixed(outcome.out, "|")) lines.push_back(line);
  for (const std::string& line : prefixed(outcome.err, "!")) lines.push_back(line);
  return lines;
}

std::string check(const Step& step, const Outcome& outcome) {
  const bool loose = std::any_of(step.expected.begin(), step.expected.end(),
                                 [](const std::string& line) { return line.starts_with("~"); });
  const std::vector<std::string> got = rendered(outcome);
  if (!loose) {
    if (got == step.expected) return "";
    std::string message = "expected and got differ; DRIFTC_BLESS=1 rewrites the file\n";
    for (const std::string& line : step.expected)
      if (std::find(got.begin(), got.end(), line) == got.end()) message += "  - " + line + "\n";
    for (const std::string& line : got)
      if (std::find(step.expected.begin(), step.expected.end(), line) == step.expected.end())
        message += "  + " + line + "\n";
    return message;
  }
  for (const std::string& line : step.expected) {
    if (line.starts_with("?") && line != got[0])
      return "exit: expected " + line + ", got " + got[0] + "\n" + outcome.err;
    if (line.starts_with("~ ") &&
        (outcome.out + outcome.err).find(line.substr(2)) == std::string::npos)
      return "not found: " + line.substr(2) + "\nin:\n" + outcome.out + outcome.err;
  }
  return "";
}

void run_file(const fs::path& path) {
  const std::string text = read(path);
  if (text.find("# needs: nvrtc") != std::string::npos && !have_nvrtc()) {
    std::cout << "[skip part] " << path.filename().string() << ": no NVRTC\n";
    return;
  }
  const bool blessing = Settings::from_env().bless;
  const TemporaryFolder folder;
  std::vector<std::string> kept;
  std::vector<Step> steps;
  std::istringstream in(text);
  std::string rewritten;
  auto finish_step = [&] {
    if (steps.empty()) return;
    const Step& step = steps.back();
    Outcome outcome = run(step.command, folder);
    outcome.out = with_placeholder(outcome.out, folder);
    outcome.err = with_placeholder(outcome.err, folder);
    const std::string message = check(step, outcome);
    const bool loose = std::any_of(step.expected.begin(), step.expected.end(),
                                   [](const std::string& line) { return line.starts_with("~"); });
    for (const std::string& line : loose || message.empty() ? step.expected : rendered(outcome))
      rewritten += line + "\n";
    if (!blessing || loose)
      CHECK_MESSAGE(message.empty(), path.filename().string()
                                         << ": " << step.command << ": " << message);
    steps.clear();
  };
  for (std::string line; std::getline(in, line);) {
    const bool expectation =
        !line.empty() && std::string("?|!~").find(line[0]) != std::string::npos;
    if (expectation && !steps.empty()) {
      steps.back().expected.push_back(line);
      continue;
    }
    finish_step();
    rewritten += line + "\n";
    if (line.starts_with("$ ")) steps.push_back({line.substr(2), {}});
  }
  finish_step();
  if (blessing && rewritten != text) std::ofstream(path, std::ios::binary) << rewritten;
}

}  // namespace

TEST_CASE("filetests: command line") {
  std::vector<fs::path> paths;
  for (const auto& entry :
       fs::directory_iterator(fs::path(DRIFTC_SOURCE_DIR) / "tests/filetests/cli"))
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  REQUIRE(!paths.empty());
  for (const fs::path& path : paths) run_file(path);
}

TEST_CASE("filetests: the same on a machine with a GPU") {
  // The fake driver in front of every folder that is searched, and a GPU that auto would take.
  const char* before = std::getenv("DRIFTC_LIBRARY_PATH");
  const std::string path = before == nullptr ? "" : before;
  ::setenv("DRIFTC_LIBRARY_PATH", (std::string(DRIFTC_FAKE_CUDA "works:") + path).c_str(), 1);
  const TemporaryFolder folder;
  for (const auto& [set, gpu] : {std::pair("CUDA_VISIBLE_DEVICES=0 ", true), std::pair("", false)})
    CHECK((run(std::string(set) + "driftc doctor", folder).out.find("NVIDIA H200, compute") !=
           std::string::npos) == gpu);
  int files = 0;
  for (const auto& entry :
       fs::directory_iterator(fs::path(DRIFTC_SOURCE_DIR) / "tests/filetests/cli"))
    if (entry.path().extension() == ".txt" &&
        read(entry.path()).find(" on the PTX executor for ") != std::string::npos) {
      run_file(entry.path());
      ++files;
    }
  CHECK(files > 0);
  if (before == nullptr)
    ::unsetenv("DRIFTC_LIBRARY_PATH");
  else
    ::setenv("DRIFTC_LIBRARY_PATH", path.c_str(), 1);
}

TEST_CASE("the version is that of the build") {
  const std::string text = read(fs::path(DRIFTC_SOURCE_DIR) / "CMakeLists.txt");
  CHECK(text.find("project(driftc VERSION " + std::string(frontend::kVersion) + " ") !=
        std::string::npos);
}

TEST_CASE("compare writes the same bytes for any thread count and any number of runs") {
  if (!have_nvrtc()) {
    std::cout << "[skip] no NVRTC\n";
    return;
  }
  const TemporaryFolder folder;
  const std::string base =
      "driftc compare zoo:bottleneck-block --batch 2 --passes all --input relu:3 ";
  const Outcome first = run(base + "--threads 1 --json $TMP/1.json", folder);
  const Outcome second = run(base + "--threads 2 --json $TMP/2.json", folder);
  const Outcome third = run(base + "--threads 2 --json -", folder);
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(first.out == second.out);
  CHECK(first.out == third.err);  // with --json - the table goes to stderr
  const std::string json = read(folder.path() / "1.json");
  CHECK(!json.empty());
  const auto schema =
      frontend::Json::parse(read(fs::path(DRIFTC_SOURCE_DIR) / "docs/schema/compare-1.json"));
  CHECK(tests::schema_faults(schema, frontend::Json::parse(json)) == "");
  CHECK(json == read(folder.path() / "2.json"));
  CHECK(json == third.out);
}

TEST_CASE("an interrupt ends with 130 and leaves no file") {
  const TemporaryFolder folder;
  // The fifo is never written: the program waits in open() while the signal comes.
  const Outcome outcome = run("mkfifo $TMP/model.gir; '" DRIFTC_BINARY
                              "' show $TMP/model.gir & pid=$!\n"
                              "exec 9>$TMP/model.gir; kill -INT $pid; wait $pid",
                              folder);
  CHECK(outcome.code == 130);
  CHECK(outcome.err.find("driftc: interrupted") != std::string::npos);
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("file names of values: safe bytes, collisions numbered, the same every time") {
  frontend::FileNames names;
  CHECK(names.of("gpu_0/data_0") == "gpu_0_data_0");
  CHECK(names.of("gpu_0:data_0") == "gpu_0_data_0.2");
  CHECK(names.of("gpu_0/data_0") == "gpu_0_data_0");
  CHECK(names.of("../../etc/passwd") == ".._.._etc_passwd");
  CHECK(names.of("..") == "_");
  CHECK(names.of("") == "_.2");
  CHECK(names.of("h\xC3\xA9") == "h__");
}

TEST_CASE("an output folder appears whole or not at all") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "a/b").string();
  {
    auto out = frontend::OutputFolder::create(path);
    REQUIRE(out.ok());
    REQUIRE((*out)->add("x/one.npy", "1").ok());
  }
  CHECK(!fs::exists(path));
  {
    auto out = frontend::OutputFolder::create(path);
    REQUIRE(out.ok());
    REQUIRE((*out)->add("x/one.npy", "1").ok());
    REQUIRE((*out)->add("two.npy", "22").ok());
    REQUIRE((*out)->commit().ok());
  }
  CHECK(read(path + "/x/one.npy") == "1");
  CHECK(read(path + "/two.npy") == "22");
  CHECK(std::distance(fs::directory_iterator(path), fs::directory_iterator()) == 2);
}

TEST_CASE("a fault of driftc leaves a folder that reproduces it") {
  const TemporaryFolder folder;
  frontend::Context context;
  context.settings.dump_dir = (folder.path() / "dumps").string();
  context.command_line = "driftc compare zoo:mlp";
  frontend::Arguments arguments;
  arguments.add("MODEL", "zoo:mlp");
  arguments.add("--input", "ones");
  auto session = frontend::Session::open(arguments, context);
  REQUIRE(session.ok());
  runtime::study::PairSettings settings;
  settings.selection = *passes::select_passes({.mode = "strict"});
  settings.device = *runtime::device_profile("h200");
  const Diagnostic plain = frontend::with_repro(input_error("x"), **session, settings, context);
  CHECK(plain.notes.empty());
  CHECK(!fs::exists(folder.path() / "dumps"));
  const Diagnostic d =
      frontend::with_repro(internal_error("kernel of fc1"), **session, settings, context);
  REQUIRE(d.notes.size() == 2);
  const fs::path repro = d.notes[0].substr(d.notes[0].find("is in ") + 6);
  for (const char* file : {"error.txt", "command.txt", "reproduce.sh", "source.gir", "compiled.gir",
                           "inputs/input.npy"})
    CHECK_MESSAGE(fs::is_regular_file(repro / file), file);
  CHECK(!fs::is_empty(repro / "kernels"));
  CHECK(read(repro / "error.txt") == "error: kernel of fc1\n");
  // The command runs the same graph, inputs and settings.
  const std::string command = d.notes[1].substr(d.notes[1].find("driftc compare"));
  CHECK(read(repro / "reproduce.sh") == command + "\n");
  if (!have_nvrtc()) return;
  const Outcome outcome = run(command + " --allow identical", folder);
  CHECK_MESSAGE(outcome.code == 0, outcome.err);
}
