#include "frontend/tuning/tuning_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "frontend/report/table.h"

namespace driftc::frontend {
namespace {

using passes::KernelChoice;
using runtime::study::TunedCandidate;
using runtime::study::TunedProblem;

constexpr std::string_view kSchema = "driftc.tuning/1";
constexpr std::size_t kMaxBytes = 64u << 20, kMaxCandidates = 256;
constexpr std::array<std::string_view, 3> kCombines = {"serial", "pairwise", "atomic"};
constexpr std::array<std::string_view, 2> kTimes = {"estimated", "measured"},
                                          kFilters = {"f32", "f64"};
constexpr std::array kAlgorithms = {ir::Algorithm::kDirect,         ir::Algorithm::kImplicitGemm,
                                    ir::Algorithm::kIm2col,         ir::Algorithm::kMatmul,
                                    ir::Algorithm::kWinograd2,      ir::Algorithm::kWinograd4,
                                    ir::Algorithm::kWinograd2Fused, ir::Algorithm::kWinograd4Fused};

std::string name_of(ir::SplitCombine combine) {
  return std::string(kCombines[combine == ir::SplitCombine::kPairwise ? 1
                               : combine == ir::SplitCombine::kAtomic ? 2
                                                                      : 0]);
}

// Reads fields of JSON objects; the first fault is kept with its place.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Result<TuningFile> file(const Json& json) {
    TuningFile out;
    if (object(json, "", {"schema", "key_version", "device", "kernels"})) {
      const std::string schema = text(json["schema"], "schema");
      if (schema != kSchema)
        fail("schema", fmt::format("'{}' is another kind of file", shortened(schema, 60)),
             fmt::format("a tuning file says \"{}\"", kSchema));
      const std::int64_t version =
          integer(json["key_version"], "key_version", 1, std::numeric_limits<int>::max());
      if (version != runtime::study::kTuningKeyVersion)
        fail(
            "key_version",
            fmt::format("it was written by another driftc, whose kernels have version {}", version),
            fmt::format("this one has version {}; name another file and tune anew",
                        runtime::study::kTuningKeyVersion));
      out.device = text(json["device"], "device");
      if (out.device.empty()) fail("device", "it is empty", "the name of a device profile");
      list(json["kernels"], "kernels", std::numeric_limits<std::size_t>::max(),
           [&](const Json& kernel, const std::string& at) {
             if (!object(kernel, at, {"problem", "time", "candidates"})) return;
             const std::string problem = text(kernel["problem"], at + ".problem");
             if (problem.empty()) fail(at + ".problem", "it is empty", "the text of a problem");
             if (!out.problems.emplace(problem, tuned(kernel, at)).second)
               fail(at + ".problem", "this problem is there twice", "keep one of the two");
           });
    }
    if (error_) return *error_;
    return out;
  }

 private:
  TunedProblem tuned(const Json& kernel, const std::string& at) {
    TunedProblem out;
    out.measured = word(kernel["time"], at + ".time", kTimes) == 1;
    list(kernel["candidates"], at + ".candidates", kMaxCandidates,
         [&](const Json& c, const std::string& place) {
           out.candidates.push_back(candidate(c, place));
         });
    if (out.candidates.empty())
      fail(at + ".candidates", "there is none", "the first is the choice");
    return out;
  }

