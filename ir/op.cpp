#include "ir/op.h"

#include <charconv>
#include <limits>
#include <sstream>

#include "ir/support/assert.h"
#include "ir/text.h"

namespace driftc::ir {
namespace {

AttributeValue parse_default(AttributeType type, std::string_view text) {
  switch (type) {
    case AttributeType::kInt:
      return static_cast<std::int64_t>(std::stoll(std::string(text)));
    case AttributeType::kFloat: {
      auto value = parse_number(text);
      DRIFTC_ASSERT(value.has_value(), "float default in ops.def");
      return *value;
    }
    case AttributeType::kWord:
      return std::string(text);
    case AttributeType::kInts:
      break;
  }
  std::vector<std::int64_t> values;
  std::int64_t value = 0;
  for (const char* p = text.data() + 1; p < text.data() + text.size() - 1;) {
    p = std::from_chars(p, text.data() + text.size(), value).ptr + 1;
    values.push_back(value);
  }
  return values;
}

std::vector<AttributeSpec> parse_attributes(std::string_view text) {
  std::vector<AttributeSpec> out;
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const std::size_t colon = word.find(':'), equals = word.find('=');
    AttributeSpec spec;
    spec.name = word.substr(0, colon);
    const std::string type =
        word.substr(colon + 1, equals == std::string::npos ? equals : equals - colon - 1);
    spec.type = type == "ints"    ? AttributeType::kInts
                : type == "int"   ? AttributeType::kInt
                : type == "float" ? AttributeType::kFloat
                                  : AttributeType::kWord;
    if (equals != std::string::npos)
      spec.fallback = parse_default(spec.type, std::string_view(word).substr(equals + 1));
    out.push_back(std::move(spec));
  }
  return out;
}

OpInfo make(Op op, std::string_view name, int min_operands, int max_operands,
            std::string_view attributes, OpClass op_class, std::string_view walks,
            std::string_view evaluation, std::string_view doc) {
  OpInfo row{op, name, min_operands, max_operands, op_class, parse_attributes(attributes),
             {}, {},   evaluation,   doc};
  if (!walks.empty()) {
    const std::size_t space = walks.find(' ');
    auto order = parse_order(walks.substr(0, space));
    DRIFTC_ASSERT(order.ok(), "default order in ops.def");
    row.default_order = order.value();
    for (std::size_t at = space + 1; at <= walks.size();) {
      std::size_t end = walks.find(' ', at);
      if (end == std::string_view::npos) end = walks.size();
      row.walks.push_back(walks.substr(at, end - at));
      at = end + 1;
    }
  }
  return row;
}

const std::vector<OpInfo>& table() {
  static const std::vector<OpInfo> rows = {
#define OP(enumerator, name, lo, hi, attributes, op_class, walks, evaluation, doc) \
  make(Op::enumerator, name, lo, hi, attributes, OpClass::op_class, walks, evaluation, doc),
#include "ir/ops.def"
#undef OP
  };
  return rows;
}

}  // namespace

const OpInfo& info(Op op) { return table()[static_cast<std::size_t>(op)]; }
std::span<const OpInfo> all_ops() { return table(); }
std::optional<Op> parse_op(std::string_view name) {
  for (const OpInfo& row : table())
    if (row.name == name) return row.op;
  return std::nullopt;
}
std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpInfo& row : table()) names.emplace_back(row.name);
  return names;
}

bool order_fits(Op op, const ReductionOrder& order) {
  const OpInfo& row = info(op);
  if (!row.default_order) return false;
  // Ops without products (pool, mean, softmax) take the product-free arithmetics and the reverse.
  const bool products = row.op_class == OpClass::conv || row.op_class == OpClass::matmul;
  if (products && order.arith == Arith::kAdd) return false;
  if (!products &&
      (order.arith == Arith::kFma || order.arith == Arith::kMulAdd || order.arith == Arith::kMma))
    return false;
  std::string_view walk;
  switch (order.walk) {
    case Walk::kK:
      walk = "k";
      break;
    case Walk::kHw:
      walk = "hw";
      break;
    case Walk::kCrs:
      walk = "crs";
      break;
    case Walk::kRsc:
      walk = "rsc";
      break;
    case Walk::kTiledCrs:
      walk = "cNrs";
      break;
  }
  for (std::string_view w : row.walks)
    if (w == walk) return true;
  return false;
}

}  // namespace driftc::ir
