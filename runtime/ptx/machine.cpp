// Runs blocks: the whole block in lockstep, a stack of masks for divergence (each divergent branch
// waits for its lanes at the immediate post-dominator), blocks spread over threads.
#include "runtime/ptx/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "ir/support/hash.h"
#include "runtime/ptx/bind.h"
#include "runtime/ptx/check.h"
#include "runtime/ptx/fault_report.h"
#include "runtime/ptx/jit.h"
#include "runtime/ptx/presets.h"

namespace driftc::runtime::ptx {
namespace {

constexpr std::uint32_t kMaxSharedBytes = 227 * 1024;

// 16 lanes a group; groups that a block does not have are empty. Read four groups at a time.
using LaneMask = std::array<std::uint16_t, kMaxGroups>;
constexpr std::uint32_t kGroupsPerWord = 4;
static_assert(kMaxGroups % kGroupsPerWord == 0);
std::uint64_t word_at(const std::uint16_t* masks, std::uint32_t word) {
  std::uint64_t out;
  std::memcpy(&out, masks + word * kGroupsPerWord, sizeof out);
  return out;
}
void set_word(LaneMask& m, std::uint32_t word, std::uint64_t bits) {
  std::memcpy(m.data() + word * kGroupsPerWord, &bits, sizeof bits);
}

struct AlignedFree {
  void operator()(std::byte* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<std::byte, AlignedFree>;
AlignedBytes aligned(std::size_t bytes) {
  std::size_t rounded = (bytes + 64 + 255) / 256 * 256;
  AlignedBytes p(static_cast<std::byte*>(std::aligned_alloc(256, rounded)));
  DRIFTC_ASSERT(p != nullptr, "out of memory");
  std::memset(p.get(), 0, rounded);
  return p;
}

// One thread's state: the memory of one block at a time.
class Worker {
 public:
  Worker(const BoundProgram& bound, const LaunchConfig& config, std::span<const std::byte> params,
         const DeviceMemory& memory, const DeviceMemory& constants, const LaunchOptions& options,
         const Jit* jit)
      : bound_(bound),
        code_(bound.program->code),
        options_(options),
        regs_(aligned(bound.file_bytes)),
        shared_(aligned(bound.program->static_shared_bytes + config.dynamic_shared_bytes)),
        local_(aligned(std::size_t{bound.program->local_bytes} * bound.lanes)),
        region_scratch_(aligned(bound.region_operands * kGroupLanes * 4)),
        region_pointers_(bound.region_pointers + 1) {
    f_.regs = regs_.get();
    f_.shared = shared_.get();
    f_.shared_bytes = bound.program->static_shared_bytes + config.dynamic_shared_bytes;
    f_.local = local_.get();
    f_.local_bytes = bound.program->local_bytes;
    f_.params = params.data();
    f_.groups = bound.groups;
    f_.lanes = bound.lanes;
    words_ = (bound.groups + kGroupsPerWord - 1) / kGroupsPerWord;
    f_.memory = &memory;
    f_.constants = &constants;
    f_.region_scratch = region_scratch_.get();
    f_.region_pointers = region_pointers_.data();
    run_region_ = region_function();
    if (options.schedule_seed != 0)
      warps_ = seeded_permutation(options.schedule_seed, (bound.groups + 1) / 2);
    full_.fill(0);
    for (std::uint32_t i = 0; i < bound.lanes; ++i)
      full_[i / kGroupLanes] |= static_cast<std::uint16_t>(1u << (i % kGroupLanes));
    for (const Block& block : code_.blocks)
      for (const Inst& i : block.code) has_shuffles_ = has_shuffles_ || i.op == Op::kShuffle;
    fill_presets(bound, config, f_);
    if (options.check) checker_.emplace(*bound.program, f_);
    if (jit) machine_code_.emplace(*jit, f_);
    jit_ = machine_code_ ? jit : nullptr;
    if (jit_)
      for (const BoundInst& in : bound.blocks[0].code)
        if (in.uniform && in.inst->op == Op::kLoadParam && code_.regs[in.inst->dst[0]].is_parameter)
          one(in);
  }

  // The fault of this block; kind kNone when all went well.
  const Fault& run(const std::array<std::uint32_t, 3>& index, std::uint64_t number) {
    f_.fault = {};
    others_.clear();
    if (checker_) checker_->begin_block(number);
    fill_block_index(bound_, index, f_);
    // Shared memory starts undefined on a GPU. NaN bits make a kernel that relies on it wrong at
    // once, and the same way every time.
    if (f_.shared_bytes) std::memset(f_.shared, 0xFF, f_.shared_bytes);
    execute();
    if (jit_ && !checker_ && f_.fault.kind != FaultKind::kNone) {
      // Machine code runs groups one after the other, so it may meet another fault first than
      // instructions in lockstep; reports are those of the interpreter.
      const Fault met = f_.fault;
      f_.fault = {};
      std::memset(f_.shared, 0xFF, f_.shared_bytes);
      jit_ = nullptr;
      execute();
      if (f_.fault.kind == FaultKind::kNone) f_.fault = met;
    }
    if (f_.fault.kind != FaultKind::kNone)
      if (const BoundInst* in = find(f_.fault.inst)) note_value(*in, f_, f_.fault);
    // What checked mode found came before what stopped the block.
    if (checker_ && !checker_->faults().empty()) {
      others_.assign(checker_->faults().begin() + 1, checker_->faults().end());
      if (f_.fault.kind != FaultKind::kNone) others_.push_back(f_.fault);
      f_.fault = checker_->faults()[0];
    }
    return f_.fault;
  }
  // Further faults of the block that run() returned one of; checked mode only.
  const std::vector<Fault>& other_faults() const { return others_; }

 private:
  struct Entry {
    Entry() = default;
    Entry(std::uint32_t at, std::uint32_t until, const LaneMask& m)
        : pc(at), join(until), mask(m) {}
    std::uint32_t pc = 0, join = 0;
    LaneMask mask{};
  };

  // ---- masks
  bool empty(const LaneMask& m) const {
    for (std::uint32_t n = 0; n < words_; ++n)
      if (word_at(m.data(), n)) return false;
    return true;
  }
  std::uint32_t first_lane(const LaneMask& m) const {
    for (std::uint32_t g = 0; g < f_.groups; ++g)
      if (m[g]) return g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(m[g]));
    return 0;
  }
  void activate(const LaneMask& m) {
    f_.active = m.data();
    first_ = f_.groups;
    last_ = 0;
    for (std::uint32_t g = 0; g < f_.groups; ++g) {
      if (!m[g]) continue;
      first_ = std::min(first_, g);
      last_ = g + 1;
    }
    partial_ = waiting_ = false;
    for (std::uint32_t g = first_; g < last_; ++g) {
      partial_ = partial_ || m[g] != full_[g];
      waiting_ = waiting_ || m[g] != kept(g);
    }
  }
  // Lanes whose registers somebody may still read: nobody reads those of a thread that has left,
  // but for shuffles, which do not ask.
  std::uint16_t kept(std::uint32_t g) const { return has_shuffles_ ? full_[g] : alive_[g]; }
  void retire(const LaneMask& m) {
    masks_changed_ = true;
    auto leave = [&](LaneMask& from) {
      for (std::uint32_t n = 0; n < words_; ++n)
        set_word(from, n, word_at(from.data(), n) & ~word_at(m.data(), n));
    };
    for (Entry& e : stack_) leave(e.mask);
    leave(alive_);
  }

  // ---- execution
  void masked(const BoundInst& in) {
    LaneMask m;
    bool any = false, all = true;
    const std::uint16_t* guard =
        in.guarded ? reinterpret_cast<const std::uint16_t*>(f_.regs + in.guard.offset) : nullptr;
    for (std::uint32_t g = first_; g < last_; ++g) {
      std::uint32_t bits = f_.active[g];
      if (guard)
        bits &= in.guard_negated ? ~std::uint32_t{guard[in.guard.mask & g]}
                                 : std::uint32_t{guard[in.guard.mask & g]};
      m[g] = static_cast<std::uint16_t>(bits);
      any = any || m[g];
      all = all && m[g] == kept(g);
    }
    if (!any) return;
    if (all) return in.fn(in, f_, first_, last_);
    BoundInst to_scratch = in;
    to_scratch.dst[0] = {bound_.scratch_offset, ~std::uint32_t{0}};
    to_scratch.fn(to_scratch, f_, first_, last_);
    blend_destination(in, f_, m.data(), f_.regs + bound_.scratch_offset, first_, last_);
  }

  void one(const BoundInst& in) {
    if (in.uniform) {
      if (in.guarded) {
        bool on = *reinterpret_cast<const std::uint16_t*>(f_.regs + in.guard.offset) & 1;
        if (on == in.guard_negated) return;
      }
      return in.fn(in, f_, 0, 1);
    }
    if (in.plain) {
      if (in.guarded || waiting_) return masked(in);
      return in.fn(in, f_, first_, last_);
    }
    if (in.region) {
      bool fused = !partial_ && f_.lanes % kGroupLanes == 0;
      if (fused && run_region_(*in.region, f_, first_, last_)) return;
      for (const BoundInst& i : in.region->fallback) one(i);
      // A region may update its sums in place, so running the plain form behind it is only right
      // as the way to a report.
      DRIFTC_ASSERT(!fused || f_.fault.kind != FaultKind::kNone, "a region refused good addresses");
      return;
    }
    if (in.inst->op == Op::kBarrier) return barrier(in);
    const bool writes = in.inst->op == Op::kAtomic || in.inst->op == Op::kStore;
    if (writes && !warps_.empty()) return by_warps(in);
    in.fn(in, f_, first_, last_);
  }
  // A write takes effect warp by warp, in the seed's order.
  void by_warps(const BoundInst& in) {
    for (std::uint32_t warp : warps_) {
      const std::uint32_t first = std::max(first_, warp * 2), last = std::min(last_, warp * 2 + 2);
      if (first < last) in.fn(in, f_, first, last);
    }
  }

  void unit(Jit::Unit& unit, const BoundBlock& block) {
    if (checker_ && jit_->is_region(unit)) return checked(block.code[jit_->body(unit)[0]]);
    if ((partial_ || f_.lanes % kGroupLanes != 0) && jit_->is_region(unit))
      return one(block.code[jit_->body(unit)[0]]);
    std::uint32_t first = first_;
    // Under a seed writes take effect in its order of warps, which machine code does not know.
    if (!warps_.empty() && !jit_->is_region(unit)) {
      for (std::uint32_t k : jit_->body(unit)) one(block.code[k]);
      return;
    }
    if (machine_code_->run(unit, first, last_)) return;
    const std::span<const std::uint32_t> body = jit_->body(unit);
    const std::uint32_t all = std::exchange(first_, first);
    for (std::uint32_t k : body) one(block.code[k]);
    first_ = all;
  }

  // Loads that leave their addresses as they are.
  static bool loads_words(const BoundInst& in) {
    return in.inst->op == Op::kLoad && in.memory.bytes <= 4 &&
           (in.memory.space == Space::kGlobal || in.memory.space == Space::kConst);
  }
  // Every access is seen before it is made, but for loads that change nothing a look depends on.
  void checked(const BoundInst& in) {
    if (f_.fault.kind != FaultKind::kNone) return;
    if (in.region) {
      const bool fused = !partial_ && f_.lanes % kGroupLanes == 0 && checker_->region(in);
      if (fused) {
        const bool ran = run_region_(*in.region, f_, first_, last_);
        DRIFTC_ASSERT(ran, "a region refused good addresses");
        return;
      }
      for (const BoundInst& i : in.region->fallback) checked(i);
      return;
    }
    // A load from a buffer of which nothing is kept: the executor's own checks are all there is to
    // it, and say which buffer that was.
    const std::uint64_t located = f_.located;
    const bool first = !loads_words(in);
    if (first) checker_->before(in, first_, last_);
    one(in);
    if (!first && (f_.fault.kind != FaultKind::kNone || f_.located != located ||
                   !checker_->untracked(f_.cached_begin)))
      checker_->before(in, first_, last_);
    if (in.inst->op == Op::kBarrier) checker_->barrier();
  }

  // In lockstep a barrier that all living threads reach is nothing; one that some miss would hang
  // or race.
  void barrier(const BoundInst& in) {
    if (!partial_ && first_ == 0 && last_ == f_.groups) return;  // all threads are here
    for (std::uint32_t g = 0; g < f_.groups; ++g) {
      std::uint32_t missing = alive_[g] & ~std::uint32_t{f_.active[g]};
      if (!missing) continue;
      f_.fail(FaultKind::kDivergentBarrier, in.inst,
              g * kGroupLanes + static_cast<std::uint32_t>(std::countr_zero(missing)), 0, 0, false);
      return;
    }
  }

  // The bound form of an instruction that memory faults name; null for others.
  const BoundInst* find(const Inst* inst) const {
    for (const BoundBlock& block : bound_.blocks)
      for (const BoundInst& in : block.code) {
        if (in.inst == inst) return &in;
        if (!in.region) continue;
        for (const BoundInst& i : in.region->fallback)
          if (i.inst == inst) return &i;
      }
    return nullptr;
  }

  bool only_returns(std::uint32_t b) const {
    return code_.blocks[b].code.empty() && code_.blocks[b].end == Block::End::kReturn;
  }

  void execute() {
    std::uint32_t end = static_cast<std::uint32_t>(code_.blocks.size());
    // Only the masks of groups there are, and what activate() would find: a block of an elementwise
    // kernel does little else.
    stack_.resize(1);
    stack_[0].pc = 0;
    stack_[0].join = end;
    std::copy_n(full_.begin(), f_.groups, alive_.begin());
    std::copy_n(full_.begin(), f_.groups, stack_[0].mask.begin());
    f_.active = stack_[0].mask.data();
    first_ = 0;
    last_ = f_.groups;
    partial_ = waiting_ = false;
    masks_changed_ = false;
    std::uint64_t steps = 0;
    while (!stack_.empty()) {
      Entry& top = stack_.back();
      if (top.pc == top.join || top.pc == end || (masks_changed_ && empty(top.mask))) {
        stack_.pop_back();
        masks_changed_ = true;
        continue;
      }
      const Block& block = code_.blocks[top.pc];
      const BoundBlock& bound = bound_.blocks[top.pc];
      if (masks_changed_) activate(top.mask);
      masks_changed_ = false;
      if (jit_) {
        for (const Jit::Step& step : jit_->steps(top.pc)) {
          if (step.unit)
            unit(*step.unit, bound);
          else
            checker_ ? checked(bound.code[step.instruction]) : one(bound.code[step.instruction]);
          if (f_.fault.kind != FaultKind::kNone) return;
        }
      } else {
        for (const BoundInst& in : bound.code) checker_ ? checked(in) : one(in);
      }
      if (checker_ && block.condition != kNoReg &&
          !checker_->branch(block.condition, terminator(top.pc), first_, last_))
        return;
      if (f_.fault.kind != FaultKind::kNone) return;
      if (++steps > options_.max_steps_per_block) {
        static const Inst kNothing;
        f_.fail(FaultKind::kSteps, &kNothing, first_lane(top.mask), 0, 0, false);
        return;
      }
      switch (block.end) {
        case Block::End::kReturn: {
          if (stack_.size() == 1) return;  // nobody waits
          LaneMask done = top.mask;
          retire(done);
          break;
        }
        case Block::End::kJump:
          top.pc = block.target;
          break;
        case Block::End::kBranch:
          branch(block, bound);
          break;
      }
    }
  }

  // Stands for the branch that ends a block in reports.
  const Inst& terminator(std::uint32_t b) {
    if (terminators_.empty()) {
      terminators_.resize(code_.blocks.size());
      for (std::size_t i = 0; i < terminators_.size(); ++i) {
        terminators_[i].line = code_.blocks[i].line;
        terminators_[i].source = code_.blocks[i].source;
      }
    }
    return terminators_[b];
  }

  void branch(const Block& block, const BoundBlock& bound) {
    Entry& top = stack_.back();
    const std::uint16_t* condition =
        reinterpret_cast<const std::uint16_t*>(f_.regs + bound.condition.offset);
    if (block.uniform_branch) {
      top.pc = ((condition[0] & 1) != 0) != block.condition_negated ? block.target : block.next;
      return;
    }
    LaneMask &taken = taken_, &fall = fall_;
    std::uint64_t any_taken = 0, any_fall = 0;
    const std::uint64_t flip = block.condition_negated ? ~std::uint64_t{0} : 0;
    const bool shared = bound.condition.mask == 0;  // one element for all groups
    const std::uint64_t all = shared ? condition[0] * 0x0001000100010001u : 0;
    for (std::uint32_t n = 0; n < words_; ++n) {
      const std::uint64_t c = (shared ? all : word_at(condition, n)) ^ flip,
                          m = word_at(top.mask.data(), n);
      any_taken |= m & c;
      any_fall |= m & ~c;
      set_word(taken, n, m & c);
      set_word(fall, n, m & ~c);
    }
    if (!any_taken) {
      top.pc = block.next;
      return;
    }
    if (!any_fall) {
      top.pc = block.target;
      return;
    }
    // Lanes that only end need no join: the others go on as if they had never been.
    if (only_returns(block.target)) {
      top.pc = block.next;
      retire(taken);
      return;
    }
    if (only_returns(block.next)) {
      top.pc = block.target;
      retire(fall);
      return;
    }
    masks_changed_ = true;
    std::uint32_t join = block.join;
    if (join == top.join)
      stack_.pop_back();  // the entry below waits there for these lanes already
    else
      top.pc = join;
    if (block.target != join) stack_.emplace_back(block.target, join, taken);
    if (block.next != join) stack_.emplace_back(block.next, join, fall);
  }

  const BoundProgram& bound_;
  const Code& code_;
  const LaunchOptions& options_;
  AlignedBytes regs_, shared_, local_, region_scratch_;
  std::vector<const std::byte*> region_pointers_;
  Frame f_;
  std::optional<Checker> checker_;
  std::optional<Jit::Thread> machine_code_;
  const Jit* jit_ = nullptr;
  std::vector<Fault> others_;
  std::vector<std::uint32_t> warps_;  // order in which writes take effect; empty: ascending
  std::vector<Inst> terminators_;
  RegionFn run_region_ = nullptr;
  LaneMask full_{}, alive_{};
  LaneMask taken_{}, fall_{};  // of the branch at hand
  std::vector<Entry> stack_;
  std::uint32_t first_ = 0, last_ = 0;
  std::uint32_t words_ = 0;  // of a mask, that groups of the block are in
  bool partial_ = false;     // some lanes of the groups at work do not run
  bool waiting_ = false;     // of those that are kept
  bool has_shuffles_ = false;
  bool masks_changed_ = true;  // since activate()
};

}  // namespace

Result<void> launch(const Program& program, const LaunchConfig& config,
                    std::span<const std::byte> params, DeviceMemory& memory, ThreadPool& pool,
                    const LaunchOptions& options) {
  const ProgramCode& code = program.code();
  std::uint64_t threads = std::uint64_t{config.block[0]} * config.block[1] * config.block[2];
  std::uint64_t blocks = std::uint64_t{config.grid[0]} * config.grid[1];
  auto refuse = [&](std::string why) {
    return internal_error(
        fmt::format("kernel '{}' cannot be launched: {}", code.name, std::move(why)));
  };
  if (config.block[0] > kMaxLanes || config.block[1] > kMaxLanes || config.block[2] > 64 ||
      threads == 0 || threads > kMaxLanes)
    return refuse(fmt::format("a block of {} x {} x {} threads", config.block[0], config.block[1],
                              config.block[2]));
  if (code.max_threads && threads > code.max_threads)
    return refuse(fmt::format("{} threads in a block, but it was compiled for at most {}", threads,
                              code.max_threads));
  if (config.grid[1] > 65535 || config.grid[2] > 65535 || blocks == 0 || config.grid[2] == 0 ||
      blocks * config.grid[2] > 0x7FFFFFFFu)
    return refuse(fmt::format("a grid of {} x {} x {} blocks", config.grid[0], config.grid[1],
                              config.grid[2]));
  blocks *= config.grid[2];
  if (std::uint64_t{code.static_shared_bytes} + config.dynamic_shared_bytes > kMaxSharedBytes)
    return refuse(fmt::format("{} bytes of shared memory", std::uint64_t{code.static_shared_bytes} +
                                                               config.dynamic_shared_bytes));
  if (params.size() != code.parameter_bytes)
    return refuse(
        fmt::format("{} bytes of arguments, expected {}", params.size(), code.parameter_bytes));
  if (std::uint64_t{code.local_bytes} * threads > (std::uint64_t{1} << 30))
    return refuse("more than 1 GiB of local memory in a block");

  DeviceMemory constants;
  for (const Segment& s : code.segments) constants.add_readonly(s.storage.data(), s.bytes, s.name);
  // Where checked mode follows registers it has to see every instruction.
  const bool every = options.check && !code.registers_written;
  const std::shared_ptr<const PreparedProgram> prepared = program.prepare(
      config.block, every ? Path::kPortable : std::min(best_path(), code.highest_path),
      options.check);
  std::vector<std::unique_ptr<Worker>> workers(static_cast<std::size_t>(pool.threads()));

  std::uint32_t gx = config.grid[0], gy = config.grid[1], gz = config.grid[2];
  std::vector<std::uint32_t> order[3];
  // Where the order of blocks can matter, or is to be seen not to, they run one after the other.
  const bool ordered = code.has_global_atomics || options.schedule_seed != 0;
  if (ordered)
    for (int d = 0; d < 3; ++d)
      order[d] =
          seeded_permutation(options.schedule_seed, config.grid[static_cast<std::size_t>(d)]);
  auto index_of = [&](std::uint64_t b) {
    std::uint32_t x = static_cast<std::uint32_t>(b % gx),
                  y = static_cast<std::uint32_t>(b / gx % gy),
                  z = static_cast<std::uint32_t>(b / gx / gy % gz);
    if (ordered) return std::array<std::uint32_t, 3>{order[0][x], order[1][y], order[2][z]};
    return std::array<std::uint32_t, 3>{x, y, z};
  };

  // The fault of the lowest block wins, whatever the number of threads: later blocks are skipped
  // once one failed, earlier ones still run.
  std::atomic<std::uint64_t> first_failed = ~std::uint64_t{0};
  std::mutex mutex;
  Fault fault;
  std::vector<Fault> others;
  auto run_range = [&](std::uint64_t begin, std::uint64_t end, int worker) {
    std::unique_ptr<Worker>& w = workers[static_cast<std::size_t>(worker)];
    if (!w)
      w = std::make_unique<Worker>(prepared->bound, config, params, memory, constants, options,
                                   prepared->jit.get());
    std::array<std::uint32_t, 3> index{};
    for (std::uint64_t b = begin; b < end; ++b) {
      // The next one in a row, without divisions.
      if (b > begin && !ordered && index[0] + 1 < gx)
        ++index[0];
      else
        index = index_of(b);
      if (b >= first_failed.load(std::memory_order_relaxed)) return;
      const Fault& f = w->run(index, b);
      if (f.kind == FaultKind::kNone) continue;
      std::lock_guard lock(mutex);
      if (b < first_failed.load()) {
        first_failed = b;
        fault = f;
        others = w->other_faults();
      }
      return;
    }
  };
  if (ordered || pool.threads() == 1) {
    run_range(0, blocks, 0);
  } else {
    // Short blocks (0.1 us for an elementwise kernel) go in chunks, yet so small ones that the last
    // chunk leaves no thread idle for long.
    const std::uint64_t chunk =
        std::max<std::uint64_t>(1, blocks / (static_cast<std::uint64_t>(pool.threads()) * 32));
    std::uint64_t chunks = (blocks + chunk - 1) / chunk;
    pool.parallel_for(chunks, [&](std::size_t c, int worker) {
      run_range(c * chunk, std::min(blocks, (c + 1) * chunk), worker);
    });
  }
  if (fault.kind != FaultKind::kNone)
    return report(code, config, fault, others, index_of(first_failed.load()), memory);
  return {};
}

}  // namespace driftc::runtime::ptx
