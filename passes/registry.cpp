#include "passes/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "passes/bias_first.h"
#include "passes/canonicalize.h"
#include "passes/choose_algorithm.h"
#include "passes/choose_tiling.h"
#include "passes/contract.h"
#include "passes/conv1x1_as_matmul.h"
#include "passes/dce.h"
#include "passes/fallback.h"
#include "passes/fold_batchnorm.h"
#include "passes/fold_constants.h"
#include "passes/fuse_epilogue.h"
#include "passes/fuse_pointwise.h"
#include "passes/layout_channels_last.h"
#include "passes/match_order.h"
#include "passes/precision.h"
#include "passes/split_k.h"

namespace driftc::passes {
namespace {

constexpr std::string_view kSwitch = "on|off";

constexpr std::array kFoldBatchnorm = {
    OptionSpec{"in", "f64", "f64|f32", "precision of the folding arithmetic; frameworks use f32"}};
constexpr std::array kLayout = {
    OptionSpec{"force", "off", kSwitch, "skip the whole-graph decision"}};
constexpr std::array kChooseAlgorithm = {
    OptionSpec{"algorithm", "auto", "auto|tuned|direct|implicit_gemm|im2col|winograd2|winograd4",
               "of every convolution it fits; auto: winograd2 where it saves products; tuned: the "
               "tuner's choice"},
    OptionSpec{"nodes", "all", "all|NODE,...",
               "the convolutions meant; one that does not fit is "
               "an error then"},
    OptionSpec{"form", "phases", "phases|fused", "Winograd in four kernels, or in two; same bits"},
    OptionSpec{"filters", "f32", "f32|f64", "arithmetic of Winograd's filter transform"}};
constexpr std::array kSplitK = {
    OptionSpec{"slices", "auto", "auto|tuned|COUNT",
               "slices of every reduction; auto: what fills the device; tuned: the tuner's choice"},
    OptionSpec{"combine", "serial", "serial|pairwise|atomic", "how slices are added"},
    OptionSpec{"min-k", "512", "COUNT", "shortest reduction that auto splits"}};
constexpr std::array kFusePointwise = {
    OptionSpec{"emulate-casts", "off", kSwitch, "round between fused ops as eager does"}};
constexpr std::array kFuseEpilogue = {
    OptionSpec{"emulate-casts", "off", kSwitch, "round between fused ops as eager does"},
    OptionSpec{"f32-only", "off", kSwitch, "leave kernels with 16-bit values alone"}};
constexpr std::array kBiasFirst = {
    OptionSpec{"when", "always", "always|tuned", "wherever it fits, or where the tuner chose it"}};
constexpr std::array kChooseTiling = {
    OptionSpec{"block", "auto", "auto|tuned|MxNxK",
               "tile of every conv and matmul kernel; tuned: the tuner's choice"},
    OptionSpec{"batch-invariant", "off", kSwitch, "one order for all batch sizes and devices"},
    OptionSpec{"accumulate", "f32", "f32|kahan|f64", "arithmetic of sums"}};

using E = NumericEffect;
using P = Phase;

// In: strict, default, max-autotune, --passes=all.
constexpr Presets kAlways{true, true, true, true}, kStrictTunedAndAll{true, false, true, true};
constexpr Presets kDefaultTunedAndAll{false, true, true, true}, kAll{false, false, false, true};
constexpr Presets kTunedAndAll{false, false, true, true};

// name, what it does,
// phase, effect, when it has that effect, what PyTorch calls it beside inductor.def, presets,
// options, function.
// clang-format off
constexpr std::array kPasses = {
    PassInfo{"canonicalize",
             "removes what changes nothing; constant adds become biases, zero padding joins "
             "convolutions",
             P::kGraph, E::kBitExact, "", "", kAlways, {}, canonicalize},
    PassInfo{"dce", "drops nodes that no output needs",
             P::kGraph, E::kBitExact, "", "", kAlways, {}, eliminate_dead_nodes},
    PassInfo{"fold-constants", "computes what depends on constants only, in the interpreter",
             P::kGraph, E::kBitExact, "", "", kAlways, {}, fold_constants},
    PassInfo{"fold-batchnorm", "batch normalisation into the weights of the convolution before it",
             P::kGraph, E::kChangesRounding, "", "", kAll, kFoldBatchnorm, fold_batchnorm},
    PassInfo{"layout-channels-last", "convolution results stored NHWC, channels summed innermost",
             P::kGraph, E::kReassociates, "crs becomes rsc", "", kDefaultTunedAndAll,
             kLayout, layout_channels_last},
    PassInfo{"conv1x1-as-matmul",
             "1x1 convolutions (stride 1, pad 0, dilation 1, groups 1) as matrix products",
             P::kGraph, E::kReassociates,
             "where the matmul splits k; ChangesPrecision where the precision flags of conv and "
             "matmul differ",
             "", kTunedAndAll, {}, conv1x1_as_matmul},
    PassInfo{"choose-algorithm",
             "convolutions as direct sums, implicit GEMM, im2col, Winograd F(2,3) or F(4,3)",
             P::kKernel, E::kChangesAlgorithm, "BitExact between direct, implicit_gemm and im2col",
             "cuDNN engine", kTunedAndAll, kChooseAlgorithm, choose_algorithm},
    PassInfo{"precision",
             "--precision: tf32, f16/bf16 autocast or f64, by the op as it stands",
             P::kKernel, E::kChangesPrecision, "", "allow_tf32, autocast", {}, {}, precision},
    PassInfo{"split-k", "long reductions in slices that run side by side",
             P::kKernel, E::kReassociates, "", "split-K", kTunedAndAll, kSplitK, split_k},
    PassInfo{"fuse-pointwise", "chains of add, sub, mul, div, relu, clip, batch_norm in one kernel",
             P::kKernel, E::kChangesRounding, "BitExact in f32 without contraction",
             "pointwise fusion", kAlways, kFusePointwise, fuse_pointwise},
    PassInfo{"fuse-epilogue",
             "bias, add, mul, relu, clip, batch_norm into the convolution or matmul before them",
             P::kKernel, E::kChangesRounding, "BitExact in f32 without contraction",
             "", kStrictTunedAndAll, kFuseEpilogue, fuse_epilogue},
    PassInfo{"bias-first", "the bias starts the accumulator",
             P::kKernel, E::kReassociates, "", "addmm", kTunedAndAll, kBiasFirst, bias_first},
    PassInfo{"contract", "mul and add become fma in pointwise code and epilogues",
             P::kKernel, E::kContracts, "", "fmad", kDefaultTunedAndAll, {}, contract},
    PassInfo{"choose-tiling", "block and thread tiles; small matmul grids split k",
             P::kKernel, E::kReassociates,
             "only where k is split; ChangesPrecision with accumulate=f64",
             "tiles of templates", kAlways, kChooseTiling, choose_tiling},
    PassInfo{"match-order", "mitigation: every kernel back to eager's contract",
             P::kKernel, E::kReassociates, "towards eager", "(none exists)",
             {true, false, false, false}, {}, match_order},
    PassInfo{"fallback", "the nodes named by --fallback run in the interpreter",
             P::kKernel, E::kChangesRounding, "the opposite of what it undoes", "graph break",
             {}, {}, fallback}};
// clang-format on

const OptionSpec* find_option(std::string_view key) {
  const std::size_t dot = key.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const PassInfo* pass = find_pass(kPasses, key.substr(0, dot));
  if (pass == nullptr) return nullptr;
  for (const OptionSpec& option : pass->options)
    if (option.name == key.substr(dot + 1)) return &option;
  return nullptr;
}

// A count from 1 to 1048576 at the start of `text`, which is shortened; empty otherwise.
std::optional<int> take_count(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1 || value > (1 << 20)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

bool matches(std::string_view alternative, std::string_view value) {
  if (alternative == "COUNT") return take_count(value) && value.empty();
  if (alternative == "NODE,...") return !value.empty();
  if (alternative != "MxNxK") return alternative == value;
  for (int i = 0; i < 3; ++i) {
    if (i > 0 && !value.starts_with('x')) return false;
    if (i > 0) value.remove_prefix(1);
    if (!take_count(value)) return false;
  }
  return value.empty();
}

bool accepted(const OptionSpec& option, std::string_view value) {
  for (std::string_view rest = option.accepts; !rest.empty();) {
    const std::size_t bar = rest.find('|');
    if (matches(rest.substr(0, bar), value)) return true;
    if (bar == std::string_view::npos) return false;
    rest.remove_prefix(bar + 1);
  }
  return false;
}

}  // namespace

std::string_view name_of(NumericEffect effect) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "BitExact",         "Reassociates",    "Contracts",      "ChangesPrecision",
      "ChangesAlgorithm", "ChangesRounding", "ChangesSpecials"};
  return kNames[static_cast<std::size_t>(effect)];
}

