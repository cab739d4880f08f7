#include "runtime/ptx/jit.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/ptx/jit_emit.h"
#include "runtime/ptx/jit_memory.h"
#include "runtime/ptx/jit_slow.h"
#include "runtime/ptx/region.h"

namespace driftc::runtime::ptx {

namespace {

struct Refused {
  std::mutex mutex;
  std::vector<std::string> units;
};
Refused& refused() {
  static Refused all;
  return all;
}

}  // namespace

std::vector<std::string> refused_units() {
  const std::lock_guard lock(refused().mutex);
  return refused().units;
}

struct Jit::Unit {
  const UnitPlan* plan = nullptr;
  std::uint32_t first_access = 0;
  ExecutableMemory memory;
  std::atomic<JitFn> code = nullptr;
  std::atomic<bool> refused = false;
};

Jit::~Jit() = default;

Jit::Jit(const BoundProgram& bound, Path path) : bound_(bound), path_(path) {}

std::unique_ptr<Jit> Jit::create(const BoundProgram& bound,
                                 const std::array<std::uint32_t, 3>& block, Path path,
                                 bool checked) {
#if defined(__x86_64__)
  if (path == Path::kPortable) return nullptr;
  // Threads of a warp, which are two groups, may meet in memory at bar.warp.sync; in lockstep that
  // needs no instruction, so nothing would end a unit there.
  if (bound.program->has_warp_barriers) return nullptr;
  std::unique_ptr<Jit> jit(new Jit(bound, path));
  const Code& code = bound.program->code;
  auto* const plain_only =
      +[](const Code& c, const Inst& i) { return is_plain(i.op) && segment_supports(c, i); };
  jit->plan_ = plan_units(code, checked ? plain_only : &segment_supports);
  jit->shapes_ = find_shapes(code, block);
  std::uint32_t accesses = 0;
  for (const UnitPlan& plan : jit->plan_.units) {
    auto unit = std::make_unique<Unit>();
    unit->plan = &plan;
    unit->first_access = accesses;
    accesses += !plan.is_region;  // its own, for what is remembered about the unit
    for (std::uint32_t k : plan.body)
      accesses += !plan.is_region && !is_plain(code.blocks[plan.block].code[k].op);
    jit->units_.push_back(std::move(unit));
  }
  jit->accesses_.resize(accesses);
  for (const auto& steps : jit->plan_.blocks) {
    std::vector<Step> out;
    for (const PlanStep& s : steps)
      out.push_back({s.unit < 0 ? nullptr : jit->units_[static_cast<std::size_t>(s.unit)].get(),
                     s.instruction});
    jit->blocks_.push_back(std::move(out));
  }
  return jit;
#else
  (void)bound;
  (void)block;
  (void)path;
  return nullptr;
#endif
}

std::span<const std::uint32_t> Jit::body(const Unit& unit) const { return unit.plan->body; }

bool Jit::is_region(const Unit& unit) const { return unit.plan->is_region; }

std::vector<std::span<const std::uint8_t>> Jit::machine_code() const {
  std::vector<std::span<const std::uint8_t>> out;
  for (const auto& unit : units_)
    if (unit->code.load(std::memory_order_acquire))
      out.emplace_back(static_cast<const std::uint8_t*>(unit->memory.data()), unit->memory.bytes());
  return out;
}

void Jit::translate(Unit& unit, const Frame& frame, std::uint32_t group) const {
#if defined(__x86_64__)
  const std::lock_guard lock(mutex_);
  if (unit.refused || unit.code) return;
  std::optional<std::vector<std::uint8_t>> code;
  if (unit.plan->is_region) {
    const Inst& i = bound_.program->code.blocks[unit.plan->block].code[unit.plan->body[0]];
    code = emit_region(*bound_.regions[static_cast<std::size_t>(i.imm)], frame, group,
                       path_ == Path::kAvx512);
  } else {
    const Seen seen{frame.regs, bound_.places.data(), group,
                    unit.plan->uniform ? 0xFFFFu : std::uint32_t{frame.active[group]}};
    const auto emit = path_ == Path::kAvx512 ? &emit_segment_avx512 : &emit_segment_avx2;
    code = emit(bound_, *unit.plan, shapes_, seen, unit.first_access, accesses_);
  }
  if (code) {
    unit.memory = ExecutableMemory(*code);
  } else if (!unit.plan->is_region) {
    const Block& block = bound_.program->code.blocks[unit.plan->block];
    const std::lock_guard also(refused().mutex);
    refused().units.push_back(fmt::format("{}: {} instructions from line {} of the PTX on",
                                          bound_.program->name, unit.plan->body.size(),
                                          block.code[unit.plan->body[0]].line));
  }
  if (!unit.memory.data()) {
    unit.refused = true;
    return;
  }
  unit.code = reinterpret_cast<JitFn>(reinterpret_cast<std::uintptr_t>(unit.memory.data()));
#else
  (void)frame;
  (void)group;
  unit.refused = true;
#endif
}

void Jit::Thread::Free::operator()(std::byte* p) const { std::free(p); }

Jit::Thread::Thread(const Jit& jit, Frame& frame) : jit_(jit), frame_(frame) {
  const std::size_t bytes =
      (sizeof(JitContext) + jit.accesses_.size() * sizeof(JitCache) + 63) / 64 * 64;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, bytes)));
  DRIFTC_ASSERT(memory_ != nullptr, "out of memory");
  context_ = new (memory_.get()) JitContext();
  for (std::size_t a = 0; a < jit.accesses_.size(); ++a) new (caches_of(context_) + a) JitCache();
  JitContext& c = *context_;
  c.regs = frame.regs;
  c.shared = frame.shared;
  c.frame = &frame;
  c.accesses = jit.accesses_.data();
  c.shared_bytes = frame.shared_bytes;
  c.vector_lanes = jit.path_ == Path::kAvx512 ? 16 : 8;
  ahead_.resize(jit.accesses_.size() * frame.groups * kGroupLanes / c.vector_lanes);
  c.ahead_last = ahead_.data();
  for (int n = 0; n < 3; ++n) {
    const std::uint64_t bytes_each = std::uint64_t{4} << n, size = frame.shared_bytes;
    if (size >= bytes_each) {
      c.shared_single[n] = (size - bytes_each) / bytes_each + 1;
      c.shared_bytes_places[n] = static_cast<std::uint32_t>(size - bytes_each + 1);
    }
    if (size >= bytes_each * c.vector_lanes)
      c.shared_window[n] = (size - bytes_each * c.vector_lanes) / bytes_each + 1;
  }
  for (std::uint32_t n = 0; n < 5; ++n)
    for (std::uint32_t j = 0; j < 16; ++j) c.wide_lanes[n][j] = c.lanes[n][j] = j << n;
  c.canonical_nan = 0x7FFFFFFFu;
  c.one = 0x3F800000u;
  c.sign = 0x80000000u;
  c.magnitude = 0x7FFFFFFFu;
  c.two_31 = 0x4F000000u;
  c.all_ones = 0xFFFFFFFFu;
  c.max_s32 = 0x7FFFFFFFu;
  c.exponent = 0x7F800000u;
  c.tf32_half = 0x1000u;
  c.half_nan = 0x7FFFu;
  for (std::uint32_t j = 0; j < 16; ++j) {
    c.interleave[0][j] = 2 * j;                     // even elements of two vectors
    c.interleave[1][j] = 2 * j + 1;                 // odd ones
    c.interleave[2][j] = (j & 1) * 16 + j / 2;      // low halves of two vectors, alternating
    c.interleave[3][j] = (j & 1) * 16 + j / 2 + 8;  // high ones
  }
}

bool Jit::Thread::run(Unit& unit, std::uint32_t& first, std::uint32_t last) {
  JitFn code = unit.code.load(std::memory_order_acquire);
  if (!code) {
    if (unit.refused.load(std::memory_order_relaxed)) return false;
    jit_.translate(unit, frame_, first);
    code = unit.code.load(std::memory_order_acquire);
    if (!code) return false;
  }
  JitContext& c = *context_;
  if (unit.plan->uniform) {
    static constexpr std::uint16_t kAllLanes = 0xFFFF;
    c.active = &kAllLanes;
    c.first = 0;
    c.last = 1;
    code(&c);
    return true;
  }
  c.active = frame_.active;
  c.first = first;
  c.last = last;
  if (first >= last) return true;
  if (unit.plan->is_region) {
    c.ahead_next = 0;
    c.ahead_each = (c.ahead_count + last - first - 1) / (last - first);
  }
  const std::uint64_t result = code(&c);
  if (unit.plan->is_region) c.ahead_count = 0;
  if (unit.plan->is_region) first = static_cast<std::uint32_t>(result);
  return !unit.plan->is_region || result == last;
}

}  // namespace driftc::runtime::ptx
