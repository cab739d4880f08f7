#include "frontend/onnx/graph_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>

#include "frontend/onnx/names.h"

namespace driftc::frontend::onnx {

std::string describe(const NodeProto& node) {
  const std::string op = quoted(node.op_type);
  const std::string bare_op = op.substr(1, op.size() - 2);
  if (!node.name.empty()) return fmt::format("node {} ({})", quoted(node.name), bare_op);
  const std::string_view output = node.outputs.empty() ? std::string_view() : node.outputs[0];
  return fmt::format("node making {} ({})", quoted(output), bare_op);
}

namespace {

class Orderer {
 public:
  explicit Orderer(const GraphProto& graph) : graph_(graph) {}

  Result<GraphOrder> run() {
    DRIFTC_CHECK(collect_names());
    DRIFTC_CHECK(mark_needed());
    if (already_sorted()) {
      for (std::uint32_t i = 0; i < needed_.size(); ++i)
        if (needed_[i]) out_.nodes.push_back(i);
    } else {
      DRIFTC_CHECK(sort());
    }
    return std::move(out_);
  }

 private:
  static Result<void> check_name(std::string_view name, const char* what) {
    if (name.size() > kMaxNameBytes)
      return input_error(fmt::format("the name of {} has {} bytes, allowed are {}: {}", what,
                                     name.size(), kMaxNameBytes, quoted(name)));
    if (!is_utf8(name))
      return input_error(fmt::format("the name of {} is not UTF-8: {}", what, quoted(name)));
    return {};
  }

  Result<void> collect_names() {
    DRIFTC_CHECK(check_name(graph_.name, "the graph"));
    for (const Named& tensor : graph_.initializers) {
      DRIFTC_CHECK(check_name(tensor.name, "an initializer"));
      if (tensor.name.empty()) return input_error("an initializer has no name");
      if (!out_.providers.emplace(tensor.name, GraphOrder::kGiven).second)
        return input_error(fmt::format("two initializers are called {}", quoted(tensor.name)));
    }
    std::unordered_map<std::string_view, bool> inputs;
    for (const Named& input : graph_.inputs) {
      DRIFTC_CHECK(check_name(input.name, "an input"));
      if (input.name.empty()) return input_error("a graph input has no name");
      if (!inputs.emplace(input.name, true).second)
        return input_error(fmt::format("two graph inputs are called {}", quoted(input.name)));
      out_.providers.emplace(input.name, GraphOrder::kGiven);
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const NodeProto& node = graph_.nodes[i];
      DRIFTC_CHECK(check_name(node.name, "a node"));
      for (std::string_view output : node.outputs) {
        if (output.empty()) continue;  // an optional output that is not wanted
        DRIFTC_CHECK(check_name(output, "a value"));
        const auto [at, inserted] = out_.providers.emplace(output, static_cast<std::int64_t>(i));
        if (inserted) continue;
        const std::string other =
            at->second == GraphOrder::kGiven
                ? std::string("an input or initializer has that name already")
                : describe(graph_.nodes[static_cast<std::size_t>(at->second)]) +
                      " makes it already";
        return input_error(
            fmt::format("{} makes {}, but {}", describe(node), quoted(output), other),
            "every tensor name may be defined once");
      }
    }
    return {};
  }

  Diagnostic missing(const std::string& reader, std::string_view name) const {
    // A hint is worth a bounded search only.
    std::vector<std::string> candidates;
    for (const auto& [known, provider] : out_.providers) {
      if (candidates.size() == 2000) break;
      const std::size_t longer = std::max(known.size(), name.size());
      if (longer < 200 && longer - std::min(known.size(), name.size()) <= longer / 3)
        candidates.emplace_back(known);
    }
    std::sort(candidates.begin(), candidates.end());
    const std::string near = nearest_name(name, candidates);
    return input_error(fmt::format("{} {}, which nothing provides", reader, quoted(name)),
                       near.empty() ? "it is no input, initializer or node output of this graph"
                                    : "did you mean " + quoted(near) + "?");
  }

