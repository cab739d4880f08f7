// The reports of a comparison, from a hand-made PairReport: text, JSON against
// docs/schema/compare-1.json.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "frontend/report/advice.h"
#include "frontend/report/json.h"
#include "frontend/report/schedules_report.h"
#include "frontend/report/text.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
using frontend::Json;
using frontend::json_text;
using runtime::compare::CauseKind;
using runtime::compare::Evidence;
using runtime::compare::Verdict;
using runtime::study::NodeReport;
using runtime::study::PairReport;

namespace {

NodeReport node(std::string name, std::string op, Verdict verdict) {
  NodeReport n;
  n.name = std::move(name);
  n.op = std::move(op);
  n.kernel = "kernel_of_" + n.op;
  n.source_nodes = {n.name};
  n.type = {ir::DType::kF32, ir::Shape{2, 10}, ir::Layout::kNhwc};
  n.eager_contract = "{order=crs.fma}";
  n.compiled_contract = "{order=rsc.fma}";
  n.verdict = verdict;
  n.evidence = Evidence::kReplayed;
  n.metrics.elements = 20;
  n.eager_to_reference = runtime::compare::Distance{1e-7, 2e-7};
  n.compiled_to_reference = runtime::compare::Distance{3e-7, 1.5e-7};
  return n;
}

PairReport example() {
  PairReport r;
  r.graph_name = "net";
  r.graph_hash = "0123456789abcdef";
  r.graph_nodes = 5;
  r.inputs.push_back({"x",
                      "00ff00ff00ff00ff",
                      "random:0",
                      {ir::DType::kF32, ir::Shape{2, 3}},
                      -1.5,
                      0.1,
                      1,
                      0,
                      1,
                      0,
                      0,
                      0,
                      2});
  r.passes = {{"layout-channels-last", true, true},
              {"form-kernels", true, true},
              {"contract", true, false}};
  r.kernels.push_back({"kernel_of_conv2d",
                       "conv",
                       {"conv"},
                       "rsc.fma",
                       "{order=rsc.fma}",
                       "implicit_gemm",
                       "{}",
                       "a",
                       "b",
                       "nvrtc 13.0"});
  r.fallbacks.push_back({"strange", "no emitter for op 'strange'"});
  r.coverage = {1, 1, 3, 4, 0.9985};
  r.verdict = Verdict::kOrder;
  r.evidence = Evidence::kReplayed;
  r.causes.push_back({CauseKind::kReductionOrder, "conv", "crs.fma -> rsc.fma"});
  r.classes = runtime::compare::ClassChanges{1, 2, {1}};
  NodeReport conv = node("conv", "conv2d", Verdict::kOrder);
  conv.causes = {{CauseKind::kUpstream, "conv", "from x"},
                 {CauseKind::kReductionOrder, "conv", "crs.fma -> rsc.fma"}};
  conv.metrics.mismatched = 7;
  conv.metrics.max_abs = 1.5e-6;
  conv.metrics.max_rel = std::numeric_limits<double>::infinity();
  conv.metrics.max_ulp = 113;
  conv.metrics.rel_l2 = 3.25e-8;
  conv.metrics.worst.push_back({{1, 4}, 0.1f, std::nanf(""), 0.1, 0});
  r.nodes.push_back(conv);
  NodeReport hidden = node("bn\x1b[31m", "batch_norm", Verdict::kOrder);
  hidden.materialised = false;
  r.nodes.push_back(hidden);
  r.nodes.push_back(node("strange", "strange", Verdict::kNotCompiled));
  r.nodes.back().kernel.clear();
  r.outputs.push_back(node("logits", "gemm", Verdict::kIdentical));
  r.nodes.push_back(r.outputs.back());
  r.eager_order = "default";
  r.values = 3;
  r.values_differ = 1;
  r.max_ulp = 113;
  return r;
}

frontend::CompareView view() {
  frontend::CompareView v;
  v.model = "net.onnx";
  v.mode = "default";
  v.device = "h200";
  v.executor = "ptx";
  v.allowed = {"identical", "order"};
  return v;
}

Json schema() {
  std::ifstream in(DRIFTC_SOURCE_DIR "/docs/schema/compare-1.json");
  std::ostringstream text;
  text << in.rdbuf();
  return Json::parse(text.str());
}

}  // namespace

TEST_CASE("JSON report follows its schema") {
  frontend::CompareView v = view();
  const Json json = Json::parse(json_text(compare_json(example(), v)));
  CHECK(tests::schema_faults(schema(), json) == "");
  v.timings = true;
  CHECK(tests::schema_faults(schema(), Json::parse(json_text(compare_json(example(), v)))) == "");
  CHECK(json["nodes"][0]["max_rel"] == "inf");
  CHECK(json["nodes"][0]["worst"][0]["compiled"] == "nan");
  CHECK(json["nodes"][0]["worst"][0]["eager_bits"] == "0x3dcccccd");
  CHECK(json["nodes"][1]["mismatched"].is_null());
  CHECK(!json.contains("timings"));
}

TEST_CASE("the schema check finds what is wrong") {
  Json json = compare_json(example(), view());
  json.erase("causes");
  CHECK(tests::schema_faults(schema(), json) == "$: lacks 'causes'\n");
  json = compare_json(example(), view());
  json["nodes"][0]["verdict"] = "fine";
  CHECK(tests::schema_faults(schema(), json) ==
        "$.nodes[0].verdict: not one of the listed values\n");
  json = compare_json(example(), view());
  json["surprise"] = 1;
  CHECK(tests::schema_faults(schema(), json) == "$: 'surprise' is not in the schema\n");
  json = compare_json(example(), view());
  json["model"]["nodes"] = "five";
  CHECK(tests::schema_faults(schema(), json) == "$.model.nodes: wrong type\n");
}