  TunedCandidate candidate(const Json& json, const std::string& at) {
    TunedCandidate out;
    if (!object(json, at,
                {"algorithm", "block", "thread", "vector", "split", "combine", "bias_first",
                 "filters", "us", "error", "registers", "dropped"}))
      return out;
    KernelChoice& c = out.choice;
    std::array<std::string_view, kAlgorithms.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i) names[i] = ir::name_of(kAlgorithms[i]);
    c.algorithm = kAlgorithms[word(json["algorithm"], at + ".algorithm", names)];
    std::array<int, 3> block{};
    std::array<int, 2> thread{};
    integers(json["block"], at + ".block", block);
    integers(json["thread"], at + ".thread", thread);
    const int vector = static_cast<int>(integer(json["vector"], at + ".vector", 1, 4));
    c.schedule = {block[0], block[1], block[2], thread[0], thread[1], vector};
    c.split = static_cast<int>(integer(json["split"], at + ".split", 1, 65535));
    constexpr std::array kWays = {ir::SplitCombine::kSerial, ir::SplitCombine::kPairwise,
                                  ir::SplitCombine::kAtomic};
    c.combine = kWays[word(json["combine"], at + ".combine", kCombines)];
    if (c.split == 1 && c.combine != ir::SplitCombine::kSerial)
      fail(at + ".combine", "there is nothing to combine", "\"serial\" where split is 1");
    c.bias_first = boolean(json["bias_first"], at + ".bias_first");
    const bool f64 = word(json["filters"], at + ".filters", kFilters) == 1;
    c.filters = f64 ? ir::Precision::kF64 : ir::Precision::kF32;
    if (f64 && ir::winograd_tile(c.algorithm) == 0)
      fail(at + ".filters", "only Winograd transforms filters", "\"f32\" for other algorithms");
    out.microseconds = real(json["us"], at + ".us");
    out.error = real(json["error"], at + ".error");
    out.registers = static_cast<int>(integer(json["registers"], at + ".registers", 0, 255));
    if (!json["dropped"].is_null()) out.dropped = text(json["dropped"], at + ".dropped");
    return out;
  }

  void fail(const std::string& at, const std::string& what, const std::string& hint) {
    if (error_) return;
    error_ = input_error(fmt::format("{}: {}{}{}", file_, at, at.empty() ? "" : ": ", what), hint);
  }
  // An object with exactly these fields.
  bool object(const Json& json, const std::string& at,
              std::initializer_list<std::string_view> fields) {
    if (!json.is_object()) {
      fail(at, fmt::format("{} where an object is needed", json.type_name()), "{ ... }");
      return false;
    }
    const std::string prefix = at.empty() ? "" : at + ".";
    std::vector<std::string> names(fields.begin(), fields.end());
    for (const auto& [key, value] : json.items())
      if (std::ranges::find(names, key) == names.end()) {
        fail(prefix + shortened(key, 60), "unknown field", name_hint(key.substr(0, 60), names));
        return false;
      }
    for (const std::string& name : names)
      if (!json.contains(name)) {
        fail(prefix + name, "it is missing", "every field has to be there");
        return false;
      }
    return true;
  }
  void list(const Json& json, const std::string& at, std::size_t most,
            const std::function<void(const Json&, const std::string&)>& each) {
    if (!json.is_array() || json.size() > most) {
      fail(at,
           json.is_array() ? "too many entries"
                           : fmt::format("{} where an array is needed", json.type_name()),
           "[ ... ]");
      return;
    }
    for (std::size_t i = 0; i < json.size() && !error_; ++i)
      each(json[i], fmt::format("{}[{}]", at, i));
  }
  std::string text(const Json& json, const std::string& at) {
    if (json.is_string()) return json.get<std::string>();
    fail(at, fmt::format("{} where a string is needed", json.type_name()), "\"...\"");
    return {};
  }
  bool boolean(const Json& json, const std::string& at) {
    if (json.is_boolean()) return json.get<bool>();
    fail(at, fmt::format("{} where true or false is needed", json.type_name()), "true or false");
    return false;
  }
  std::int64_t integer(const Json& json, const std::string& at, std::int64_t low,
                       std::int64_t high) {
    if (json.is_number_integer() &&
        (!json.is_number_unsigned() ||
         json.get<std::uint64_t>() <= static_cast<std::uint64_t>(high))) {
      const auto value = json.get<std::int64_t>();
      if (value >= low && value <= high) return value;
    }
    fail(at, "no such number is possible", fmt::format("an integer from {} to {}", low, high));
    return low;
  }
  template <std::size_t N>
  void integers(const Json& json, const std::string& at, std::array<int, N>& out) {
    if (!json.is_array() || json.size() != N) {
      fail(at, "its extents are missing", fmt::format("an array of {} integers", N));
      return;
    }
    for (std::size_t i = 0; i < N; ++i) out[i] = static_cast<int>(integer(json[i], at, 0, 4096));
  }
  double real(const Json& json, const std::string& at) {
    if (json.is_number()) {
      const double value = json.get<double>();
      if (std::isfinite(value) && value >= 0) return value;
    }
    if (json == "inf") return std::numeric_limits<double>::infinity();
    fail(at, "no such figure is possible", "a number of at least 0, or \"inf\"");
    return 0;
  }
  template <std::size_t N>
  std::size_t word(const Json& json, const std::string& at,
                   const std::array<std::string_view, N>& words) {
    const std::string given = json.is_string() ? json.get<std::string>() : "";
    const auto found = std::ranges::find(words, given);
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
    fail(at,
         json.is_string() ? fmt::format("'{}' is not known", shortened(given, 60))
                          : fmt::format("{} where a word is needed", json.type_name()),
         fmt::format("one of {}", fmt::join(words, ", ")));
    return 0;
  }

  std::string file_;
  std::optional<Diagnostic> error_;
};

// Line and column of a byte, both from 1.
SourcePlace place_of(const std::string& name, std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const std::size_t line_start =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return {name, static_cast<int>(std::ranges::count(before, '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

}  // namespace

Json candidate_json(const TunedCandidate& candidate) {
  const KernelChoice& c = candidate.choice;
  const ir::Schedule& s = c.schedule;
  return {{"algorithm", std::string(ir::name_of(c.algorithm))},
          {"block", Json::array({s.block_m, s.block_n, s.block_k})},
          {"thread", Json::array({s.thread_m, s.thread_n})},
          {"vector", s.vector},
          {"split", c.split},
          {"combine", name_of(c.combine)},
          {"bias_first", c.bias_first},
          {"filters", c.filters == ir::Precision::kF64 ? "f64" : "f32"},
          {"us", number(candidate.microseconds)},
          {"error", number(candidate.error)},
          {"registers", candidate.registers},
          {"dropped", text_or_null(candidate.dropped)}};
}

std::string tuning_text(const TuningFile& file) {
  Json kernels = Json::array();
  for (const auto& [problem, tuned] : file.problems) {
    Json candidates = Json::array();
    for (const TunedCandidate& c : tuned.candidates) candidates.push_back(candidate_json(c));
    kernels.push_back({{"problem", problem},
                       {"time", tuned.measured ? "measured" : "estimated"},
                       {"candidates", candidates}});
  }
  return json_text({{"schema", std::string(kSchema)},
                    {"key_version", runtime::study::kTuningKeyVersion},
                    {"device", file.device},
                    {"kernels", kernels}});
}

Result<TuningFile> parse_tuning(std::string_view text, const std::string& name) {
  if (text.size() > kMaxBytes)
    return input_error(
        fmt::format("{}: {} bytes are too many for a tuning file", name, text.size()),
        fmt::format("at most {}", kMaxBytes));
  try {
    return Reader(name).file(Json::parse(text));
  } catch (const Json::parse_error& error) {
    Diagnostic out = input_error("this is not JSON", "a tuning file is written by --tuning FILE");
    out.place = place_of(name, text, error.byte == 0 ? 0 : error.byte - 1);
    return out;
  } catch (const Json::out_of_range&) {
    return input_error(fmt::format("{}: a number in it is larger than any double", name),
                       "a tuning file is written by --tuning FILE");
  }
}

}  // namespace driftc::frontend
