#include "frontend/cli/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "frontend/npy/npy.h"

namespace driftc::frontend {
namespace {

struct Generator {
  std::string_view name;
  Distribution distribution;
  bool seeded;
};
constexpr std::array kGenerators = {Generator{"random", Distribution::kRandom, true},
                                    Generator{"uniform", Distribution::kUniform, true},
                                    Generator{"relu", Distribution::kRelu, true},
                                    Generator{"integers", Distribution::kIntegers, true},
                                    Generator{"ones", Distribution::kOnes, false}};

constexpr std::string_view kAccepted =
    "FILE.npy, random:SEED, uniform:SEED, relu:SEED, integers:SEED or ones";

// Inputs larger than this are refused before memory is taken: 4 GiB of f32.
constexpr std::int64_t kMaxInputElements = std::int64_t{1} << 30;

std::string extents_text(const std::vector<std::int64_t>& extents) {
  std::string out = "[";
  for (std::size_t i = 0; i < extents.size(); ++i)
    out += (i ? "," : "") + (extents[i] < 0 ? std::string("?") : std::to_string(extents[i]));
  return out + "]";
}

std::vector<std::string> names_of(const std::vector<InputDeclaration>& declared) {
  std::vector<std::string> names;
  for (const InputDeclaration& d : declared) names.push_back(d.name);
  return names;
}

// Splits NAME=WHAT. The longest input name that fits wins, so that a name may hold '='.
Result<std::pair<std::size_t, std::string>> split_given(
    const std::vector<InputDeclaration>& declared, const std::string& text) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const std::string& name = declared[i].name;
    if (text.size() > name.size() && text.starts_with(name) && text[name.size()] == '=' &&
        (!best || name.size() > declared[*best].name.size()))
      best = i;
  }
  if (best) return std::pair{*best, text.substr(declared[*best].name.size() + 1)};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    if (declared.size() == 1) return std::pair{std::size_t{0}, text};
    return input_error(
        fmt::format("--input {} names no input, and the model has {}", text, declared.size()),
        fmt::format("write NAME={}; {}", text, name_hint("", names_of(declared))));
  }
  const std::string name = text.substr(0, equals);
  return input_error(fmt::format("the model has no input '{}'", name),
                     name_hint(name, names_of(declared)));
}

Diagnostic does_not_fit(const ResolvedInput& input, const npy::Header& header) {
  return input_error(fmt::format("input '{}' is {}{}, but '{}' holds {}{}", input.declaration.name,
                                 ir::name_of(input.declaration.dtype),
                                 extents_text(input.declaration.extents), input.source.text,
                                 ir::name_of(header.dtype), ir::to_string(header.shape)));
}

bool dtype_fits(ir::DType declared, ir::DType file) {
  return declared == file || (declared == ir::DType::kF16 && file == ir::DType::kF32);
}

Result<ir::Shape> shape_from_file(const ResolvedInput& input) {
  DRIFTC_TRY(header, npy::read_npy_header(input.source.text));
  const std::vector<std::int64_t>& want = input.declaration.extents;
  bool fits = input.declaration.open_rank || header.shape.rank() == want.size();
  for (std::size_t i = 0; fits && i < want.size(); ++i)
    fits = want[i] < 0 || want[i] == header.shape[i];
  if (!fits) return does_not_fit(input, header);
  if (!dtype_fits(input.declaration.dtype, header.dtype)) {
    Diagnostic d = does_not_fit(input, header);
    d.hint = fmt::format("numpy: np.save(FILE, array.astype('{}'))",
                         input.declaration.dtype == ir::DType::kI64   ? "int64"
                         : input.declaration.dtype == ir::DType::kF64 ? "float64"
                                                                      : "float32");
    return d;
  }
  return header.shape;
}

}  // namespace

Result<InputSource> parse_input_source(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string word = text.substr(0, colon);
  for (const Generator& generator : kGenerators) {
    if (word != generator.name) continue;
    InputSource source{text, true, generator.distribution, 0};
    if (!generator.seeded) {
      if (colon != std::string::npos) return input_error(fmt::format("'{}' takes no seed", word));
      return source;
    }
    if (colon == std::string::npos) {
      source.text += ":0";
      return source;
    }
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    auto [stop, status] = std::from_chars(begin, end, source.seed);
    if (begin == end || stop != end || status != std::errc())
      return input_error(fmt::format("'{}': the seed is not an integer from 0 to 2^64-1", text));
    return source;
  }
  const bool like_file = text.ends_with(".npy") || text.find('/') != std::string::npos;
  std::vector<std::string> words;
  for (const Generator& generator : kGenerators) words.emplace_back(generator.name);
  if (text.empty() || (!like_file && colon != std::string::npos)) {
    const std::string near = nearest_name(word, words);
    return input_error(
        fmt::format("unknown input '{}'", text),
        near.empty() ? std::string(kAccepted) : fmt::format("did you mean '{}'?", near));
  }
  return InputSource{text, false, Distribution::kRandom, 0};
}

