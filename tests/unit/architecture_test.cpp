// Holds the arrows of docs/architecture (shared design, "Seven folders"): who may include whom.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

struct Include {
  std::string file, header;
  int line;
};

std::vector<Include> includes_of(const std::string& folder) {
  std::vector<Include> out;
  const fs::path root(DRIFTC_SOURCE_DIR);
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const auto extension = entry.path().extension();
    if (extension != ".h" && extension != ".cpp" && extension != ".def") continue;
    std::ifstream in(entry.path());
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (!line.starts_with("#include \"")) continue;
      const std::size_t end = line.find('"', 10);
      out.push_back(
          {fs::relative(entry.path(), root).generic_string(), line.substr(10, end - 10), number});
    }
  }
  return out;
}

std::string top(const std::string& path) { return path.substr(0, path.find('/')); }
// "runtime/eager" for runtime/eager/x.h, "runtime" for a file directly in runtime/.
std::string second(const std::string& path) {
  const std::size_t a = path.find('/'), b = path.find('/', a + 1);
  return b == std::string::npos ? top(path) : path.substr(0, b);
}

}  // namespace

TEST_CASE("includes follow the arrows between folders") {
  const std::map<std::string, std::set<std::string>> allowed = {
      {"ir", {"ir"}},
      {"passes", {"passes", "ir"}},
      {"codegen", {"codegen", "ir"}},
      {"runtime", {"runtime", "codegen", "passes", "ir"}},
      {"frontend", {"frontend", "runtime", "codegen", "passes", "ir"}}};
  for (const auto& [folder, targets] : allowed) {
    const auto includes = includes_of(folder);
    REQUIRE_MESSAGE(!includes.empty(), folder << " has no includes: is the folder there?");
    for (const Include& i : includes) {
      CHECK_MESSAGE(i.header.find('/') != std::string::npos,
                    i.file << ":" << i.line << ": includes carry the folder: " << i.header);
      CHECK_MESSAGE(targets.contains(top(i.header)),
                    i.file << ":" << i.line << ": " << folder << " must not include " << i.header);
    }
  }
}

TEST_CASE("inside runtime: study sees the others, compare only tensors and contracts") {
  const std::map<std::string, std::set<std::string>> forbidden = {
      {"runtime/compare",
       {"runtime/eager", "runtime/ptx", "runtime/cuda", "runtime/study", "passes", "codegen"}},
      {"runtime/eager",
       {"runtime/ptx", "runtime/cuda", "runtime/study", "runtime/compare", "passes", "codegen"}},
      {"runtime/ptx",
       {"runtime/eager", "runtime/cuda", "runtime/study", "runtime/compare", "passes", "codegen"}},
      // What eager, the exact reference and bounds share: plans of sums, windows, panels.
      {"runtime/numeric",
       {"runtime/eager", "runtime/ptx", "runtime/study", "runtime/compare", "passes"}},
      {"runtime/sums",
       {"runtime/eager", "runtime/numeric", "runtime/ptx", "runtime/study", "runtime/compare",
        "passes"}}};
  for (const Include& i : includes_of("runtime")) {
    const auto row = forbidden.find(second(i.file));
    if (row == forbidden.end()) continue;
    CHECK_MESSAGE((!row->second.contains(second(i.header)) && !row->second.contains(top(i.header))),
                  i.file << ":" << i.line << ": must not include " << i.header);
  }
}

TEST_CASE("every library is built without contraction and without fast-math") {
  std::ifstream in(std::string(DRIFTC_SOURCE_DIR) + "/CMakeLists.txt");
  std::string text((std::istreambuf_iterator<char>(in)), {});
  CHECK(text.find("-ffp-contract=off -fno-fast-math") != std::string::npos);
  for (const char* bad : {"-march=", "-ffast-math", "-Ofast", "-funsafe"})
    CHECK_MESSAGE(text.find(bad) == std::string::npos, bad);
}
