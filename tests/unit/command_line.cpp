#include "tests/support/command_line.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

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

Outcome run_command(const std::string& command, const TemporaryFolder& folder) {
  const TemporaryFolder capture;
  const std::string script =
      "cd '" DRIFTC_SOURCE_DIR "' || exit 99\nTMP='" + folder.path().string() +
      "'\nexport LC_ALL=C\ndriftc() { '" DRIFTC_BINARY "' \"$@\"; }\n" + command + "\n";
  std::ofstream(capture.path() / "script") << script;
  const std::string c = capture.path().string();
  const int status =
      std::system(("sh " + c + "/script >" + c + "/out 2>" + c + "/err </dev/null").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(capture.path() / "out"),
          read_file(capture.path() / "err")};
}

}  // namespace driftc::tests