TEST_CASE("JSON numbers are shortest round-trip decimals") {
  CHECK(json_text(frontend::number(0.1f)) == "0.1\n");
  CHECK(json_text(frontend::number(0.1)) == "0.1\n");
  CHECK(json_text(frontend::number(1e-7)) == "1e-07\n");
  CHECK(json_text(frontend::number(-0.0)) == "-0\n");
  CHECK(json_text(frontend::number(5e-324)) == "5e-324\n");
  CHECK(json_text(frontend::number(-std::numeric_limits<double>::infinity())) == "\"-inf\"\n");
  CHECK(json_text(Json{{"a", Json::array({1, 2})}, {"b", nullptr}}) ==
        "{\"a\": [1, 2], \"b\": null}\n");
}

TEST_CASE("text report: table, causes, verdict line, next steps") {
  const std::string text = compare_text(example(), view(), {});
  CHECK(text ==
        "model     net.onnx \xC2\xB7 4 nodes\n"
        "input     x f32[2,3] from random:0\n"
        "eager     interpreter, op by op \xC2\xB7 order default\n"
        "compiled  1 kernel on the PTX executor for h200 \xC2\xB7 mode default\n"
        "passes    layout-channels-last\n"
        "\n"
        "  value    op       verdict       cause     differ max ulp max abs  rel L2  err eager "
        "compiled\n"
        "  conv     conv2d   order         order +1    35 %     113 1.5e-06 3.2e-08      2e-07  "
        "1.5e-07\n"
        "  strange  strange  not-compiled                 -                              2e-07  "
        "1.5e-07\n"
        "  1 value inside fused kernels\n"
        "\n"
        "  logits   gemm     identical                    -                              2e-07  "
        "1.5e-07\n"
        "  err: relative L2 distance of each arm to the f64 reference\n"
        "\n"
        "  cause            where    governed by           first: eager -> compiled\n"
        "  reduction-order  1 value  layout-channels-last  conv: crs.fma -> rsc.fma\n"
        "\n"
        "not compiled\n"
        "  1 node (strange): no emitter for op 'strange'\n"
        "\n"
        "verdict: order (replayed) \xC2\xB7 1/1 convolutions, 3/4 nodes, 99.8 % of multiply-adds "
        "compiled \xC2\xB7 "
        "1 of 3 values differ, max 113 ulp \xC2\xB7 class changed 1/2\n"
        "next:\n"
        "  --passes=-layout-channels-last  the same without its cause\n"
        "  --mode strict                   compiled and fused, yet in eager's order: identical\n"
        "  --eager-order declared          the proof over the whole graph: identical\n"
        "  --sweep passes                  what each pass does alone\n");
}

TEST_CASE("a long table shows the first difference and the worst values") {
  PairReport r = example();
  r.nodes.clear();
  for (int i = 0; i < 100; ++i) {
    NodeReport n =
        node("v" + std::to_string(i), "relu", i < 3 ? Verdict::kIdentical : Verdict::kOrder);
    if (i >= 3) {
      n.metrics.mismatched = 1;
      n.metrics.rel_l2 = 1e-9 * (i % 37);
    }
    r.nodes.push_back(n);
  }
  const std::string text = compare_text(r, view(), {});
  CHECK(text.find("\n  v3 ") != std::string::npos);
  CHECK(text.find("\n  v36 ") != std::string::npos);
  CHECK(text.find("\n  v0 ") == std::string::npos);
  CHECK(text.find("89 more: 3 identical, 86 order\n") != std::string::npos);
}

TEST_CASE("names from files cannot drive the terminal") {
  CHECK(frontend::printable("a\x1b[31mb\n\xC2\x9B") == "a\\x1B[31mb\\x0A\\xC2\\x9B");
  CHECK(frontend::printable("caf\xC3\xA9 \xFF") == "caf\xC3\xA9 \\xFF");
  CHECK(frontend::shortened("layer4.1.downsample.conv.weight", 16) == "layer4....weight");
  CHECK(frontend::display_width("caf\xC3\xA9") == 4);
}

TEST_CASE("only a pass that changed something is named as governing") {
  PairReport r = example();
  r.causes.push_back({CauseKind::kContraction, "relu", "contract off -> on"});
  const auto groups = frontend::group_causes(r);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].governed_by == std::vector<std::string>{"layout-channels-last"});
  CHECK(groups[1].governed_by.empty());
}

TEST_CASE("report: a long list of schedules shows where changes begin and every output") {
  runtime::study::ScheduleReport report;
  report.schedules = 5;
  report.outputs_of = 2;
  report.outputs_changed = 2;
  for (int i = 0; i < 30; ++i) {
    runtime::study::ScheduleChange change;
    change.value = fmt::format("value{}", i);
    change.begins_here = i == 0;
    change.output = i == 20 || i == 29;
    change.schedules = 4;
    change.distinct = 4;
    report.changed.push_back(change);
  }
  const std::string text = frontend::schedules_text(report, {});
  for (const char* shown : {"value0 ", "value11 ", "value20 (output)", "value29 (output)",
                            "16 more values", "schedules: 2 of 2 outputs can change"})
    CHECK_MESSAGE(text.find(shown) != std::string::npos, shown);
  CHECK(text.find("value12 ") == std::string::npos);
}
