#include "runtime/ptx/fault_report.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "ir/support/round.h"

namespace driftc::runtime::ptx {
namespace {

std::string thread_text(const LaunchConfig& config, std::uint32_t lane) {
  const std::uint32_t nx = config.block[0], ny = config.block[1];
  return fmt::format("({},{},{})", lane % nx, lane / nx % ny, lane / nx / ny);
}

std::string what_happened(const Fault& f, const LaunchConfig& config) {
  const std::string other =
      f.other < 0 ? std::string(" by a thread of another block")
                  : " by thread " + thread_text(config, static_cast<std::uint32_t>(f.other));
  const char* verb = f.write ? "write" : "read";
  const char* space = "global";
  if (f.inst && f.inst->memory.space == Space::kShared) space = "shared";
  if (f.inst && f.inst->memory.space == Space::kLocal) space = "local";
  switch (f.kind) {
    case FaultKind::kNone:
      return "no fault";
    case FaultKind::kOutOfBounds:
      return fmt::format("out-of-bounds {} of {} bytes at {} address {:#x}", verb, f.bytes, space,
                         f.address);
    case FaultKind::kMisaligned:
      return fmt::format("misaligned {} of {} bytes at {} address {:#x}", verb, f.bytes, space,
                         f.address);
    case FaultKind::kReadOnly:
      return fmt::format("write of {} bytes to read-only memory at {:#x}", f.bytes, f.address);
    case FaultKind::kTrap:
      return "trap";
    case FaultKind::kDivergentBarrier:
      return "barrier that this thread does not reach while others wait at it";
    case FaultKind::kPartialWarp:
      return "mma.sync or ldmatrix that this thread does not execute together with a whole warp";
    case FaultKind::kSteps:
      return "endless loop (the limit of steps was reached)";
    case FaultKind::kUninitialized:
      return fmt::format("read of {} bytes at {} address {:#x}, which nothing has written", f.bytes,
                         space, f.address);
    case FaultKind::kUndefinedRegister:
      return "use of a register that this thread has not written, or of a value computed from one";
    case FaultKind::kNotDelivered:
      return fmt::format(
          "{} of {} bytes at shared address {:#x}, which cp.async{} copies there: no "
          "cp.async.wait_group before it covers the copy",
          verb, f.bytes, f.address, other);
    case FaultKind::kRace:
      return fmt::format(
          "race: {} of {} bytes at shared address {:#x}, written{} since the last "
          "barrier",
          verb, f.bytes, f.address, other);
    case FaultKind::kRaceWithRead:
      return fmt::format(
          "race: write of {} bytes at shared address {:#x}, read{} since the last "
          "barrier",
          f.bytes, f.address, other);
    case FaultKind::kMixedAtomic:
      return fmt::format(
          "atomic and plain accesses mixed: {} of {} bytes at {} address {:#x}, "
          "accessed the other way{}",
          f.inst && f.inst->op == Op::kAtomic ? "atomic" : verb, f.bytes, space, f.address, other);
  }
  return "unknown fault";
}

// ", value 0x3f800000 (f32 1)": hexadecimal in the width of the element, and what it is as a float.
std::string value_text(const Fault& f) {
  if (f.value_bytes == 0) return {};
  std::string hex = fmt::format(", value {:#0{}x}", f.value, 2 + 2 * f.value_bytes);
  if (f.value_bytes == 4)
    return hex + fmt::format(" (f32 {:g})", float_of(static_cast<std::uint32_t>(f.value)));
  if (f.value_bytes == 8) return hex + fmt::format(" (f64 {:g})", double_of(f.value));
  return hex;
}

std::string describe(const Fault& f, const LaunchConfig& config) {
  return what_happened(f, config) + value_text(f);
}

std::string source_of(const ProgramCode& program, const Inst& inst) {
  const std::uint32_t file = inst.source.file;
  const std::string name = file < program.source_files.size() ? program.source_files[file] : "";
  return fmt::format("CUDA source {}:{}", name.empty() ? "?" : name, inst.source.line);
}

// Where `address` lies in relation to [begin, end).
std::string distance(std::uint64_t address, std::uint64_t begin, std::uint64_t end) {
  if (address < begin) return fmt::format("{} bytes before its begin", begin - address);
  if (address >= end) return fmt::format("{} bytes behind its end", address - end);
  return "reaching over its end";
}

// The buffer an access hit or missed.
std::string buffer_note(const ProgramCode& program, const Fault& f, const DeviceMemory& memory,
                        std::uint32_t shared_bytes) {
  const bool missed = f.kind == FaultKind::kOutOfBounds;
  if (f.inst->memory.space == Space::kLocal) return {};
  if (f.inst->memory.space == Space::kShared) {
    const auto at = static_cast<std::int64_t>(f.address);
    if (missed) {
      const std::string where = at < 0 ? fmt::format("{} bytes before its begin", -at)
                                       : distance(f.address, 0, shared_bytes);
      return fmt::format("shared memory of the block: {} bytes, {}", shared_bytes, where);
    }
    for (const ProgramCode::SharedArray& a : program.shared_arrays) {
      const std::uint64_t end = a.bytes ? a.begin + a.bytes : shared_bytes;
      if (f.address >= a.begin && f.address < end)
        return fmt::format("shared array '{}', byte {} of {}", a.name, f.address - a.begin,
                           end - a.begin);
    }
    return {};
  }
  const DeviceMemory::Buffer* b = memory.nearest(f.address);
  if (!b) return {};
  if (missed)
    return fmt::format("nearest buffer: '{}' of {} bytes, {}", b->name, b->end - b->begin,
                       distance(f.address, b->begin, b->end));
  if (f.address < b->begin || f.address >= b->end) return {};
  return fmt::format("buffer '{}', byte {} of {}", b->name, f.address - b->begin,
                     b->end - b->begin);
}

}  // namespace

Diagnostic report(const ProgramCode& program, const LaunchConfig& config, const Fault& f,
                  std::span<const Fault> others, const std::array<std::uint32_t, 3>& block,
                  const DeviceMemory& memory) {
  const std::uint32_t shared_bytes = program.static_shared_bytes + config.dynamic_shared_bytes;
  Diagnostic d = internal_error(fmt::format("kernel '{}', block ({},{},{}), thread {}: {}",
                                            program.name, block[0], block[1], block[2],
                                            thread_text(config, f.lane), describe(f, config)));
  d.place = {program.file, f.inst ? static_cast<int>(f.inst->line) : 0, 0};
  if (f.inst && f.inst->source.line) d.notes.push_back(source_of(program, *f.inst));
  if (f.inst && f.bytes != 0) {
    std::string note = buffer_note(program, f, memory, shared_bytes);
    if (!note.empty()) d.notes.push_back(std::move(note));
  }
  for (const Fault& o : others)
    d.notes.push_back(
        fmt::format("also, at line {}{}, thread {}: {}", o.inst ? o.inst->line : 0,
                    o.inst && o.inst->source.line ? " (" + source_of(program, *o.inst) + ")" : "",
                    thread_text(config, o.lane), describe(o, config)));
  return d;
}

}  // namespace driftc::runtime::ptx
