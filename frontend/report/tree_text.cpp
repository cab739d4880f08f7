#include "frontend/report/tree_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ir/support/round.h"
#include "ir/text.h"
#include "runtime/compare/metrics.h"

namespace driftc::frontend {
namespace {

using runtime::study::SumOperands;
using runtime::study::SumTrace;
using runtime::study::TreeStep;

constexpr std::size_t kLongChain = 64;
constexpr std::size_t kHead = 6, kTail = 3, kAround = 2;  // steps shown of a folded chain

std::string decimal(double value, bool wide) {
  return wide ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
}
std::string hex(double value, bool wide) {
  return wide ? ir::hex_float(value) : ir::hex_float(static_cast<float>(value));
}

std::string position_text(std::int32_t position, const SumOperands& operands) {
  if (position == ir::SumProgram::kZeroLeaf) return "pad";
  const auto& e = operands.extent;
  if (e.r * e.s == 1) return fmt::format("{}", position);
  const std::int64_t s = position % e.s, r = position / e.s % e.r, c = position / (e.r * e.s);
  return e.c == 1 ? fmt::format("{},{}", r, s) : fmt::format("{},{},{}", c, r, s);
}

std::string step_text(const TreeStep& step, const SumTrace& trace, const SumOperands& operands) {
  const std::string prefix = trace.chain_lengths.size() > 1 ? fmt::format("s{}: ", step.chain) : "";
  switch (step.kind) {
    case TreeStep::Kind::kStart:
      return prefix + "start";
    case TreeStep::Kind::kLeaf:
      return prefix + "+ " + position_text(step.position, operands);
    case TreeStep::Kind::kBlock:
      return prefix + fmt::format("= block of {}", step.position);
    case TreeStep::Kind::kAdd:
      return fmt::format("s{} + s{}", step.chain, step.from);
    case TreeStep::Kind::kFinish:
      return step.what;
  }
  return "";
}

enum class Visibility : std::uint8_t { kFolded, kLeaf, kAlways };

// How much each step of a trace asks to be shown: leaves in the middle of long chains do not.
std::vector<Visibility> visibilities(const SumTrace& trace) {
  std::vector<Visibility> out;
  std::size_t place = 0;  // within the chain
  for (const TreeStep& step : trace.steps) {
    if (step.kind == TreeStep::Kind::kStart) place = 0;
    // Blocks of a long chain are folded with the leaves around them.
    if (step.kind == TreeStep::Kind::kBlock && !out.empty()) {
      out.push_back(out.back());
      continue;
    }
    if (step.kind != TreeStep::Kind::kLeaf) {
      out.push_back(Visibility::kAlways);
      continue;
    }
    const std::size_t length = trace.chain_lengths[static_cast<std::size_t>(step.chain)];
    const bool folded = length > kLongChain && place >= kHead && place + kTail < length;
    out.push_back(folded ? Visibility::kFolded : Visibility::kLeaf);
    ++place;
  }
  return out;
}

// A row is left out where one side is folded and the other side has no more than another leaf.
std::vector<bool> shown_rows(const SumTrace& left, const SumTrace& right,
                             std::optional<std::size_t> first) {
  const std::vector<Visibility> a = visibilities(left), b = visibilities(right);
  std::vector<bool> shown(std::max(a.size(), b.size()), true);
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const bool folded = (i < a.size() && a[i] == Visibility::kFolded) ||
                        (i < b.size() && b[i] == Visibility::kFolded);
    const bool needed = (i < a.size() && a[i] == Visibility::kAlways) ||
                        (i < b.size() && b[i] == Visibility::kAlways);
    const bool near = first && i + kAround >= *first && i <= *first + kAround;
    shown[i] = !folded || needed || near;
  }
  return shown;
}

}  // namespace

std::string tree_text(const SumOperands& operands, const SumTrace& left, const SumTrace& right,
                      const TreeView& view, const TextStyle& style) {
  const std::int64_t padding = std::count(operands.padded.begin(), operands.padded.end(), true);
  std::string out =
      fmt::format("{} = {}: {} {}{}", printable(view.element), view.op, operands.extent.positions(),
                  operands.products ? "products" : "values",
                  padding > 0 ? fmt::format(", {} of them padding", padding) : "");
  if (operands.bias) out += fmt::format(", bias {}", *operands.bias);
  out += fmt::format("\n  A  {}\n  B  {}\n", view.left_title, view.right_title);
  if (!view.remark.empty()) out += "  " + view.remark + "\n";
  const auto& e = operands.extent;
  if (operands.products)
    out += fmt::format("  \"+ {}\" adds the product at {}\n", e.r * e.s == 1 ? "k" : "c,r,s",
                       e.r * e.s == 1 ? "position k" : "channel c, kernel row r, kernel column s");
  if (left.order.arith == ir::Arith::kMma || right.order.arith == ir::Arith::kMma)
    out +=
        "  \"= block of n\" adds the n products before it at once: aligned, truncated, rounded "
        "once\n";
  out += "\n";

  const std::size_t rows = std::max(left.steps.size(), right.steps.size());
  const std::optional<std::size_t> first = runtime::study::first_difference(left, right);
  const std::vector<bool> shown = shown_rows(left, right, first);

  using Align = Table::Align;
  Table table({{"step", Align::kRight},
               {"A"},
               {"partial sum", Align::kRight},
               {"bits"},
               {"B"},
               {"partial sum", Align::kRight},
               {"bits"},
               {""}});
  std::size_t hidden = 0;
  auto flush_hidden = [&] {
    if (hidden > 0)
      table.line(coloured(fmt::format("... {} steps ...", hidden), Colour::kDim, style));
    hidden = 0;
  };
  for (std::size_t i = 0; i < rows; ++i) {
    if (!shown[i]) {
      ++hidden;
      continue;
    }
    flush_hidden();
    std::vector<std::string> cells = {std::to_string(i)};
    for (const SumTrace* trace : {&left, &right}) {
      if (i >= trace->steps.size()) {
        cells.insert(cells.end(), 3, "");
        continue;
      }
      const TreeStep& step = trace->steps[i];
      cells.push_back(step_text(step, *trace, operands));
      cells.push_back(decimal(step.partial, trace->wide && step.kind != TreeStep::Kind::kFinish));
      cells.push_back(hex(step.partial, trace->wide && step.kind != TreeStep::Kind::kFinish));
    }
    cells.push_back(first == i ? "<- first difference" : "");
    table.add(std::move(cells), 7, Colour::kYellow);
  }
  flush_hidden();
  out += table.render(style);

  const double exact = runtime::study::sum_f64(operands);
  auto line = [&](const char* name, float value) {
    return fmt::format("  {}  {:<15} 0x{:08x}  error {}\n", name, fmt::format("{}", value),
                       bits_of(value), brief(std::fabs(static_cast<double>(value) - exact)));
  };
  out += fmt::format("\nresult\n{}{}", line("A", left.result), line("B", right.result));
  out += fmt::format("  f64  {}\n", exact);
  const auto apart = std::llabs(runtime::compare::ordered(bits_of(left.result)) -
                                runtime::compare::ordered(bits_of(right.result)));
  if (bits_of(left.result) == bits_of(right.result))
    out += first ? "the same bits, by different partial sums\n" : "the same bits at every step\n";
  else
    out += fmt::format("{} ulp apart\n", brief_count(static_cast<std::uint64_t>(apart)));
  return out;
}

}  // namespace driftc::frontend
