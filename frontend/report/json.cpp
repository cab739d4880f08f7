#include "frontend/report/json.h"

#include <fmt/format.h>

#include "frontend/report/audit_report.h"
#include "frontend/report/schedules_report.h"
#include "frontend/report/tuning_report.h"
#include "frontend/report/version.h"
#include "ir/support/round.h"
#include "passes/form_kernels.h"

namespace driftc::frontend {
namespace {

using runtime::compare::Verdict;
using runtime::study::InputReport;
using runtime::study::KernelReport;
using runtime::study::NodeReport;
using runtime::study::PairReport;

template <class T>
Json list(const std::vector<T>& values) {
  Json out = Json::array();
  for (const T& value : values) out.push_back(value);
  return out;
}

Json causes_json(const std::vector<runtime::compare::Cause>& causes) {
  Json out = Json::array();
  for (const auto& cause : causes)
    out.push_back({{"cause", std::string(runtime::compare::name_of(cause.kind))},
                   {"node", cause.node},
                   {"detail", cause.detail}});
  return out;
}

Json input_json(const InputReport& input) {
  return {{"name", input.name},
          {"source", input.source},
          {"shape", list(input.type.shape.dims())},
          {"dtype", std::string(ir::name_of(input.type.dtype))},
          {"hash", input.hash},
          {"min", number(input.min)},
          {"max", number(input.max)},
          {"zeros", input.zeros},
          {"subnormals", input.subnormals},
          {"nan", input.nan},
          {"inf", input.inf},
          {"not_representable",
           {{"f16", input.not_f16}, {"bf16", input.not_bf16}, {"tf32", input.not_tf32}}}};
}

Json inductor_json(const std::vector<passes::InductorSetting>& settings) {
  Json out = Json::array();
  for (const passes::InductorSetting& setting : settings)
    out.push_back({{"key", std::string(setting.knob->name)},
                   {"value", setting.value},
                   {"answer", std::string(name_of(answer_of(*setting.knob)))},
                   {"is", list(setting.actions)},
                   {"reason", setting.actions.empty() ? Json(std::string(setting.knob->reason))
                                                      : Json(nullptr)}});
  return out;
}

Json settings_json(const PairReport& report, const CompareView& view) {
  Json enabled = Json::array();
  for (const auto& pass : report.passes)
    if (pass.enabled && pass.name != passes::kFormKernels) enabled.push_back(pass.name);
  Json options = Json::object();
  for (const auto& [key, value] : view.pass_options) options[key] = value;
  return {
      {"mode", view.mode},
      {"passes", enabled},
      {"options", options},
      {"inductor", inductor_json(view.inductor)},
      {"precision", {{"conv", view.conv_precision}, {"matmul", view.matmul_precision}}},
      {"seeds",
       {{"schedule", 0}, {"weights", view.weight_seed ? Json(*view.weight_seed) : Json(nullptr)}}},
      {"eager",
       {{"arm", "interpreter"},
        {"order", report.eager_order},
        {"precision", view.eager_precision}}},
      {"fallback", list(view.fallback)},
      {"reference", text_or_null(view.reference)},
      {"device", view.device}};
}

Json kernel_json(const KernelReport& kernel) {
  return {{"name", kernel.name},
          {"value", kernel.value},
          {"from", list(kernel.from)},
          {"order", kernel.order == "none" ? Json(nullptr) : text_or_null(kernel.order)},
          {"contract", kernel.contract},
          {"algorithm", kernel.algorithm},
          {"schedule", kernel.schedule},
          {"source_hash", text_or_null(kernel.source_hash)},
          {"ptx_hash", text_or_null(kernel.ptx_hash)},
          {"nvrtc", text_or_null(kernel.nvrtc)}};
}

// cuDNN's choices where the arm models them: what it would run, and what of that has no model.
Json eager_json(const PairReport& report, const CompareView& view) {
  Json out = {{"executor", !view.cudnn       ? "interpreter"
                           : view.cudnn->ran ? "cudnn"
                                             : "cudnn-modelled"},
              {"device", view.cudnn ? Json(view.cudnn->device) : Json(nullptr)},
              {"precision", view.cudnn ? std::string("per node") : view.eager_precision},
              {"order", report.eager_order}};
  if (!view.cudnn) return out;
  Json convolutions = Json::array();
  for (const auto& c : view.cudnn->convolutions)
    convolutions.push_back(
        {{"node", c.node},
         {"engine", c.answer.depthwise_kernel ? Json(nullptr) : Json(c.answer.choice.engine)},
         {"precision", c.answer.choice.precision},
         {"algorithm", std::string(name_of(c.answer.choice.algorithm))},
         {"contract", to_string(c.contract)},
         {"no_model", text_or_null(c.gap)}});
  out["cudnn"] = view.cudnn->cudnn_version;
  out["convolutions"] = convolutions;
  return out;
}

Json arms_json(const PairReport& report, const CompareView& view) {
  Json passes = Json::array(), kernels = Json::array(), fallbacks = Json::array(),
       refusals = Json::array();
  for (const auto& pass : report.passes)
    passes.push_back({{"name", pass.name}, {"enabled", pass.enabled}, {"changed", pass.changed}});
  for (const auto& kernel : report.kernels) kernels.push_back(kernel_json(kernel));
  for (const auto& fallback : report.fallbacks)
    fallbacks.push_back({{"node", fallback.node}, {"reason", fallback.reason}});
  for (const auto& refusal : report.refusals)
    refusals.push_back({{"node", refusal.node}, {"reason", refusal.reason}});
  return {{"eager", eager_json(report, view)},
          {"compiled",
           {{"executor", view.executor},
            {"device", view.executor == "interpreter" ? Json(nullptr) : Json(view.device)},
            {"mode", view.mode},
            {"passes", passes},
            {"kernels", kernels},
            {"fallbacks", fallbacks},
            {"refusals", refusals}}}};
}

Json distance_json(const std::optional<runtime::compare::Distance>& d) {
  if (!d) return nullptr;
  return {{"max_abs", number(d->max_abs)}, {"rel_l2", number(d->rel_l2)}};
}

Json worst_json(const runtime::compare::WorstElement& w) {
  return {{"index", list(w.index)},
          {"eager", number(w.eager)},
          {"compiled", number(w.compiled)},
          {"reference", w.reference ? number(*w.reference) : Json(nullptr)},
          {"eager_bits", fmt::format("0x{:08x}", bits_of(w.eager))},
          {"compiled_bits", fmt::format("0x{:08x}", bits_of(w.compiled))},
          {"ulp", w.ulp},
          {"bound", nullptr}};
}

Json bound_json(const NodeReport& node) {
  if (!node.exact || !node.exact->bound) return nullptr;
  const auto& b = *node.exact->bound;
  return {{"value", number(b.value)},
          {"used", number(b.used)},
          {"kind", std::string(runtime::compare::name_of(b.kind))}};
}
// How the bound is made up, worst case and standard deviations.
Json propagation_json(const NodeReport& node) {
  if (!node.exact || !node.exact->bound) return nullptr;
  const auto& b = *node.exact->bound;
  return {{"inherited", number(b.inherited)},
          {"local", number(b.local)},
          {"amplification", number(b.amplification)},
          {"inherited_sigma", number(b.inherited_sigma)},
          {"local_sigma", number(b.local_sigma)},
          {"amplification_sigma", number(b.amplification_sigma)}};
}
Json exact_json(const NodeReport& node) {
  if (!node.exact) return nullptr;
  return {{"eager", distance_json(node.exact->eager)},
          {"compiled", distance_json(node.exact->compiled)}};
}

// Metrics of a value that has none (it lives inside a kernel) are null.
Json node_json(const NodeReport& node) {
  const auto& m = node.metrics;
  auto metric = [&](const Json& value) { return node.materialised ? value : Json(nullptr); };
  Json worst = Json::array();
  for (const auto& w : m.worst) worst.push_back(worst_json(w));
  return {
      {"name", node.name},
      {"op", node.op},
      {"kernel", text_or_null(node.kernel)},
      {"source_nodes", list(node.source_nodes)},
      {"materialised", node.materialised},
      {"shape", list(node.type.shape.dims())},
      {"dtype", std::string(ir::name_of(node.type.dtype))},
      {"layout",
       {{"eager", "nchw"}, {"compiled", node.type.layout == ir::Layout::kNhwc ? "nhwc" : "nchw"}}},
      {"contract",
       {{"eager", node.eager_contract}, {"compiled", text_or_null(node.compiled_contract)}}},
      {"verdict", std::string(runtime::compare::name_of(node.verdict))},
      {"evidence", std::string(runtime::compare::name_of(node.evidence))},
      {"causes", causes_json(node.causes)},
      {"fault", text_or_null(node.fault)},
      {"mismatched", metric(m.mismatched)},
      {"max_abs", metric(number(m.max_abs))},
      {"max_rel", metric(number(m.max_rel))},
      {"max_ulp", metric(m.max_ulp)},
      {"rel_l2", metric(number(m.rel_l2))},
      {"bound", bound_json(node)},
      {"propagation", propagation_json(node)},
      {"z_max", node.exact && node.exact->bound ? number(node.exact->bound->z_max) : Json(nullptr)},
      {"condition_max", node.exact && node.exact->condition_max ? number(*node.exact->condition_max)
                                                                : Json(nullptr)},
      {"inherited", metric(number(node.inherited))},
      {"local", metric(number(node.local))},
      {"amplification", metric(number(node.amplification))},
      {"nan_mismatch", metric(m.nan_mismatch)},
      {"inf_mismatch", metric(m.inf_mismatch)},
      {"specials", metric(specials_json(node.specials))},
      {"to_reference",
       {{"eager", distance_json(node.eager_to_reference)},
        {"compiled", distance_json(node.compiled_to_reference)}}},
      {"to_exact", exact_json(node)},
      {"worst", worst},
      {"pattern", text_or_null(node.pattern)}};
}

}  // namespace

Json specials_json(const runtime::compare::SpecialCounts& c) {
  return {{"nan_missing", c.nan_missing}, {"nan_extra", c.nan_extra},
          {"inf_missing", c.inf_missing}, {"inf_extra", c.inf_extra},
          {"inf_sign", c.inf_sign},       {"zero_sign", c.zero_sign},
          {"flushed", c.flushed},         {"words", list(runtime::compare::explain(c))}};
}

Json compare_json(const PairReport& report, const CompareView& view) {
  Json inputs = Json::array(), nodes = Json::array(), outputs = Json::array();
  for (const auto& input : report.inputs) inputs.push_back(input_json(input));
  for (const auto& node : report.nodes) nodes.push_back(node_json(node));
  for (const auto& node : report.outputs) outputs.push_back(node_json(node));
  Json mitigations = Json::array();
  for (const auto& m : report.mitigations)
    mitigations.push_back({{"name", m.name},
                           {"estimated",
                            {{"operations", number(m.operations)},
                             {"time", number(m.time)},
                             {"f64", number(m.f64)},
                             {"interpreted", number(m.interpreted)}}}});
  const auto& coverage = report.coverage;
  Json json = {
      {"schema", "driftc.compare/1"},
      {"driftc", std::string(kVersion)},
      {"model",
       {{"source", view.model}, {"nodes", report.coverage.nodes_of}, {"hash", report.graph_hash}}},
      {"inputs", inputs},
      {"settings", settings_json(report, view)},
      {"arms", arms_json(report, view)},
      {"coverage",
       {{"convolutions", Json::array({coverage.convolutions, coverage.convolutions_of})},
        {"nodes", Json::array({coverage.nodes, coverage.nodes_of})},
        {"multiply_adds", number(coverage.multiply_adds)}}},
      {"verdict", std::string(runtime::compare::name_of(report.verdict))},
      {"evidence", std::string(runtime::compare::name_of(report.evidence))},
      {"fault_pass", text_or_null(report.fault_pass)},
      {"causes", causes_json(report.causes)},
      {"classes", report.classes ? Json{{"changed", report.classes->changed},
                                        {"of", report.classes->of},
                                        {"samples", list(report.classes->samples)}}
                                 : Json(nullptr)},
      {"schedules", report.schedules ? schedules_json(*report.schedules) : Json(nullptr)},
      {"audit", report.audit ? audit_json(*report.audit) : Json(nullptr)},
      {"mitigations", mitigations},
      {"estimated_time", time_json(report.time, view.device)},
      {"tuning", tuning_json(report.tuned, view.device)},
      {"allowed", list(view.allowed)},
      {"exit", view.exit_code},
      {"nodes", nodes},
      {"outputs", outputs}};
  if (view.timings)
    json["timings"] = {{"compile_s", number(report.seconds_compile)},
                       {"run_s", number(report.seconds_run)},
                       {"kernels_compiled", report.kernels_compiled}};
  return json;
}

}  // namespace driftc::frontend
