#include "frontend/cli/repro.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "codegen/lower.h"
#include "frontend/npy/npy.h"
#include "ir/printer.h"
#include "runtime/study/compile.h"

namespace driftc::frontend {
namespace {

namespace fs = std::filesystem;

// A new folder, or "" when none can be made.
std::string new_folder(const std::string& dump_dir) {
  std::error_code error;
  const fs::path base = dump_dir.empty() ? fs::temp_directory_path(error) : fs::path(dump_dir);
  if (error) return "";
  fs::create_directories(base, error);
  std::string pattern = (base / "driftc-repro-XXXXXX").string();
  return ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
}

}  // namespace

Result<std::vector<KernelSource>> kernel_sources(const ir::Graph& compiled) {
  std::vector<KernelSource> out;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < compiled.node_count(); ++i) {
    const ir::NodeId id{static_cast<std::uint32_t>(i)};
    const ir::Node& node = compiled.node(id);
    if (node.op != ir::Op::kKernel || node.kernel->algorithm == ir::Algorithm::kInterpreter)
      continue;
    DRIFTC_TRY(lowered, codegen::lower(compiled, id));
    for (const codegen::Launch& launch : lowered.launches) {
      if (!seen.insert(launch.source).second) continue;
      KernelSource source{launch.entry,
                          compiled.name_of(id),
                          "",
                          std::string(ir::name_of(lowered.algorithm)),
                          launch.source,
                          node.from};
      if (lowered.contract.order) source.order = ir::to_string(*lowered.contract.order);
      out.push_back(std::move(source));
    }
  }
  return out;
}

Diagnostic with_repro(Diagnostic error, Session& session,
                      const runtime::study::PairSettings& settings, const Context& context) {
  if (error.kind != ErrorKind::kInternal) return error;
  session.progress().clear();
  const std::string folder = new_folder(context.settings.dump_dir);
  if (folder.empty()) {
    error.notes.push_back(
        "a folder to reproduce this could not be written (DRIFTC_DUMP_DIR names another place)");
    return error;
  }
  // Best effort: what cannot be written is left out, the first error is what the user needs to see.
  auto keep = [&](const std::string& name, const std::string& bytes) {
    std::error_code ignored;
    fs::create_directories((fs::path(folder) / name).parent_path(), ignored);
    (void)write_file((fs::path(folder) / name).string(), bytes).ok();
  };
  keep("error.txt", error.render());
  keep("command.txt", context.command_line + "\n");
  keep("source.gir", ir::print(session.graph()));
  std::string command = fmt::format("driftc compare {}", shell_quoted(folder + "/source.gir"));
  if (const auto inputs = session.inputs()) {
    FileNames names;
    for (const auto& input : **inputs) {
      const std::string file = fmt::format("inputs/{}.npy", names.of(input.name));
      keep(file, npy::npy_bytes(input.tensor));
      command += fmt::format(" --input {}",
                             shell_quoted(fmt::format("{}={}/{}", input.name, folder, file)));
    }
  }
  if (auto compiled = runtime::study::compile(session.graph(), settings, session.services())) {
    keep("compiled.gir", ir::print(compiled->graph));
    if (const auto sources = kernel_sources(compiled->graph)) {
      FileNames names;
      for (const KernelSource& kernel : *sources)
        keep(fmt::format("kernels/{}.cu", names.of(kernel.entry + "@" + kernel.value)),
             kernel.source);
    }
  }
  // The settings as they were given.
  std::string passes;
  for (const std::string& pass : settings.selection.enabled) passes += ",+" + pass;
  command += fmt::format(" --mode {} --passes none{} --device {}",
                         passes::name_of(settings.selection.mode), passes, settings.device.name);
  for (const auto& [key, value] : settings.selection.options.values())
    command += fmt::format(" --set {}={}", key, value);
  if (settings.eager_order)
    command += " --eager-order " + shell_quoted(ir::to_string(*settings.eager_order));
  if (!settings.fallback.empty()) {
    std::string list;
    for (const std::string& node : settings.fallback) list += (list.empty() ? "" : ",") + node;
    command += " --fallback " + shell_quoted(list);
  }
  if (settings.check) command += " --check";
  keep("reproduce.sh", command + "\n");
  error.notes.push_back("this is a fault of driftc; everything to see it again is in " + folder);
  error.notes.push_back("reproduce with: " + command);
  return error;
}

}  // namespace driftc::frontend
