// The fuzz targets: what must hold for any bytes a file or an argument may contain. A violation
// ends the program (assertion, sanitizer, signal). Two drivers run them: libFuzzer (libfuzzer.cpp,
// preset `fuzz`) and a seeded loop (fuzz_test.cpp, every build). To add a target: a function in a
// header of its own, a row in targets.cpp, a folder corpus/NAME with at least one file that is
// accepted.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace driftc::fuzz {

struct Target {
  std::string_view name;  // of the folder below corpus/
  void (*run)(std::string_view bytes);
  bool (*accepts)(std::string_view bytes);  // the target reads it without an error
  std::vector<std::string_view> words;      // pieces that a mutation may insert
};
std::span<const Target> targets();

// The corpus of a target, sorted by file name. Files named crash-* once broke it.
struct CorpusFile {
  std::string path, bytes;
};
std::vector<CorpusFile> corpus(const Target& target);

}  // namespace driftc::fuzz
