#include "runtime/study/certify_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "passes/rewrite.h"
#include "passes/selection.h"
#include "runtime/devices/profile.h"
#include "runtime/study/tuning.h"

namespace driftc::runtime::study {
namespace {

using compare::Verdict;

const std::vector<int> kEveryModel = {0, 1, 2, 3, 4, 5};
const std::vector<int> kWinogradModels = {0, 4, 5};  // 3x3, stride 1

const CertifyVariant kTiled = {"none,+choose-tiling,+fuse-epilogue"};

// Every order, layout, tile and contraction that the passes can choose on these models.
const std::vector<CertifyVariant> kOrders = {
    {"none"},
    {"none", "", "rsc.fma"},
    {"none", "", "crs.split2.muladd"},
    {"none,+choose-tiling", "choose-tiling.block=32x32x18"},
    {"none,+choose-tiling", "choose-tiling.block=64x32x9"},
    {"none,+choose-tiling", "choose-tiling.accumulate=kahan", "", true},
    {"none,+choose-tiling", "choose-tiling.accumulate=f64", "", true},
    {"none,+layout-channels-last,+fuse-epilogue"},
    {"none,+fuse-epilogue,+contract"},
    {"none,+split-k,+bias-first"},
    {"all"},
    {"all,-layout-channels-last,-conv1x1-as-matmul"},
};

// Tiles, layouts and slices of the kernels with mma.sync.
const std::vector<CertifyVariant> kTensorCores = {
    {"none"},
    {"none,+choose-tiling", "choose-tiling.block=64x32x16"},
    {"none,+choose-tiling,+fuse-epilogue", "choose-tiling.block=32x32x32"},
    {"none,+layout-channels-last,+fuse-epilogue"},
    {"none,+split-k,+fuse-epilogue", "split-k.slices=3"},
    {"none,+split-k,+bias-first", "split-k.slices=2 split-k.combine=pairwise"},
    {"all"},
};

std::vector<CertifyVariant> winograd_variants(bool f4) {
  if (f4)
    return {{"none,+choose-algorithm", "choose-algorithm.algorithm=winograd4"},
            {"none,+choose-algorithm,+fuse-epilogue",
             "choose-algorithm.algorithm=winograd4 choose-algorithm.form=fused"},
            {"none,+choose-algorithm,+choose-tiling",
             "choose-algorithm.algorithm=winograd4 choose-algorithm.filters=f64"},
            {"none,+choose-algorithm,+layout-channels-last,+fuse-epilogue",
             "choose-algorithm.algorithm=winograd4 choose-algorithm.form=fused "
             "choose-algorithm.filters=f64"},
            {"none,+choose-algorithm,+choose-tiling",
             "choose-algorithm.algorithm=winograd4 choose-tiling.accumulate=f64", "", true}};
  return {{"none,+choose-algorithm", "choose-algorithm.algorithm=winograd2"},
          {"none,+choose-algorithm,+fuse-epilogue",
           "choose-algorithm.algorithm=winograd2 choose-algorithm.form=fused"},
          {"none,+choose-algorithm,+choose-tiling",
           "choose-algorithm.algorithm=winograd2 choose-algorithm.filters=f64"},
          {"none,+choose-algorithm,+layout-channels-last,+fuse-epilogue",
           "choose-algorithm.algorithm=winograd2 choose-algorithm.form=fused "
           "choose-algorithm.filters=f64"},
          {"none,+choose-algorithm,+choose-tiling",
           "choose-algorithm.algorithm=winograd2 choose-tiling.accumulate=kahan", "", true}};
}

CertifyFamily tensor_cores(std::string_view name, const char* precision, const char* device,
                           Hypothesis matched, std::string_view judged) {
  CertifyFamily f;
  f.name = name;
  f.group = "tensor cores";
  f.precision = precision;
  f.device = device;
  f.allowed = Verdict::kPrecision;
  f.matched = matched;
  f.judged = {judged};
  f.base = kTiled;
  f.variants = kTensorCores;
  f.models = kEveryModel;
  return f;
}

CertifyFamily chains(std::string_view name, std::string_view group, ir::Precision operands,
                     Hypothesis matched) {
  CertifyFamily f;
  f.name = name;
  f.group = group;
  f.operands = operands;
  f.allowed = operands == ir::Precision::kF32 ? Verdict::kOrder : Verdict::kPrecision;
  f.matched = matched;
  f.judged = {name};
  f.every_fault = operands == ir::Precision::kF32;
  f.base = kTiled;
  f.variants = kOrders;
  f.models = kEveryModel;
  return f;
}

CertifyFamily winograd(std::string_view name, int m, std::vector<std::string_view> judged) {
  CertifyFamily f;
  f.name = name;
  f.group = "Winograd";
  f.allowed = Verdict::kAlgorithm;
  f.winograd = m;
  f.judged = std::move(judged);
  f.base = {
      "none,+choose-algorithm,+choose-tiling,+fuse-epilogue",
      m == 4 ? "choose-algorithm.algorithm=winograd4" : "choose-algorithm.algorithm=winograd2"};
  f.variants = winograd_variants(m == 4);
  f.models = kWinogradModels;
  return f;
}

// Choices of the tuner that keep the sum: other algorithms, slices side by side, added in the order
// in which they end.
CertifyFamily candidates() {
  CertifyFamily f =
      chains("f32, atomics and algorithms", "algorithms", ir::Precision::kF32, Hypothesis::kF32);
  f.judged = {"f32"};
  f.base = {"none,+split-k,+choose-tiling,+fuse-epilogue",
            "split-k.slices=3 split-k.combine=atomic"};
  f.variants = {
      {"none,+split-k,+fuse-epilogue", "split-k.slices=3 split-k.combine=atomic", "", false, 1},
      {"none,+split-k,+fuse-epilogue", "split-k.slices=5 split-k.combine=atomic", "", false, 2},
      {"none,+split-k", "split-k.slices=4 split-k.combine=pairwise"},
      {"none,+choose-algorithm,+fuse-epilogue", "choose-algorithm.algorithm=direct"},
      {"none,+choose-algorithm,+choose-tiling", "choose-algorithm.algorithm=im2col"},
      {"none,+choose-algorithm,+split-k,+fuse-epilogue",
       "choose-algorithm.algorithm=im2col split-k.slices=2 split-k.combine=atomic", "", false, 3},
  };
  return f;
}

// Kernels of `f` as the tuner of max-autotune chooses them where `sets` leave it a choice: the
// fastest by its estimate, the runners-up, and what it chooses for other devices.
CertifyFamily tuned(CertifyFamily f, std::string_view name, const char* sets,
                    std::vector<const char*> devices) {
  const auto variant = [&](const char* device, int place) {
    CertifyVariant v{"", sets};
    v.mode = "max-autotune";
    v.device = device;
    v.place = place;
    return v;
  };
  f.name = name;
  f.group = "tuned choices";
  f.base = variant("", 0);
  f.variants = {f.base};
  for (const int place : {1, 2, 3}) f.variants.push_back(variant("", place));
  for (const char* device : devices)
    for (const int place : {0, 1}) f.variants.push_back(variant(device, place));
  return f;
}

// Algorithm, tile, slices and bias are open. At these sizes it takes no transform.
CertifyFamily tuned_sums() {
  CertifyFamily f = tuned(chains("f32", "", ir::Precision::kF32, Hypothesis::kF32),
                          "f32, tuned sums", "", {"t4", "a100"});
  f.judged = {"f32"};
  for (const int place : {0, 1, 2}) {
    CertifyVariant v = f.variants[static_cast<std::size_t>(place)];
    v.sets = "split-k.combine=pairwise";
    f.variants.push_back(v);
    v.sets = "split-k.combine=atomic";
    v.schedule_seed = static_cast<std::uint64_t>(place) + 1;
    f.variants.push_back(v);
  }
  return f;
}

void prefer(std::vector<TunedCandidate>& candidates, int place) {
  const auto held =
      std::ranges::count_if(candidates, [](const auto& c) { return c.dropped.empty(); });
  const auto at = candidates.begin() +
                  std::clamp<std::ptrdiff_t>(place, 0, std::max<std::ptrdiff_t>(held - 1, 0));
  std::rotate(candidates.begin(), at, at + 1);
}

std::shared_ptr<Tuning> tuning_for(const DeviceProfile& device, int place, Tunings& tunings) {
  std::shared_ptr<Tuning>& tuning = tunings[{device.name, place}];
  if (tuning) return tuning;
  tuning = std::make_shared<Tuning>();
  tuning->device = device.name;
  if (place > 0)
    tuning->added =
        [place, seen = std::set<std::string>()](TunedProblems& problems) mutable -> Result<void> {
      for (auto& [text, problem] : problems)
        if (seen.insert(text).second) prefer(problem.candidates, place);
      return {};
    };
  return tuning;
}

}  // namespace

std::span<const CertifyFamily> certify_families() {
  static const std::vector<CertifyFamily> list = {
      chains("f32", "f32", ir::Precision::kF32, Hypothesis::kF32),
      chains("tf32:rna", "tf32", ir::Precision::kTf32Rna, Hypothesis::kTf32Rna),
      chains("tf32:trunc", "tf32", ir::Precision::kTf32Trunc, Hypothesis::kTf32Trunc),
      tensor_cores("tf32:rna, tensor cores", "tf32:rna", "h200", Hypothesis::kTf32Rna, "tf32:rna"),
      tensor_cores("tf32:trunc, tensor cores", "tf32:trunc", "a100", Hypothesis::kTf32Trunc,
                   "tf32:trunc"),
      tensor_cores("f16, tensor cores", "f16", "h200", Hypothesis::kF16, "f16"),
      tensor_cores("bf16, tensor cores", "bf16", "a100", Hypothesis::kBf16, "bf16"),
      winograd("winograd2", 2, {"winograd2", "f32"}),
      winograd("winograd4", 4, {"winograd4", "winograd2", "f32"}),
      candidates(),
      tuned_sums(),
      tuned(winograd("winograd4", 4, {"winograd4", "winograd2", "f32"}), "winograd4, tuned tiles",
            "choose-algorithm.algorithm=winograd4", {"t4", "a100"}),
      tuned(tensor_cores("tf32:rna", "tf32:rna", "a100", Hypothesis::kTf32Rna, "tf32:rna"),
            "tf32:rna, tuned tensor cores", "", {"h200"}),
      tuned(tensor_cores("f16", "f16", "h200", Hypothesis::kF16, "f16"), "f16, tuned tensor cores",
            "", {"t4"})};
  return list;
}

Result<std::vector<const CertifyFamily*>> chosen_families(const std::vector<std::string>& parts) {
  std::vector<std::string> names;
  for (const CertifyFamily& family : certify_families()) names.emplace_back(family.name);
  const auto is = [&](const CertifyFamily& family, const std::string& part) {
    // A whole name means itself: "f32" is no "tf32:rna".
    if (std::ranges::find(names, part) != names.end()) return family.name == part;
    return family.name.find(part) != std::string_view::npos ||
           family.group.find(part) != std::string_view::npos;
  };
  for (const std::string& part : parts)
    if (std::ranges::none_of(certify_families(), [&](const auto& f) { return is(f, part); }))
      return input_error("no kind of kernels is called '" + part + "'", name_hint(part, names));
  std::vector<const CertifyFamily*> chosen;
  for (const CertifyFamily& family : certify_families())
    if (parts.empty() ||
        std::ranges::any_of(parts, [&](const std::string& part) { return is(family, part); }))
      chosen.push_back(&family);
  return chosen;
}

std::string to_string(const CertifyVariant& variant) {
  std::string out;
  for (const char* word : {variant.mode, variant.passes, variant.sets, variant.eager_order})
    if (*word != 0) out += (out.empty() ? "" : " ") + std::string(word);
  if (*variant.device != 0) out += fmt::format(", {}", variant.device);
  if (variant.place > 0) out += fmt::format(", place {}", variant.place);
  return out;
}

Result<PairSettings> certify_settings(const CertifyFamily& family, const CertifyVariant& variant,
                                      const DeviceProfile& device, Tunings& tunings) {
  passes::SelectionRequest request;
  request.mode = variant.mode;
  request.passes = variant.passes;
  request.precision_named = *family.precision != 0;
  for (std::string_view rest = variant.sets; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    request.sets.emplace_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  PairSettings s;
  s.device = device;
  if (const char* named = *variant.device != 0 ? variant.device : family.device; *named != 0) {
    DRIFTC_TRY(own, device_profile(named));
    s.device = own;
  }
  if (*variant.mode != 0) s.tuning = tuning_for(s.device, variant.place, tunings);
  DRIFTC_TRY(selection, passes::select_passes(request));
  s.selection = selection;
  s.reference = false;
  s.schedule_seed = variant.schedule_seed;
  if (*variant.eager_order != 0) {
    DRIFTC_TRY(order, ir::parse_order(variant.eager_order));
    s.eager_order = order;
  }
  if (*family.precision != 0) {
    DRIFTC_TRY(plan, ir::parse_precision_plan(family.precision, "certify"));
    s.precision = plan;
    s.precision.mma_arch = s.device.mma_arch;
  }
  return s;
}

void round_operands(ir::Graph& graph, const CertifyFamily& family) {
  if (family.operands == ir::Precision::kF32) return;
  graph = passes::edit_kernels(graph, [&](const ir::Node&, ir::Kernel& kernel) {
    if (!kernel.contract.order) return false;
    kernel.contract.in = family.operands;
    return true;
  });
}

}  // namespace driftc::runtime::study
