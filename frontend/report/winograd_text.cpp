#include "frontend/report/winograd_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "ir/support/round.h"
#include "runtime/compare/metrics.h"

namespace driftc::frontend {

using runtime::study::WinogradTrace;

std::string winograd_text(const runtime::study::SumOperands& operands,
                          const runtime::study::SumTrace& left, const WinogradTrace& right,
                          const TreeView& view, const TextStyle& style) {
  using Align = Table::Align;
  const int m = right.transform.m, n = right.n;
  std::string out = fmt::format("{} = {}: {} products{}\n", printable(view.element), view.op,
                                operands.a.size(), operands.bias ? " and a bias" : "");
  out += fmt::format("  A  {}\n  B  {}\n", view.left_title, view.right_title);
  if (!view.remark.empty()) out += "  " + view.remark + "\n";
  out += fmt::format(
      "  B computes tiles of {}x{} outputs; this is ({},{}) of the one at ({},{}). M(i,j) is the "
      "sum over {}\n  channels of transformed filter times transformed data; `factor` is how often "
      "it enters the element.\n\n",
      m, m, right.row, right.column, right.tile_y, right.tile_x, right.channels);
  Table sums({{"M(i,j)"}, {"sum", Align::kRight}, {"bits"}, {"factor", Align::kRight}});
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j);
      if (right.factors[at] == 0) continue;
      sums.add({fmt::format("{},{}", i, j), fmt::format("{}", right.sums[at]),
                fmt::format("0x{:08x}", bits_of(right.sums[at])),
                fmt::format("{}", right.factors[at])});
    }
  out += sums.render(style) + "\n";
  Table steps({{"A' M, row " + std::to_string(right.row)}, {"value", Align::kRight}, {"bits"}});
  for (std::size_t j = 0; j < right.columns.size(); ++j)
    steps.add({fmt::format("column {}", j), fmt::format("{}", right.columns[j]),
               fmt::format("0x{:08x}", bits_of(right.columns[j]))});
  out += steps.render(style) + "\n";
  Table last({{"step"}, {"partial sum", Align::kRight}, {"bits"}});
  for (const WinogradTrace::Step& step : right.steps)
    last.add({step.what, fmt::format("{}", step.partial),
              fmt::format("0x{:08x}", bits_of(step.partial))});
  out += last.render(style);

  const double exact = runtime::study::sum_f64(operands);
  const auto line = [&](const char* name, float value) {
    return fmt::format("  {}  {:<15} 0x{:08x}  error {}\n", name, fmt::format("{}", value),
                       bits_of(value), brief(std::fabs(static_cast<double>(value) - exact)));
  };
  out += fmt::format("\nresult\n{}{}  f64  {}\n", line("A", left.result), line("B", right.result),
                     exact);
  const auto apart = std::llabs(runtime::compare::ordered(bits_of(left.result)) -
                                runtime::compare::ordered(bits_of(right.result)));
  return out + (apart == 0 ? std::string("the same value, by another algorithm\n")
                           : fmt::format("{} ulp apart\n",
                                         brief_count(static_cast<std::uint64_t>(apart))));
}

}  // namespace driftc::frontend
