// driftc show --stage tree: finds the element's operands, the two orders, and prints their steps.
#pragma once

#include "frontend/cli/session.h"

namespace driftc::frontend {

struct TreeRequest {
  std::string node;
  std::vector<std::int64_t> index;
  std::vector<ir::ReductionOrder> orders;  // at most two
};
Result<TreeRequest> tree_request(const Arguments& arguments);

Result<int> show_tree(const TreeRequest& request, Session& session,
                      const runtime::study::PairSettings& settings, const Context& context);

}  // namespace driftc::frontend
