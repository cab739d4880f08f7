#include "runtime/ptx/decode.h"

#include "runtime/ptx/machine.h"
#include "runtime/ptx/parser.h"
#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {
Program::Program(std::unique_ptr<const ProgramCode> code) : code_(std::move(code)) {}
Program::~Program() = default;
const std::string& Program::name() const { return code_->name; }
std::size_t Program::parameter_bytes() const { return code_->parameter_bytes; }
std::uint32_t Program::static_shared_bytes() const { return code_->static_shared_bytes; }
std::uint32_t Program::max_threads() const { return code_->max_threads; }
bool Program::has_global_atomics() const { return code_->has_global_atomics; }
std::size_t Program::instruction_count() const { return code_->instruction_count; }

Result<Module> parse_module(std::string_view, std::string_view) { return internal_error("PTX parser: not there yet"); }
Result<std::shared_ptr<const Program>> decode(const Module&, std::string_view, const DecodeOptions&) {
  return internal_error("PTX decoder: not there yet");
}
Result<void> launch(const Program&, const LaunchConfig&, std::span<const std::byte>, DeviceMemory&, ThreadPool&,
                    const LaunchOptions&) {
  return internal_error("PTX executor: not there yet");
}
}  // namespace driftc::runtime::ptx
