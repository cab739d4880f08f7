// The operator table (ops.def) as types: what an op is called, which operands and attributes it
// takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/numeric.h"

namespace driftc::ir {

enum class Op : std::uint8_t {
#define OP(enumerator, ...) enumerator,
#include "ir/ops.def"
#undef OP
};

enum class OpClass : std::uint8_t { conv, matmul, pool, elementwise, data, softmax, special };

// An attribute: integers (ints, int), a float (kept in double, exact) or a word.
using AttributeValue = std::variant<std::int64_t, double, std::vector<std::int64_t>, std::string>;
enum class AttributeType : std::uint8_t { kInt, kFloat, kInts, kWord };

struct AttributeSpec {
  std::string name;
  AttributeType type;
  std::optional<AttributeValue> fallback;  // empty: required
};

struct OpInfo {
  Op op;
  std::string_view name;
  int min_operands, max_operands;  // max -1: any number
  OpClass op_class;
  std::vector<AttributeSpec> attributes;
  std::optional<ReductionOrder> default_order;  // eager's order; empty: no reduction
  std::vector<std::string_view> walks;          // texts of the walks that fit
  std::string_view evaluation, doc;
};

const OpInfo& info(Op op);
std::span<const OpInfo> all_ops();
std::optional<Op> parse_op(std::string_view name);
std::vector<std::string> op_names();
// Whether an order may be applied to the op: its walk fits (`--eager-order` leaves other ops
// alone).
bool order_fits(Op op, const ReductionOrder& order);

}  // namespace driftc::ir
