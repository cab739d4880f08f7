#include "runtime/ptx/mma.h"

#include <algorithm>
#include <array>

namespace driftc::runtime::ptx {
namespace {

struct Row {
  std::string_view shape;
  Type operand;
  int k, a_regs, b_regs, first_sm;
  int last_sm = 1000;
};
// m8n8k4 is the instruction of sm_70 alone: later chips take it, and compute it by other means.
constexpr std::array kRows = {
    Row{"m8n8k4", Type::kF16, 4, 2, 2, 70, 70}, Row{"m16n8k8", Type::kF16, 8, 2, 1, 75},
    Row{"m16n8k16", Type::kF16, 16, 4, 2, 80},  Row{"m16n8k8", Type::kBF16, 8, 2, 1, 80},
    Row{"m16n8k16", Type::kBF16, 16, 4, 2, 80}, Row{"m16n8k4", Type::kTF32, 4, 2, 1, 80},
    Row{"m16n8k8", Type::kTF32, 8, 4, 2, 80},
};

}  // namespace

Result<MmaShape> mma_shape(std::string_view target, const std::vector<std::string>& flags,
                           const std::vector<Type>& types) {
  const auto has = [&](std::string_view flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  const auto refused = [](std::string why) { return internal_error(std::move(why)); };
  if (types.size() != 4 || flags.size() != 5 || !has("sync") || !has("aligned") || !has("row") ||
      !has("col") || types[1] != types[2] || types[0] != types[3])
    return refused("is not modelled bit-exactly");
  const bool half = types[0] == Type::kF16;
  if (!half && types[0] != Type::kF32) return refused("is not modelled bit-exactly");
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) {
    return has(r.shape) && r.operand == types[1];
  });
  if (row == kRows.end()) return refused("is not modelled bit-exactly");

  std::string arch(target);  // "sm_90a" has the cores of sm_90
  while (!arch.empty() && (arch.back() < '0' || arch.back() > '9')) arch.pop_back();
  const TcFormat format = row->operand == Type::kF16    ? TcFormat::kF16
                          : row->operand == Type::kBF16 ? TcFormat::kBf16
                                                        : TcFormat::kTf32;
  const auto core = tensor_core(arch, format, half ? TcAccumulator::kF16 : TcAccumulator::kF32);
  const int sm = arch.starts_with("sm_") ? std::atoi(arch.c_str() + 3) : 0;
  if (!core || sm < row->first_sm)
    return refused("needs a tensor core that " + std::string(target) + " does not have");
  if (sm > row->last_sm)
    return refused("is not modelled bit-exactly on " + std::string(target) + ", which emulates it");
  return MmaShape{*core, row->k, row->a_regs, row->b_regs, half ? 2 : 4, row->shape == "m8n8k4", 0};
}

}  // namespace driftc::runtime::ptx
