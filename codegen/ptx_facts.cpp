#include "codegen/ptx_facts.h"

#include <fmt/format.h>

#include <algorithm>

namespace driftc::codegen {
namespace {

bool has(std::string_view opcode, std::string_view part) {  // a whole ".part"
  for (std::size_t at = opcode.find(part); at != std::string_view::npos;
       at = opcode.find(part, at + 1)) {
    const std::size_t end = at + part.size();
    if (end == opcode.size() || opcode[end] == '.') return true;
  }
  return false;
}

}  // namespace

PtxFacts ptx_facts(std::string_view ptx) {
  PtxFacts facts;
  while (!ptx.empty()) {
    std::size_t end = ptx.find('\n');
    if (end == std::string_view::npos) end = ptx.size();
    std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(std::min(ptx.size(), end + 1));
    line = line.substr(0, line.find("//"));
    std::size_t start = line.find_first_not_of(" \t{");
    if (start == std::string_view::npos) continue;
    line.remove_prefix(start);
    if (line[0] == '@') {  // guard
      start = line.find(' ');
      if (start == std::string_view::npos) continue;
      line.remove_prefix(line.find_first_not_of(" \t", start));
    }
    const std::string_view op = line.substr(0, line.find_first_of(" \t;"));
    if (op.empty() || op[0] < 'a' || op[0] > 'z') continue;
    const bool floating = has(op, ".f32") || has(op, ".f64") || has(op, ".f16") ||
                          has(op, ".f16x2") || has(op, ".bf16") || has(op, ".bf16x2");
    bool offence = false;
    if (has(op, ".approx") || has(op, ".full")) ++facts.approx, offence = true;
    if (has(op, ".ftz")) ++facts.ftz, offence = true;
    if (op.starts_with("mma.")) ++facts.mma;
    if (floating) {
      const bool rounded = has(op, ".rn") || has(op, ".rz") || has(op, ".rm") || has(op, ".rp");
      if (op.starts_with("fma.")) ++facts.fma_rn;
      if (op.starts_with("mul.")) {
        ++(rounded ? facts.mul_rn : facts.mul_unsuffixed);
        offence |= !rounded;
      }
      if (op.starts_with("add.") || op.starts_with("sub.")) {
        ++(rounded ? facts.add_rn : facts.add_unsuffixed);
        offence |= !rounded;
      }
    }
    if (offence &&
        std::find(facts.offences.begin(), facts.offences.end(), op) == facts.offences.end())
      facts.offences.emplace_back(op);
  }
  return facts;
}

Result<void> check_ptx(std::string_view ptx, std::string_view name) {
  const PtxFacts facts = ptx_facts(ptx);
  if (facts.offences.empty()) return {};
  return internal_error(fmt::format(
      "the PTX of '{}' holds {}: its bits would depend on the assembler", name, facts.offences[0]));
}

}  // namespace driftc::codegen
