#include "runtime/ptx/decode.h"

#include <fmt/format.h>

#include "runtime/ptx/flow.h"
#include "runtime/ptx/jit.h"
#include "runtime/ptx/program.h"
#include "runtime/ptx/region.h"

namespace driftc::runtime::ptx {
namespace {
// Beyond what NVRTC prints for any kernel of ours; the analyses are quadratic in these at worst.
constexpr std::size_t kMaxBlocks = 1u << 14;
constexpr std::size_t kMaxLiveness = std::size_t{1} << 28;  // blocks x registers
}  // namespace

Program::Program(std::unique_ptr<const ProgramCode> code) : code_(std::move(code)) {}
Program::~Program() = default;
const std::string& Program::name() const { return code_->name; }
std::size_t Program::parameter_bytes() const { return code_->parameter_bytes; }
std::uint32_t Program::static_shared_bytes() const { return code_->static_shared_bytes; }
std::uint32_t Program::max_threads() const { return code_->max_threads; }
bool Program::has_global_atomics() const { return code_->has_global_atomics; }
std::size_t Program::instruction_count() const { return code_->instruction_count; }

std::size_t Program::fused_regions() const { return code_->code.regions.size(); }

std::shared_ptr<const PreparedProgram> Program::prepare(const std::array<std::uint32_t, 3>& block,
                                                        Path path, bool checked) const {
  constexpr std::size_t kMaxPrepared = 16;  // a program is launched with one or two block sizes
  const std::lock_guard lock(mutex_);
  if (auto found = prepared_.find({block, path, checked}); found != prepared_.end())
    return found->second;
  auto made = std::make_shared<PreparedProgram>(bind(*code_, block[0] * block[1] * block[2]));
  made->jit = Jit::create(made->bound, block, path, checked);
  if (prepared_.size() >= kMaxPrepared) prepared_.clear();
  return prepared_[{block, path, checked}] = std::move(made);
}

Result<std::shared_ptr<const Program>> decode(const Module& module, std::string_view entry_name,
                                              const DecodeOptions& options) {
  const Entry* entry = nullptr;
  std::vector<std::string> names;
  for (const Entry& e : module.entries) {
    if (!e.is_kernel) continue;
    names.push_back(e.name);
    if (e.name == entry_name || (entry_name.empty() && !entry)) entry = &e;
  }
  if (!entry || (entry_name.empty() && names.size() > 1)) {
    std::string what =
        entry_name.empty()
            ? fmt::format("the module has {} kernels, so one must be named", names.size())
            : fmt::format("the module has no kernel '{}'", std::string(entry_name));
    Diagnostic d =
        internal_error(std::move(what), names.empty() ? "" : name_hint(entry_name, names));
    d.place.file = module.file;
    return d;
  }
  DRIFTC_TRY(program, select(module, *entry));
  Code& code = program->code;
  if (code.blocks.size() > kMaxBlocks || code.blocks.size() * code.regs.size() > kMaxLiveness) {
    Diagnostic d =
        internal_error(fmt::format("kernel '{}' is too large: {} basic blocks, {} registers",
                                   entry->name, code.blocks.size(), code.regs.size()));
    d.place = {module.file, entry->line, 1};
    return d;
  }
  program->registers_written = writes_before_reads(code);
  if (options.convert_branches) convert_branches(code);
  simplify(code, program->registers_written);
  find_joins(code);
  find_uniform(code, options.scalar_uniform);
  split_uniform_products(code);
  if (options.fuse_regions) find_regions(code);
  allocate(*program);
  program->highest_path = options.highest_path;
  return std::shared_ptr<const Program>(std::make_shared<Program>(std::move(program)));
}

}  // namespace driftc::runtime::ptx
