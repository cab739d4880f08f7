#include "frontend/cli/tuning_option.h"

#include <fmt/format.h>

#include <filesystem>

#include "frontend/cli/output.h"
#include "frontend/report/table.h"
#include "frontend/tuning/tuning_file.h"
#include "runtime/study/tuning.h"

namespace driftc::frontend {
namespace {

using runtime::study::TunedProblems;
using runtime::study::Tuning;

// What the file holds; nothing where it does not exist yet.
Result<TunedProblems> read_tuning(const std::string& path, const std::string& device) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return TunedProblems();
  DRIFTC_TRY(text, read_file(path));
  DRIFTC_TRY(file, parse_tuning(text, path));
  if (file.device != device)
    return input_error(
        fmt::format("{}: it was tuned for {}, not for {}", path, shortened(file.device, 40),
                    device),
        fmt::format("--device {}, or another file for {}", shortened(file.device, 40), device));
  return std::move(file.problems);
}

}  // namespace

Result<void> set_tuning(const Arguments& arguments, runtime::study::PairSettings& settings) {
  const std::optional<std::string> path = arguments.value("--tuning");
  if (settings.selection.mode != passes::Mode::kMaxAutotune) {
    if (path)
      return input_error(
          fmt::format("--tuning: mode {} does not tune", passes::name_of(settings.selection.mode)),
          "--mode max-autotune");
    return {};
  }
  auto tuning = std::make_shared<Tuning>();
  tuning->device = settings.device.name;
  settings.tuning = tuning;
  if (!path) return {};
  DRIFTC_TRY(known, read_tuning(*path, tuning->device));
  DRIFTC_CHECK(check_can_write(*path));
  tuning->problems = std::move(known);
  tuning->file = *path;
  tuning->added = [file = *path, device = tuning->device](TunedProblems& all) -> Result<void> {
    // Another process may have added to the file meanwhile; what is in the file stays.
    DRIFTC_TRY(merged, read_tuning(file, device));
    merged.insert(all.begin(), all.end());
    return write_file(file, tuning_text({device, std::move(merged)}));
  };
  tuning->finished = [file = *path](std::size_t count) {
    note(fmt::format("tuned {}; {} has them", plural(static_cast<std::int64_t>(count), "kernel"),
                     file));
  };
  return {};
}

}  // namespace driftc::frontend
