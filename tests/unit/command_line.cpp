#include "tests/support/command_line.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/unit/report_schema.h"

namespace driftc::tests {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "driftc-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  fs::remove_all(path_, error);
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

namespace {

// A document that names a schema of docs/schema has to follow it; parts of documents and files that
// are not ours are left alone.
void check_schema(const std::string& text, const std::string& command) {
  if (!text.starts_with('{')) return;
  const frontend::Json json = frontend::Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.contains("schema") || !json["schema"].is_string()) return;
  const std::string name = json["schema"];  // driftc.NAME/VERSION
  const std::size_t dot = name.find('.'), slash = name.find('/');
  if (!name.starts_with("driftc.") || slash == std::string::npos) return;
  const fs::path file =
      fs::path(DRIFTC_SOURCE_DIR) / "docs/schema" /
      (name.substr(dot + 1, slash - dot - 1) + "-" + name.substr(slash + 1) + ".json");
  REQUIRE_MESSAGE(fs::exists(file), command << "\n" << name << ": no " << file.string());
  const std::string faults = schema_faults(frontend::Json::parse(read_file(file)), json);
  CHECK_MESSAGE(faults.empty(), command << "\n" << name << ": " << faults);
}

}  // namespace

Outcome run_command(const std::string& command, const TemporaryFolder& folder) {
  const TemporaryFolder capture;
  const std::string script =
      "cd '" DRIFTC_SOURCE_DIR "' || exit 99\nTMP='" + folder.path().string() +
      "'\nexport LC_ALL=C CUDA_VISIBLE_DEVICES=-1\ndriftc() { '" DRIFTC_BINARY "' \"$@\"; }\n" +
      command + "\n";
  std::ofstream(capture.path() / "script") << script;
  const std::string c = capture.path().string();
  const int status =
      std::system(("sh " + c + "/script >" + c + "/out 2>" + c + "/err </dev/null").c_str());
  Outcome outcome = {WIFEXITED(status) ? WEXITSTATUS(status) : -1,
                     read_file(capture.path() / "out"), read_file(capture.path() / "err")};
  check_schema(outcome.out, command);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    if (entry.is_regular_file() &&
        command.find("--json $TMP/" + entry.path().filename().string()) != std::string::npos)
      check_schema(read_file(entry.path()), command);
  return outcome;
}

}  // namespace driftc::tests
