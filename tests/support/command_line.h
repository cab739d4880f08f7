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
// `command` is run by sh in the repository; `driftc` in it is the program, $TMP is `folder`. GPUs
// of this machine are hidden from it by CUDA_VISIBLE_DEVICES=-1, a variable of the CUDA driver
// (the fake one reads it, too): a command that wants one sets it to 0. JSON on stdout, or in a file
// that `command` names as --json $TMP/FILE, has to follow the schema of docs/schema that it names.
Outcome run_command(const std::string& command, const TemporaryFolder& folder);

}  // namespace driftc::tests
