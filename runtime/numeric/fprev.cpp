#include "runtime/numeric/fprev.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace driftc::runtime {
namespace {

struct Built {
  SumTree root;
  std::int64_t complete;  // leaves of the whole subtree that the root belongs to
};

class Builder {
 public:
  Builder(std::int64_t n, const SurvivingUnits& surviving) : n_(n), surviving_(surviving) {}

  Result<Built> build(const std::vector<std::int64_t>& set) {
    const std::int64_t i = set.front();
    Built out{SumTree{{}, i}, 1};
    if (set.size() == 1) return out;
    std::map<std::int64_t, std::vector<std::int64_t>> by_size;
    for (std::size_t k = 1; k < set.size(); ++k) {
      DRIFTC_TRY(size, common(i, set[k]));
      by_size[size].push_back(set[k]);
    }
    for (const auto& [size, members] : by_size) {
      DRIFTC_TRY(other, build(members));
      if (other.complete == static_cast<std::int64_t>(members.size())) {
        out.root = SumTree{{std::move(out.root), std::move(other.root)}, 0};
      } else {
        // Members of one node with several children, only partly seen from below.
        other.root.children.push_back(std::move(out.root));
        out.root = std::move(other.root);
      }
    }
    out.complete = by_size.rbegin()->first;
    return out;
  }
  std::int64_t calls() const { return calls_; }

 private:
  // Leaves under the lowest node that holds both.
  Result<std::int64_t> common(std::int64_t i, std::int64_t j) {
    ++calls_;
    DRIFTC_TRY(units, surviving_(i, j));
    const double whole = std::nearbyint(units);
    if (!(whole == units && whole >= 0 && whole <= static_cast<double>(n_ - 2)))
      return input_error(
          fmt::format("summands {} and {} leave {} of {} units: no fixed tree adds "
                      "them",
                      i, j, units, n_ - 2));
    return n_ - static_cast<std::int64_t>(whole);
  }

  std::int64_t n_;
  const SurvivingUnits& surviving_;
  std::int64_t calls_ = 0;
};

}  // namespace

std::int64_t leaves(const SumTree& tree) {
  if (tree.children.empty()) return 1;
  std::int64_t total = 0;
  for (const SumTree& child : tree.children) total += leaves(child);
  return total;
}

std::string shape_of(const SumTree& tree) {
  // Along the child with most leaves: the chain that the others join.
  std::vector<std::pair<std::size_t, std::int64_t>> runs;  // arity and how often in a row
  std::int64_t largest_other = 0;
  const SumTree* at = &tree;
  while (!at->children.empty()) {
    if (runs.empty() || runs.back().first != at->children.size())
      runs.emplace_back(at->children.size(), 0);
    ++runs.back().second;
    const SumTree* next = &at->children.front();
    for (const SumTree& child : at->children)
      if (leaves(child) > leaves(*next)) next = &child;
    for (const SumTree& child : at->children)
      if (&child != next) largest_other = std::max(largest_other, leaves(child));
    at = next;
  }
  std::string out;
  for (const auto& [arity, count] : runs)
    out += fmt::format("{}{}-way x{}", out.empty() ? "" : ", ", arity, count);
  if (runs.empty()) return "one leaf";
  return fmt::format("{} leaves: {} from the root{}", leaves(tree), out,
                     largest_other <= 1
                         ? ", a chain"
                         : fmt::format(", joined by subtrees of up to {}", largest_other));
}

Result<SumTree> reveal_tree(std::int64_t n, const SurvivingUnits& surviving, std::int64_t* calls) {
  DRIFTC_ASSERT(n >= 1, "a sum of nothing");
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  Builder builder(n, surviving);
  auto built = builder.build(all);
  if (calls != nullptr) *calls = builder.calls();
  if (!built) return built.error();
  if (built->complete != n || leaves(built->root) != n)
    return input_error("the answers fit no tree");
  return std::move(built->root);
}

}  // namespace driftc::runtime
