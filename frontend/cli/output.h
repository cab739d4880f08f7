// Everything that leaves the process. Files appear whole or not at all: they are written beside
// their place and renamed. Data goes to stdout; progress, notes and errors go to stderr.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "frontend/cli/interrupt.h"
#include "ir/support/result.h"

namespace driftc::frontend {

Result<std::string> read_file(const std::string& path);
Result<void> write_file(const std::string& path, std::string_view bytes);
// Whether write_file could work: said before long work, so that its result is not lost. "" and "-"
// are fine.
Result<void> check_can_write(const std::string& path);

// Names of values as file names: every byte outside [A-Za-z0-9_.-] becomes '_', and a name that is
// taken gets .2, .3, ... The same value always gets the same file name.
class FileNames {
 public:
  const std::string& of(const std::string& value_name);

 private:
  std::unordered_map<std::string, std::string> by_value_;
  std::unordered_map<std::string, std::size_t> taken_;
};

// Several files for one folder. They wait in a hidden folder inside it; `commit` moves them to
// their places, anything else leaves nothing behind (folders that were made for it included).
class OutputFolder {
 public:
  static Result<std::unique_ptr<OutputFolder>> create(const std::string& path);
  ~OutputFolder();
  Result<void> add(const std::string& relative_path, std::string_view bytes);
  Result<void> commit();

 private:
  explicit OutputFolder(std::string path);
  std::string path_;
  std::vector<std::unique_ptr<Temporary>>
      made_;  // folders that did not exist before, outermost first
  std::unique_ptr<Temporary> staging_;
};

// stdout and stderr of this run. `print` collects nothing: what is printed is out, or the run
// fails.
struct Terminal {
  bool stdout_is_terminal = false, stderr_is_terminal = false;
  static Terminal detect();
};

// Writes `text` to stdout (to stderr with `to_stderr`); an error when it cannot be written (disk
// full).
Result<void> print(std::string_view text, bool to_stderr = false);
// One line on stderr: "driftc: TEXT".
void note(std::string_view text);

// An argument as a shell would need it: quoted where it holds anything but harmless characters.
std::string shell_quoted(const std::string& argument);

// A line that replaces itself, on a terminal only. Thread-safe enough for one reporter at a time.
class Progress {
 public:
  explicit Progress(bool enabled) : enabled_(enabled) {}
  ~Progress() { clear(); }
  void show(const std::string& line);
  void clear();

 private:
  bool enabled_, shown_ = false;
};

}  // namespace driftc::frontend
