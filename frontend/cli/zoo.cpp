// driftc zoo: lists the built-in models; driftc zoo export NAME FILE.onnx writes one as ONNX.
#include "frontend/zoo/zoo.h"

#include <fmt/format.h>

#include "frontend/cli/command.h"
#include "frontend/cli/options.h"
#include "frontend/onnx/export.h"
#include "frontend/report/version.h"

namespace driftc::frontend {
namespace {

std::string zoo_text(const TextStyle&) {
  Table table({{"model"}, {"input"}, {"nodes", Table::Align::kRight}, {"what it is"}});
  for (const zoo::ZooEntry& entry : zoo::zoo_names()) {
    const Result<ir::Graph> graph = zoo::zoo_graph(entry.name, 1);
    std::int64_t nodes = 0;
    for (const ir::Node& node : graph->nodes()) nodes += node.op != ir::Op::kConstant;
    table.add({"zoo:" + entry.name, ir::to_string(graph->value(graph->inputs()[0]).type.shape),
               std::to_string(nodes), entry.description});
  }
  return table.render({}) +
         "\nWeights are seeded, the same on every machine. --batch N sets the batch.\n";
}

Json zoo_json() {
  Json list = Json::array();
  for (const zoo::ZooEntry& entry : zoo::zoo_names()) {
    const Result<ir::Graph> graph = zoo::zoo_graph(entry.name, 1);
    list.push_back({{"name", entry.name},
                    {"description", entry.description},
                    {"input", graph->value(graph->inputs()[0]).type.shape.dims()}});
  }
  return {{"schema", "driftc.zoo/1"}, {"driftc", std::string(kVersion)}, {"models", list}};
}

Result<int> export_model(const Arguments& arguments) {
  const std::string name = arguments.value_or("NAME", ""), file = arguments.value_or("FILE", "");
  if (name.empty() || file.empty())
    return input_error("driftc zoo export needs a model and a file",
                       "driftc zoo export resnet18 resnet18.onnx");
  DRIFTC_TRY(batch, arguments.integer("--batch", 1, 65536));
  DRIFTC_TRY(graph,
             zoo::zoo_graph(name.starts_with("zoo:") ? name.substr(4) : name, batch.value_or(1)));
  DRIFTC_CHECK(check_can_write(file));
  DRIFTC_TRY(bytes, onnx::export_onnx(graph));
  DRIFTC_CHECK(write_file(file, bytes));
  note(fmt::format("wrote {} ({} bytes)", file, bytes.size()));
  return 0;
}

Result<int> zoo_or_export(const Arguments& arguments, const Context& context) {
  if (const std::optional<std::string> action = arguments.value("ACTION")) {
    if (*action != "export")
      return input_error(
          fmt::format("unknown action '{}' of driftc zoo", *action),
          "driftc zoo lists the models, driftc zoo export NAME FILE.onnx writes one");
    return export_model(arguments);
  }
  DRIFTC_CHECK(emit(arguments, context, zoo_text, zoo_json));
  return 0;
}

constexpr std::array kExportRows = {OptionRow{"--batch", "N", "batch size of the file; default 1"}};

}  // namespace

Command zoo_command() {
  return {{"zoo",
           "the built-in models, usable as zoo:NAME; writes one as ONNX",
           {{"ACTION", "export: write a model as ONNX; without it the models are listed", false},
            {"NAME", "of the model", false},
            {"FILE", "where the ONNX file goes", false}},
           {{"export", kExportRows}, kJsonOption},
           {"driftc zoo", "driftc zoo export resnet18 resnet18.onnx"},
           {}},
          zoo_or_export};
}

}  // namespace driftc::frontend
