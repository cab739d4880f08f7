// A filetest: header lines "// test COMMAND", a graph in text IR, and expectations after it.
//   // expect:          the lines that follow, each behind "// ", are the exact output
//   // check: TEXT      TEXT occurs in the output, after the previous check
//   // next: TEXT       TEXT occurs on the line after the previous check
//   // not: TEXT        TEXT does not occur after the previous check
// DRIFTC_BLESS=1 rewrites `expect` blocks. Expectations are matched in the order of the file.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace driftc::tests {

struct Filetest {
  std::string path;                   // relative to the repository
  std::vector<std::string> commands;  // "passes=dce", "roundtrip", ...
  std::string text;                   // the whole file (the parser skips comments)
  std::size_t expectation = 0;        // byte offset of the first expectation line
};

std::vector<std::string> filetest_paths(const std::string& folder);
Filetest load_filetest(const std::string& path);
// Compares output with the expectations; returns "" or a message with a diff. Blesses when asked.
std::string check_expectations(const Filetest& test, const std::string& output);
// Runs every file of tests/filetests/FOLDER as a doctest subcase through `run` (command, text,
// path).
void run_folder(const std::string& folder,
                const std::function<std::string(const std::string& command, const Filetest&)>& run);

}  // namespace driftc::tests
