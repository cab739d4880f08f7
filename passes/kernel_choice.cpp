#include "passes/kernel_choice.h"

#include <fmt/format.h>

#include "ir/schedule.h"
#include "passes/tiling.h"

namespace driftc::passes {

std::string to_string(const KernelChoice& choice) {
  const ir::Schedule& s = choice.schedule;
  std::string out(ir::name_of(choice.algorithm));
  if (choice.filters == ir::Precision::kF64) out += ":f64";
  if (s.block_m > 0)
    out += fmt::format(" {}x{}x{} ({}x{}){}", s.block_m, s.block_n, s.block_k, s.thread_m,
                       s.thread_n, s.vector == 1 ? "" : fmt::format(" vector{}", s.vector));
  if (choice.split > 1)
    out += fmt::format(" split{}{}", choice.split,
                       choice.combine == ir::SplitCombine::kPairwise ? "p"
                       : choice.combine == ir::SplitCombine::kAtomic ? "a"
                                                                     : "");
  if (choice.bias_first) out += " bias.first";
  return out;
}

const KernelChoice* choice_for(const KernelChoices* choices, const ir::Kernel& kernel) {
  if (choices == nullptr) return nullptr;
  const ir::Node* node = ir::reduction_node(kernel.body);
  if (node == nullptr) return nullptr;
  const auto found = choices->find(kernel.body.value(node->result).name);
  return found == choices->end() ? nullptr : &found->second;
}

KernelChoice choice_of(const ir::Kernel& kernel) {
  const ir::ReductionOrder& order = *kernel.contract.order;
  return {kernel.algorithm,
          kernel.schedule,
          order.split,
          order.combine,
          order.bias == ir::BiasPoint::kFirst,
          kernel.contract.transform.filters};
}

ir::ReductionOrder order_for(ir::Algorithm algorithm, const ir::ReductionOrder& order) {
  if (algorithm == ir::Algorithm::kDirect) return with_split(order, 1, ir::SplitCombine::kSerial);
  return ir::winograd_tile(algorithm) == 0 ? order : ir::channel_sums(order);
}

ir::NumericContract contract_for(ir::Algorithm algorithm, ir::Precision filters,
                                 ir::NumericContract contract) {
  contract.order = order_for(algorithm, *contract.order);
  contract.transform = {};
  if (const int m = ir::winograd_tile(algorithm); m != 0) contract.transform = {m, filters};
  return contract;
}

void set_algorithm(ir::Kernel& kernel, ir::Algorithm algorithm, ir::Precision filters) {
  kernel.algorithm = algorithm;
  kernel.contract = contract_for(algorithm, filters, kernel.contract);
}

namespace {

// The same in one place for asking and for doing.
ir::NumericContract chosen_contract(const ir::Kernel& kernel, const KernelChoice& choice) {
  ir::NumericContract out = kernel.contract;
  if (choice.algorithm != kernel.algorithm)
    out = contract_for(choice.algorithm, choice.filters, out);
  out.order = with_split(*out.order, choice.split, choice.combine);
  if (choice.bias_first) out.order->bias = ir::BiasPoint::kFirst;
  return out;
}

}  // namespace

std::string why_not(const ir::Kernel& kernel, const KernelChoice& choice) {
  const ir::Node* node = ir::reduction_node(kernel.body);
  if (node == nullptr || !kernel.contract.order) return "it has no reduction";
  if (choice.algorithm != kernel.algorithm)
    if (std::string why = ir::why_not(choice.algorithm, kernel.body, *node); !why.empty())
      return why;
  if (choice.bias_first && kernel.contract.order->bias == ir::BiasPoint::kNone)
    return "it has no bias";
  const ir::ReductionOrder order = *chosen_contract(kernel, choice).order;
  if (!ir::supports_order(choice.algorithm, order))
    return "it has no order " + ir::to_string(order);
  const auto checked = order.arith == ir::Arith::kMma
                           ? ir::check_mma_schedule(choice.schedule, order.mma)
                           : ir::check_schedule(choice.algorithm, choice.schedule);
  return checked.ok() ? "" : checked.error().message;
}

void set_choice(ir::Kernel& kernel, const ir::Kernel& base, const KernelChoice& choice) {
  kernel.algorithm = choice.algorithm;
  kernel.contract = chosen_contract(base, choice);
  kernel.schedule = choice.schedule;
}

ir::Kernel with_choice(const ir::Kernel& kernel, const KernelChoice& choice) {
  DRIFTC_ASSERT(why_not(kernel, choice).empty(), "a choice that does not fit");
  ir::Kernel out = kernel;
  set_choice(out, kernel, choice);
  return out;
}

}  // namespace driftc::passes
