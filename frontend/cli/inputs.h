// --input: what the user says about graph inputs, before and after the model is known.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/support/result.h"
#include "ir/support/rng.h"
#include "ir/tensor.h"

namespace driftc::frontend {

// Where the elements of one input come from.
struct InputSource {
  std::string text;  // as the report names it: "random:0", or the path
  bool generated = false;
  Distribution distribution = Distribution::kRandom;
  std::uint64_t seed = 0;
};
// A file name, or DISTRIBUTION[:SEED]. Errors: a seed that is no number, an unknown distribution.
Result<InputSource> parse_input_source(const std::string& text);

// A graph input as the model declares it; an extent of -1 is open.
struct InputDeclaration {
  std::string name;
  ir::DType dtype = ir::DType::kF32;
  std::vector<std::int64_t> extents;
  bool open_rank = false;  // even the rank is open; extents is empty
};

struct ResolvedInput {
  InputDeclaration declaration;
  InputSource source;
  ir::Shape shape;  // all extents known
};

// Matches `--input` texts (NAME=WHAT, or WHAT alone for a model with one input) with the declared
// inputs and fixes open extents: from the file; the first extent from the batch or from another
// input's file; 1 where nothing says more. Inputs that nobody names are random:0. Errors: unknown
// or repeated names, files whose type or shape does not fit, --batch against the model.
Result<std::vector<ResolvedInput>> resolve_inputs(const std::vector<InputDeclaration>& declared,
                                                  const std::vector<std::string>& given,
                                                  std::optional<std::int64_t> batch);

// Reads or generates the elements.
Result<ir::Tensor> make_input(const ResolvedInput& input);

}  // namespace driftc::frontend
