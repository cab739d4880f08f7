// driftc show: every stage between the model and the PTX, and the summation tree of one element.
#include <fmt/format.h>

#include <array>
#include <set>

#include "frontend/cli/options.h"
#include "frontend/cli/pair_options.h"
#include "frontend/cli/print_after.h"
#include "frontend/cli/repro.h"
#include "frontend/cli/session.h"
#include "frontend/cli/show_tree.h"
#include "ir/printer.h"
#include "runtime/study/compile.h"

namespace driftc::frontend {
namespace {

using runtime::study::PairSettings;

constexpr std::array kShowRows = {
    OptionRow{"--stage", "STAGE",
              "graph (default), after:PASS, kernels, cuda, ptx, or tree: the summation tree of one "
              "element"},
    OptionRow{"--at", "NODE[INDEX]", "with --stage tree: the element, for example conv1[0,3,4,4]"},
    OptionRow{"--order", "ORDER",
              "with --stage tree: an order to show; twice for both sides. Default: eager's and the "
              "kernel's",
              true}};
const OptionGroup kShowOptions{"what is shown", kShowRows};

Result<int> show_after(const std::string& pass, Session& session, const PairSettings& settings) {
  std::string text;
  DRIFTC_CHECK(runtime::study::compile(session.graph(), settings, session.services(),
                                       [&](std::string_view name, const ir::Graph& graph) {
                                         if (name == pass) text = ir::print(graph);
                                       }));
  session.progress().clear();
  DRIFTC_CHECK(print(text));
  return 0;
}

std::string source_heading(const KernelSource& kernel) {
  std::string from;
  for (const std::string& name : kernel.from) from += (from.empty() ? "" : ", ") + printable(name);
  return fmt::format("// kernel {}\n//   {}{}; first used for {}, which computes {}\n",
                     kernel.entry, kernel.algorithm,
                     kernel.order.empty() ? "" : ", order " + kernel.order, printable(kernel.value),
                     from);
}

Result<int> show_kernels(const std::string& stage, Session& session, const PairSettings& settings,
                         const Context& context) {
  DRIFTC_TRY(compiled, runtime::study::compile(session.graph(), settings, session.services()));
  session.progress().clear();
  if (stage == "kernels") {
    DRIFTC_CHECK(print(ir::print(compiled.graph)));
    return 0;
  }
  Result<std::vector<KernelSource>> sources = kernel_sources(compiled.graph);
  if (!sources) return with_repro(sources.error(), session, settings, context);
  std::vector<codegen::CompileRequest> requests;
  for (const KernelSource& kernel : *sources)
    requests.push_back({kernel.entry, kernel.source, settings.device.ptx_target, {}});
  std::vector<std::string> texts;
  if (stage == "ptx") {
    auto ptx = session.services().cache.compile_all(requests, session.services().pool.threads());
    if (!ptx) return with_repro(ptx.error(), session, settings, context);
    for (const codegen::CompiledPtx& kernel : *ptx) texts.push_back(kernel.ptx);
  } else {
    for (const KernelSource& kernel : *sources) texts.push_back(kernel.source);
  }
  for (std::size_t i = 0; i < texts.size(); ++i)
    DRIFTC_CHECK(print((i ? "\n" : "") + source_heading((*sources)[i]) + texts[i]));
  return 0;
}

Result<int> run(const Arguments& arguments, const Context& context) {
  const std::string stage = arguments.value_or("--stage", "graph");
  const bool after = stage.starts_with("after:");
  const std::vector<std::string> stages = {"graph", "after:PASS", "kernels", "cuda", "ptx", "tree"};
  if (!after &&
      (stage == "after:PASS" || std::find(stages.begin(), stages.end(), stage) == stages.end()))
    return input_error(fmt::format("unknown stage '{}'", stage), name_hint(stage, stages));
  for (const char* flag : {"--at", "--order"})
    if (arguments.has(flag) && stage != "tree")
      return input_error(fmt::format("{} is for --stage tree, not for --stage {}", flag, stage));
  DRIFTC_TRY(settings, pair_settings(arguments, context.settings));
  if (after) {
    const std::string pass = stage.substr(6);
    if (pass == "all" || pass == "changed")
      return input_error("--stage after: needs one pass", "driftc compare has --print-after all");
    DRIFTC_CHECK(check_print_after(pass, settings));
  }
  TreeRequest tree;
  if (stage == "tree") {
    DRIFTC_TRY(request, tree_request(arguments));
    tree = request;
  }
  DRIFTC_TRY(session, Session::open(arguments, context));
  DRIFTC_CHECK(check_against(session->graph(), settings));
  if (stage == "graph") {
    DRIFTC_CHECK(print(ir::print(session->graph())));
    return 0;
  }
  if (stage == "tree") return show_tree(tree, *session, settings, context);
  if (after) return show_after(stage.substr(6), *session, settings);
  return show_kernels(stage, *session, settings, context);
}

}  // namespace

Command show_command() {
  return {{"show",
           "prints MODEL at any stage: graph, passes, kernels, CUDA, PTX, or one sum step by step",
           {{"MODEL", "an ONNX file, a .gir file, or zoo:NAME"}},
           {kShowOptions, kInputOptions, kCompileOptions, kEagerOptions, kThreadOptions},
           {"driftc show zoo:residual-block --stage cuda",
            "driftc show zoo:residual-block --stage tree --at 'conv1[0,3,4,4]' --order crs.fma "
            "--order rsc.fma"},
           {"graph, after:PASS and kernels are text IR: driftc reads them again"}},
          run};
}

}  // namespace driftc::frontend
