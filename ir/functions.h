// Which function (ir/functions.def) an elementwise operator computes on each element. The functions
// themselves are steps of named roundings in ir/function_steps.h, from which the interpreter and
// the CUDA prelude both come.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace driftc::ir {

enum class Function : std::uint8_t {
#define FUNCTION(enumerator, ...) enumerator,
#include "ir/functions.def"
#undef FUNCTION
};

struct FunctionInfo {
  Function function;
  std::string_view name;
  int operands, scalars;
};
const FunctionInfo& info(Function function);
std::span<const FunctionInfo> all_functions();

// The call that a node stands for: its operands are those of the node, in order.
struct FunctionCall {
  Function function = Function::kSqrt;
  std::vector<double> scalars;
};
// Empty: the op is no function of ir/functions.def.
std::optional<FunctionCall> function_call(const Node& node);

}  // namespace driftc::ir
