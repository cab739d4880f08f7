#include "codegen/resources.h"

#include <charconv>

namespace driftc::codegen {
namespace {

// The number that stands before `words`, or empty.
std::optional<std::int64_t> number_before(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == std::string_view::npos) return std::nullopt;
  std::size_t begin = at;
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + at, value);
  if (begin == at || error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<KernelResources> resources_of(std::string_view log) {
  const std::size_t entry = log.find("Compiling entry function");
  if (entry == std::string_view::npos) return std::nullopt;
  log.remove_prefix(entry);
  log = log.substr(0, log.find("Compiling entry function", 1));
  const auto registers = number_before(log, " registers");
  if (!registers || *registers > 1024) return std::nullopt;
  KernelResources out;
  out.registers = static_cast<int>(*registers);
  out.shared_bytes = number_before(log, " bytes smem").value_or(0);
  out.spilled_bytes = number_before(log, " bytes spill stores").value_or(0);
  return out;
}

}  // namespace driftc::codegen
