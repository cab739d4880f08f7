// What a report says about a comparison beyond the PairReport: how it was asked for, and what
// follows from it.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "passes/inductor.h"
#include "runtime/study/cudnn_model.h"
#include "runtime/study/report.h"

namespace driftc::frontend {

struct CompareView {
  std::string model;  // as given on the command line
  std::string mode;
  std::string passes_given;  // the text of --passes, "" when it was not given
  std::vector<std::pair<std::string, std::string>>
      pass_options;                                 // set by --set: "pass.option", value
  std::vector<passes::InductorSetting> inductor;    // of --inductor
  std::vector<std::string> fallback;                // asked for by --fallback
  std::optional<std::int64_t> weight_seed;          // of --reseed-weights
  std::optional<runtime::study::CudnnModel> cudnn;  // the eager arm models it; empty: interpreter
  std::string conv_precision = "f32", matmul_precision = "f32";  // of the compiled arm
  std::string node_precision;           // "NODE=f64", "" when no node was named
  std::string eager_precision = "f32";  // "f32", or "conv=tf32:rna,matmul=f32"
  std::string device, executor;         // "h200"; "ptx" or "interpreter"
  std::string reference = "f64";        // "" when the arm did not run
  std::string compiler;                 // "nvrtc 13.0", "recorded", ""
  std::vector<std::string> allowed;
  int exit_code = 0;
  std::vector<std::string> failures;  // why the exit code is 1, one sentence each
  bool timings = false;
};

}  // namespace driftc::frontend
