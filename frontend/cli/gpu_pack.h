// The folder that `./dev gpu-pack` builds and `driftc gpu-check` works from: everything that checks
// on a GPU machine need, so that nothing is compiled or downloaded there.
//   driftc           the program, glibc dynamic, everything else static
//   kernels/         PTX of every kernel of the corpus
//   models/          networks with an input (NAME.onnx, NAME.input.npy)
//   tensorcore/      captured vectors, where there were any
//   torch/           the networks for PyTorch: NAME.json, NAME.weights.npy, outputs.py
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frontend/cli/command.h"
#include "frontend/cli/session.h"
#include "runtime/cuda/cudnn_heuristics.h"

namespace driftc::frontend {

// One network under one setting.
struct CorpusEntry {
  std::string_view model;  // "zoo:NAME", or a file below models/
  std::string_view flags;  // of compare, words with ' ' between them
};
std::span<const CorpusEntry> gpu_corpus();
// The networks that PyTorch and cuDNN run, by file name without ".onnx".
std::span<const std::string_view> packed_networks();

std::string corpus_name(const CorpusEntry& entry);  // "kernels zoo:mlp --mode default"
// The entry as the command line would have it, with the pack's model and its input.
Arguments corpus_arguments(const CorpusEntry& entry, const std::string& pack);
// Whether the model of the entry is in the pack (zoo models always are).
bool has_model(const CorpusEntry& entry, const std::string& pack);

// The convolutions of the packed networks that cuDNN would run, each kind once: "cuDNN rfb-320
// NODE", the largest first, at most 12 of a network. Empty without the models.
struct PackedConvolution {
  std::string name;
  runtime::cuda::ConvProblem problem;
};
Result<std::vector<PackedConvolution>> packed_convolutions(const std::string& pack,
                                                           const Context& context);
// The setting under which driftc runs them: one kernel each.
Result<runtime::study::PairSettings> convolution_settings(const Settings& environment);

// Fills kernels/ (needs NVRTC) for the entries whose name holds `only`, and torch/. The number of
// kernels there afterwards.
Result<std::size_t> prepare_pack(const std::string& pack, const std::string& only,
                                 const Context& context);

}  // namespace driftc::frontend
