#include "runtime/study/certify_families.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/selection.h"
#include "runtime/devices/profile.h"

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
      candidates()};
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

Result<PairSettings> certify_settings(const CertifyFamily& family, const CertifyVariant& variant,
                                      const DeviceProfile& device) {
  passes::SelectionRequest request;
  request.passes = variant.passes;
  request.precision_named = *family.precision != 0;
  for (std::string_view rest = variant.sets; !rest.empty();) {
    const std::size_t space = std::min(rest.find(' '), rest.size());
    request.sets.emplace_back(rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
  }
  PairSettings s;
  s.device = device;
  if (*family.device != 0) {
    DRIFTC_TRY(own, device_profile(family.device));
    s.device = own;
  }
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