  Result<void> mark_needed() {
    needed_.assign(graph_.nodes.size(), false);
    std::vector<std::uint32_t> stack;
    const auto visit = [&](std::int64_t provider) {
      if (provider == GraphOrder::kGiven || needed_[static_cast<std::size_t>(provider)]) return;
      needed_[static_cast<std::size_t>(provider)] = true;
      stack.push_back(static_cast<std::uint32_t>(provider));
    };
    for (const Named& output : graph_.outputs) {
      const auto found = out_.providers.find(output.name);
      if (output.name.empty() || found == out_.providers.end())
        return missing("the graph returns", output.name);
      visit(found->second);
    }
    while (!stack.empty()) {
      const NodeProto& node = graph_.nodes[stack.back()];
      stack.pop_back();
      for (std::string_view input : node.inputs) {
        if (input.empty()) continue;  // an optional input that is not given
        const auto found = out_.providers.find(input);
        if (found == out_.providers.end()) return missing(describe(node) + " reads", input);
        visit(found->second);
      }
    }
    return {};
  }

  // The nodes `index` waits for: producers of its inputs.
  template <class F>
  void for_each_producer(std::uint32_t index, F&& f) const {
    for (std::string_view input : graph_.nodes[index].inputs) {
      if (input.empty()) continue;
      const std::int64_t provider = out_.providers.at(input);
      if (provider != GraphOrder::kGiven) f(static_cast<std::uint32_t>(provider));
    }
  }
  bool already_sorted() const {
    bool sorted = true;
    for (std::uint32_t i = 0; i < needed_.size() && sorted; ++i)
      if (needed_[i]) for_each_producer(i, [&](std::uint32_t p) { sorted = sorted && p < i; });
    return sorted;
  }

  Result<void> sort() {
    const std::size_t count = graph_.nodes.size();
    std::vector<std::uint32_t> waiting(count, 0);
    std::vector<std::vector<std::uint32_t>> users(count);
    std::size_t total = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!needed_[i]) continue;
      ++total;
      for_each_producer(i, [&](std::uint32_t p) {
        users[p].push_back(i);
        ++waiting[i];
      });
    }
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
    for (std::uint32_t i = 0; i < count; ++i)
      if (needed_[i] && waiting[i] == 0) ready.push(i);
    while (!ready.empty()) {
      const std::uint32_t i = ready.top();
      ready.pop();
      out_.nodes.push_back(i);
      for (std::uint32_t user : users[i])
        if (--waiting[user] == 0) ready.push(user);
    }
    if (out_.nodes.size() == total) return {};
    return cycle(waiting);
  }

  // Every node that still waits has a producer that waits: following those must come back.
  Diagnostic cycle(const std::vector<std::uint32_t>& waiting) const {
    std::uint32_t at = 0;
    while (waiting[at] == 0) ++at;
    std::vector<std::uint32_t> path;
    std::vector<bool> seen(waiting.size(), false);
    while (!seen[at]) {
      seen[at] = true;
      path.push_back(at);
      std::uint32_t next = at;
      for_each_producer(at, [&](std::uint32_t p) {
        if (waiting[p] > 0) next = p;
      });
      at = next;
    }
    const auto start = std::find(path.begin(), path.end(), at) - path.begin();
    Diagnostic d = input_error(
        fmt::format("the graph has a cycle of {} node(s) through {}",
                    path.size() - static_cast<std::size_t>(start), describe(graph_.nodes[at])),
        "an ONNX graph must be acyclic");
    for (std::size_t i = static_cast<std::size_t>(start); i < path.size(); ++i) {
      if (d.notes.size() == 5) {
        d.notes.emplace_back("...");
        break;
      }
      const std::size_t next = i + 1 < path.size() ? path[i + 1] : at;
      d.notes.push_back(fmt::format("{} reads from {}", describe(graph_.nodes[path[i]]),
                                    describe(graph_.nodes[next])));
    }
    return d;
  }

  const GraphProto& graph_;
  GraphOrder out_;
  std::vector<bool> needed_;
};

}  // namespace

Result<GraphOrder> order_graph(const GraphProto& graph) { return Orderer(graph).run(); }

}  // namespace driftc::frontend::onnx
