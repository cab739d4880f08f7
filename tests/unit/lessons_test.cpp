// docs/lessons: every command of a page is run, and the lines shown below it must be printed, in
// their order and, unless "..." stands between, one after the other.
#include <doctest/doctest.h>

#include <sstream>

#include "tests/support/command_line.h"
#include "tests/support/services.h"

using namespace driftc;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// "" or the shown line that is missing.
std::string missing_line(const std::vector<std::string>& shown,
                         const std::vector<std::string>& printed) {
  std::size_t next = 0;
  bool anywhere = false;
  for (const std::string& line : shown) {
    if (line == "...") {
      anywhere = true;
      continue;
    }
    std::size_t at = next;
    while (anywhere && at < printed.size() && printed[at] != line) ++at;
    if (at >= printed.size() || printed[at] != line) return line;
    next = at + 1;
    anywhere = false;
  }
  return "";
}

}  // namespace

TEST_CASE("lessons: each command prints what its page shows") {
  if (!tests::kernels_available("lessons")) return;
  const tests::TemporaryFolder folder;
  int commands = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DRIFTC_SOURCE_DIR "/docs/lessons")) {
    if (entry.path().extension() != ".md") continue;
    std::string command;
    std::vector<std::string> shown;
    for (const std::string& line : lines_of(tests::read_file(entry.path()))) {
      if (line.starts_with("$ ")) {
        command = line.substr(2);
        shown.clear();
      } else if (line.starts_with("```") && !command.empty()) {
        const tests::Outcome outcome = tests::run_command(command, folder);
        const std::string missing =
            missing_line(shown, lines_of(shown[0].starts_with("error:")
                                             ? outcome.err.substr(outcome.err.find("error:"))
                                             : outcome.out));
        CHECK_MESSAGE(missing.empty(), entry.path().filename().string()
                                           << ": " << command << "\nnot printed: " << missing
                                           << "\nin:\n"
                                           << outcome.out << outcome.err);
        command.clear();
        ++commands;
      } else if (!command.empty()) {
        shown.push_back(line);
      }
    }
  }
  CHECK(commands >= 18);
}
