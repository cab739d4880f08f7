// tensorcore_check FOLDER: every captured output of real tensor cores in FOLDER, through the block
// model and through mma.sync in the PTX executor; a line per file. Exit 1 where a bit differs.
#include <fmt/format.h>

#include <cstdio>

#include "runtime/study/captures.h"

int main(int argc, char** argv) {
  using namespace driftc;
  if (argc != 2) {
    fmt::print(stderr, "usage: tensorcore_check FOLDER\n");
    return 2;
  }
  const auto captures = runtime::read_captures(argv[1]);
  if (!captures.ok()) {
    fmt::print(stderr, "{}\n", captures.error().render());
    return 2;
  }
  runtime::ThreadPool pool(1);
  std::int64_t wrong = 0, outputs = 0;
  fmt::print("  {:<16} {:<7} {:>8} {:>14} {:>12} {:>10}\n", "file", "arch", "outputs",
             "scalar model", "fast model", "mma.sync");
  for (const runtime::Capture& capture : *captures) {
    const auto result = runtime::study::check_capture(capture, pool);
    if (!result.ok()) {
      fmt::print(stderr, "{}\n", result.error().render());
      return 2;
    }
    fmt::print("  {:<16} {:<7} {:>8} {:>14} {:>12} {:>10}\n", capture.file, capture.arch,
               result->outputs, result->wrong_scalar, result->wrong_lanes, result->wrong_mma);
    wrong += result->wrong_scalar + result->wrong_lanes + result->wrong_mma;
    outputs += result->outputs;
  }
  fmt::print("tensor cores: {} files, {} outputs, {} mismatches\n", captures->size(), outputs,
             wrong);
  return wrong == 0 ? 0 : 1;
}
