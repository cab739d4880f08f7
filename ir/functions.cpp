#include "ir/functions.h"

namespace driftc::ir {
namespace {

constexpr FunctionInfo kFunctions[] = {
#define FUNCTION(enumerator, name, operands, scalars) \
  {Function::enumerator, #name, operands, scalars},
#include "ir/functions.def"
#undef FUNCTION
};

Function rounding_to(std::string_view type) {
  return type == "f16"    ? Function::kRoundF16
         : type == "bf16" ? Function::kRoundBf16
                          : Function::kRoundF32;
}

}  // namespace

const FunctionInfo& info(Function function) {
  return kFunctions[static_cast<std::size_t>(function)];
}
std::span<const FunctionInfo> all_functions() { return kFunctions; }

std::optional<FunctionCall> function_call(const Node& node) {
  switch (node.op) {
    case Op::kSqrt:
      return FunctionCall{Function::kSqrt, {}};
    case Op::kExp:
      return FunctionCall{Function::kExp, {}};
    case Op::kLog:
      return FunctionCall{Function::kLog, {}};
    case Op::kErf:
      return FunctionCall{Function::kErf, {}};
    case Op::kAbs:
      return FunctionCall{Function::kAbs, {}};
    case Op::kNeg:
      return FunctionCall{Function::kNeg, {}};
    case Op::kSigmoid:
      return FunctionCall{Function::kSigmoid, {}};
    case Op::kTanh:
      return FunctionCall{Function::kTanh, {}};
    case Op::kSoftplus:
      return FunctionCall{Function::kSoftplus, {}};
    case Op::kGelu:
      return FunctionCall{node.word("form") == "tanh" ? Function::kGeluTanh : Function::kGelu, {}};
    case Op::kElu:
      return FunctionCall{Function::kElu, {node.number("alpha")}};
    case Op::kLeakyRelu:
      return FunctionCall{Function::kLeakyRelu, {node.number("alpha")}};
    case Op::kHardSigmoid:
      return FunctionCall{Function::kHardSigmoid, {node.number("alpha"), node.number("beta")}};
    case Op::kHardSwish:
      return FunctionCall{Function::kHardSwish, {}};
    case Op::kCast:
      return FunctionCall{rounding_to(node.word("to")), {}};
    case Op::kPrelu:
      return FunctionCall{Function::kPrelu, {}};
    case Op::kMax:
      return FunctionCall{Function::kMax, {}};
    case Op::kMin:
      return FunctionCall{Function::kMin, {}};
    case Op::kPow:
      return FunctionCall{Function::kPow, {}};
    default:
      return std::nullopt;
  }
}

}  // namespace driftc::ir
