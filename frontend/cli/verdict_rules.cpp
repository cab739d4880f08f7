#include "frontend/cli/verdict_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "frontend/cli/pair_options.h"

namespace driftc::frontend {

using runtime::compare::Verdict;

namespace {

Result<std::vector<std::string>> allowed_verdicts(const Arguments& arguments) {
  const std::vector<std::string> known = {"identical", "order",       "precision",
                                          "algorithm", "unexplained", "any"};
  DRIFTC_TRY(words, split_list("--allow", arguments.value_or(
                                              "--allow", "identical,order,precision,algorithm")));
  for (const std::string& word : words)
    if (std::find(known.begin(), known.end(), word) == known.end())
      return input_error(fmt::format("--allow: unknown verdict '{}'", word),
                         name_hint(word, known));
  auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  if (has("any")) return std::vector<std::string>{"any"};
  std::vector<std::string> out;
  for (const std::string& word : known)
    if (has(word.c_str()) || (word == "identical" && has("order"))) out.push_back(word);
  return out;
}

Result<void> set_required(const std::string& text, VerdictRules& rules) {
  if (text == "conv") {
    rules.required = VerdictRules::Required::kConvolutions;
    return {};
  }
  if (text == "all") {
    rules.required = VerdictRules::Required::kAll;
    return {};
  }
  const std::string number = text.ends_with("%") ? text.substr(0, text.size() - 1) : text;
  const char* end = number.data() + number.size();
  auto [stop, status] = std::from_chars(number.data(), end, rules.required_percent);
  if (number.empty() || stop != end || status != std::errc() || !(rules.required_percent >= 0) ||
      rules.required_percent > 100)
    return input_error(fmt::format("--require-compiled: '{}' is no percentage", text),
                       "conv, all, or a number from 0 to 100");
  rules.required = VerdictRules::Required::kShare;
  return {};
}

}  // namespace

bool VerdictRules::allows(Verdict verdict) const {
  if (allowed == std::vector<std::string>{"any"}) return verdict != Verdict::kInvalid;
  return std::find(allowed.begin(), allowed.end(), runtime::compare::name_of(verdict)) !=
         allowed.end();
}

Result<VerdictRules> verdict_rules(const Arguments& arguments) {
  VerdictRules rules;
  DRIFTC_TRY(allowed, allowed_verdicts(arguments));
  rules.allowed = allowed;
  if (const std::optional<std::string> text = arguments.value("--require-compiled"))
    DRIFTC_CHECK(set_required(*text, rules));
  rules.fail_on_label_change = arguments.has("--fail-on-label-change");
  return rules;
}

std::vector<std::string> broken_rules(
    const VerdictRules& rules, Verdict verdict, const runtime::study::Coverage& c,
    const std::optional<runtime::compare::ClassChanges>& classes) {
  std::vector<std::string> out;
  if (!rules.allows(verdict)) {
    std::string list;
    for (const std::string& word : rules.allowed) list += (list.empty() ? "" : ",") + word;
    out.push_back(
        fmt::format("verdict {} is not in --allow {}", runtime::compare::name_of(verdict), list));
  }
  using Required = VerdictRules::Required;
  switch (rules.required) {
    case Required::kNothing:
      break;
    case Required::kConvolutions:
      if (c.convolutions < c.convolutions_of)
        out.push_back(fmt::format("--require-compiled conv: {} of {} convolutions are compiled",
                                  c.convolutions, c.convolutions_of));
      break;
    case Required::kAll:
      if (c.nodes < c.nodes_of)
        out.push_back(fmt::format("--require-compiled all: {} of {} nodes are compiled", c.nodes,
                                  c.nodes_of));
      break;
    case Required::kShare:
      if (c.multiply_adds * 100 < rules.required_percent)
        out.push_back(fmt::format("--require-compiled {}: {:.1f} % of multiply-adds are compiled",
                                  rules.required_percent, c.multiply_adds * 100));
      break;
  }
  if (rules.fail_on_label_change && classes && classes->changed > 0)
    out.push_back(fmt::format("the predicted class changes for {} of {} samples", classes->changed,
                              classes->of));
  return out;
}

int exit_code(Verdict verdict, const std::vector<std::string>& broken) {
  if (verdict == Verdict::kInvalid) return 2;
  return broken.empty() ? 0 : 1;
}

}  // namespace driftc::frontend