Result<std::vector<ResolvedInput>> resolve_inputs(const std::vector<InputDeclaration>& declared,
                                                  const std::vector<std::string>& given,
                                                  std::optional<std::int64_t> batch) {
  std::vector<std::optional<InputSource>> sources(declared.size());
  for (const std::string& text : given) {
    DRIFTC_TRY(split, split_given(declared, text));
    if (sources[split.first])
      return input_error(fmt::format("input '{}' is given twice", declared[split.first].name));
    DRIFTC_TRY(source, parse_input_source(split.second));
    sources[split.first] = source;
  }

  std::vector<ResolvedInput> out;
  std::optional<std::int64_t>
      file_batch;  // first extent of the first file whose input leaves it open
  for (std::size_t i = 0; i < declared.size(); ++i) {
    ResolvedInput input{declared[i], sources[i].value_or(InputSource{"random:0", true}), {}};
    if (!input.source.generated) {
      DRIFTC_TRY(shape, shape_from_file(input));
      input.shape = shape;
      const bool open_batch = !declared[i].extents.empty() && declared[i].extents[0] < 0;
      if (!file_batch && open_batch) file_batch = shape[0];
      if (batch && open_batch && shape[0] != *batch)
        return input_error(fmt::format("--batch {} does not fit '{}', which holds {} samples",
                                       *batch, input.source.text, shape[0]),
                           "--batch is for generated inputs; leave it out");
    }
    out.push_back(std::move(input));
  }
  bool open = declared.empty();
  for (ResolvedInput& input : out) {
    const std::vector<std::int64_t>& extents = input.declaration.extents;
    open = open || (!extents.empty() && extents[0] < 0) ||
           (batch && !extents.empty() && extents[0] == *batch);
    if (!input.source.generated) continue;
    if (input.declaration.open_rank)
      return input_error(
          fmt::format("the model leaves the shape of input '{}' open", input.declaration.name),
          fmt::format("--input {}=FILE.npy fixes it", input.declaration.name));
    std::vector<std::int64_t> shape = extents;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] < 0) {
        if (axis > 0)
          return input_error(
              fmt::format("input '{}' is {}: only the batch can be open for a generated input",
                          input.declaration.name, extents_text(extents)),
              fmt::format("--input {}=FILE.npy fixes the other extents", input.declaration.name));
        shape[axis] = batch.value_or(file_batch.value_or(1));
      }
    input.shape = ir::Shape(std::move(shape));
    const std::optional<std::int64_t> elements = input.shape.checked_elements();
    if (!elements || *elements > kMaxInputElements)
      return input_error(fmt::format("input '{}' would have shape {}, more than 2^30 elements",
                                     input.declaration.name, ir::to_string(input.shape)));
  }
  if (batch && !open)
    return input_error(fmt::format("--batch {} does not fit the model: its batch is fixed by {}{}",
                                   *batch, declared[0].name, extents_text(declared[0].extents)));
  return out;
}

Result<ir::Tensor> make_input(const ResolvedInput& input) {
  const InputDeclaration& declaration = input.declaration;
  if (!input.source.generated) {
    DRIFTC_TRY(tensor, npy::read_npy(input.source.text));
    return tensor.dtype() == ir::DType::kF16 ? tensor.converted(ir::DType::kF32) : tensor;
  }
  if (declaration.dtype == ir::DType::kI64)
    return input_error(
        fmt::format("input '{}' is i64: a generated input has floats", declaration.name),
        fmt::format("--input {}=FILE.npy", declaration.name));
  ir::Tensor tensor(ir::DType::kF32, input.shape);
  fill(input.source.distribution, input.source.seed, declaration.name, tensor.data_mut<float>());
  return declaration.dtype == ir::DType::kF64 ? tensor.converted(ir::DType::kF64) : tensor;
}

}  // namespace driftc::frontend
