#include "tests/filetests/filetest.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace driftc::tests {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(std::string(DRIFTC_SOURCE_DIR) + "/" + path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool is_expectation(const std::string& line) {
  for (const char* word : {"// expect:", "// check:", "// next:", "// not:"})
    if (line.starts_with(word)) return true;
  return false;
}

std::string after(const std::string& line, const std::string& prefix) {
  std::string rest = line.substr(prefix.size());
  return rest.starts_with(" ") ? rest.substr(1) : rest;
}

std::string diff(const std::vector<std::string>& want, const std::vector<std::string>& got) {
  std::string out;
  for (std::size_t i = 0; i < std::max(want.size(), got.size()); ++i) {
    const std::string* w = i < want.size() ? &want[i] : nullptr;
    const std::string* g = i < got.size() ? &got[i] : nullptr;
    if (w != nullptr && g != nullptr && *w == *g) continue;
    if (w != nullptr) out += "  - " + *w + "\n";
    if (g != nullptr) out += "  + " + *g + "\n";
  }
  return out;
}

void bless(const Filetest& test, const std::vector<std::string>& output) {
  std::string text = test.text.substr(0, test.expectation) + "// expect:\n";
  for (const std::string& line : output) text += line.empty() ? "//\n" : "// " + line + "\n";
  std::ofstream(std::string(DRIFTC_SOURCE_DIR) + "/" + test.path, std::ios::binary) << text;
}

}  // namespace

std::vector<std::string> filetest_paths(const std::string& folder) {
  std::vector<std::string> paths;
  const std::filesystem::path root(DRIFTC_SOURCE_DIR);
  const auto base = root / "tests/filetests" / folder;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(base, error))
    if (entry.path().extension() == ".gir")
      paths.push_back(std::filesystem::relative(entry.path(), root).generic_string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

Filetest load_filetest(const std::string& path) {
  Filetest test;
  test.path = path;
  test.text = read(path);
  std::size_t at = 0;
  test.expectation = test.text.size();
  for (const std::string& line : lines_of(test.text)) {
    if (line.starts_with("// test ")) test.commands.push_back(line.substr(8));
    if (is_expectation(line)) {
      test.expectation = at;
      break;
    }
    at += line.size() + 1;
  }
  return test;
}

std::string check_expectations(const Filetest& test, const std::string& output) {
  const std::vector<std::string> got = lines_of(output);
  const std::vector<std::string> expectations = lines_of(test.text.substr(test.expectation));
  const bool blessing = std::getenv("DRIFTC_BLESS") != nullptr;
  if (expectations.empty()) {
    if (blessing) {
      bless(test, got);
      return {};
    }
    return "no expectation; DRIFTC_BLESS=1 writes one";
  }
  if (expectations[0].starts_with("// expect:")) {
    std::vector<std::string> want;
    for (std::size_t i = 1; i < expectations.size(); ++i)
      if (expectations[i].starts_with("//")) want.push_back(after(expectations[i], "//"));
    if (want == got) return {};
    if (blessing) {
      bless(test, got);
      return {};
    }
    return "output differs (- expected, + got); DRIFTC_BLESS=1 rewrites it\n" + diff(want, got);
  }
  std::size_t line = 0;  // first line not yet matched
  for (const std::string& expectation : expectations) {
    auto find = [&](const std::string& text) {
      for (std::size_t i = line; i < got.size(); ++i)
        if (got[i].find(text) != std::string::npos) return i;
      return got.size();
    };
    if (expectation.starts_with("// check:")) {
      const std::string text = after(expectation, "// check:");
      const std::size_t at = find(text);
      if (at == got.size()) return "not found: " + text + "\nin:\n" + output;
      line = at + 1;
    } else if (expectation.starts_with("// next:")) {
      const std::string text = after(expectation, "// next:");
      if (line >= got.size() || got[line].find(text) == std::string::npos)
        return "not on the next line: " + text + "\nin:\n" + output;
      ++line;
    } else if (expectation.starts_with("// not:")) {
      const std::string text = after(expectation, "// not:");
      if (find(text) != got.size())
        return "found, but must not occur: " + text + "\nin:\n" + output;
    } else if (!expectation.empty()) {
      return "unknown expectation line: " + expectation;
    }
  }
  return {};
}

void run_folder(const std::string& folder,
                const std::function<std::string(const std::string&, const Filetest&)>& run) {
  static std::vector<std::pair<std::string, std::vector<std::string>>> cache;
  auto found = std::find_if(cache.begin(), cache.end(), [&](auto& c) { return c.first == folder; });
  if (found == cache.end()) {
    cache.emplace_back(folder, filetest_paths(folder));
    found = cache.end() - 1;
  }
  REQUIRE_MESSAGE(!found->second.empty(), "no filetests in " << folder);
  for (const std::string& path : found->second) {
    CAPTURE(path);
    const Filetest test = load_filetest(path);
    CHECK_MESSAGE(!test.commands.empty(), "no '// test COMMAND' line in " << path);
    for (const std::string& command : test.commands) {
      const std::string message = check_expectations(test, run(command, test));
      CHECK_MESSAGE(message.empty(), path << " (" << command << "): " << message);
    }
  }
}

}  // namespace driftc::tests