std::span<const PassInfo> all_passes() { return kPasses; }

std::vector<std::string> pass_names(std::span<const PassInfo> table) {
  std::vector<std::string> names;
  for (const PassInfo& pass : table) names.emplace_back(pass.name);
  return names;
}

const PassInfo* find_pass(std::span<const PassInfo> table, std::string_view name) {
  const auto found = std::ranges::find_if(table, [&](const PassInfo& p) { return p.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const std::string& Options::get(const std::string& key) const {
  if (const auto found = values_.find(key); found != values_.end()) return found->second;
  // Defaults as strings, made once: a table of constants, not state.
  static const std::map<std::string, std::string> defaults = [] {
    std::map<std::string, std::string> all;
    for (const PassInfo& pass : kPasses)
      for (const OptionSpec& option : pass.options)
        all.emplace(fmt::format("{}.{}", pass.name, option.name), option.fallback);
    return all;
  }();
  const auto found = defaults.find(key);
  DRIFTC_ASSERT(found != defaults.end(), "unknown pass option");
  return found->second;
}

std::optional<int> Options::count(const std::string& key) const {
  std::string_view text = get(key);
  const auto value = take_count(text);
  return text.empty() ? value : std::nullopt;
}

Result<void> set_option(Options& options, std::string_view text) {
  const std::size_t equals = text.find('='), dot = text.find('.');
  if (equals == std::string_view::npos || dot == std::string_view::npos || dot > equals)
    return input_error(fmt::format("--set {}: not of the form PASS.OPTION=VALUE", text),
                       "for example --set choose-tiling.batch-invariant=on");
  const std::string_view key = text.substr(0, equals), value = text.substr(equals + 1);
  const PassInfo* pass = find_pass(kPasses, key.substr(0, dot));
  if (pass == nullptr)
    return input_error(fmt::format("--set: unknown pass '{}'", key.substr(0, dot)),
                       name_hint(key.substr(0, dot), pass_names(kPasses)));
  const OptionSpec* option = find_option(key);
  if (option == nullptr) {
    std::vector<std::string> names;
    for (const OptionSpec& known : pass->options) names.emplace_back(known.name);
    return input_error(
        fmt::format("--set: pass '{}' has no option '{}'", pass->name, key.substr(dot + 1)),
        names.empty() ? "it takes none" : name_hint(key.substr(dot + 1), names));
  }
  if (!accepted(*option, value))
    return input_error(fmt::format("--set {}: '{}' is not accepted", key, value),
                       fmt::format("accepted: {}", option->accepts));
  options.set(std::string(key), std::string(value));
  return {};
}

}  // namespace driftc::passes
