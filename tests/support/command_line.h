// Runs the program that was just built as a user would.
#pragma once

#include <filesystem>
#include <string>

namespace driftc::tests {

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);

struct Outcome {
  int code = -1;
  std::string out, err;
};
// `command` is run by sh in the repository; `driftc` in it is the program, $TMP is `folder`. JSON
// on stdout, or in a file that `command` names as --json $TMP/FILE, is checked against the schema
// of docs/schema that it names.
Outcome run_command(const std::string& command, const TemporaryFolder& folder);

}  // namespace driftc::tests
