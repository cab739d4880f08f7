// What a fuzzed order (or list of orders) must satisfy: an error with a column, or an order whose
// text reads back as itself and whose denotation sums every position exactly once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/numeric.h"
#include "ir/support/assert.h"

namespace driftc::fuzz {

inline void check_order_error(const Diagnostic& error, std::size_t length) {
  DRIFTC_ASSERT(error.kind == ErrorKind::kInput && !error.message.empty(), "not the user's error");
  DRIFTC_ASSERT(
      error.place.column >= 0 && static_cast<std::size_t>(error.place.column) <= length + 1,
      "a column outside the text");
}

inline void check_order(const ir::ReductionOrder& order) {
  const auto back = ir::parse_order(to_string(order));
  DRIFTC_ASSERT(back.ok() && *back == order, "an order's text reads as something else");
  const bool window = order.walk == ir::Walk::kHw;
  const ir::ReductionExtent extent = order.walk == ir::Walk::kK ? ir::ReductionExtent{37, 1, 1}
                                     : window                   ? ir::ReductionExtent{1, 3, 5}
                                                                : ir::ReductionExtent{7, 3, 2};
  // Padding to a multiple of 2^30 is legal and denotes as many zero leaves: not here.
  if (order.kpad > 4096) return;
  const ir::SumProgram program = denote(order, extent);
  std::vector<int> seen(static_cast<std::size_t>(extent.positions()), 0);
  for (const auto& chain : program.chains)
    for (const std::int32_t leaf : chain.leaves)
      if (leaf != ir::SumProgram::kZeroLeaf) ++seen[static_cast<std::size_t>(leaf)];
  for (const int count : seen) DRIFTC_ASSERT(count == 1, "a position is not summed once");
}

inline void order_text(std::string_view text) {
  if (text.size() > 4096) return;
  const auto order = ir::parse_order(text);
  if (order.ok())
    check_order(*order);
  else
    check_order_error(order.error(), text.size());
  const auto list = ir::parse_order_list(text);
  if (!list.ok()) return check_order_error(list.error(), text.size());
  DRIFTC_ASSERT(!list->empty(), "an empty list");
  for (const ir::ReductionOrder& entry : *list) check_order(entry);
}

}  // namespace driftc::fuzz
