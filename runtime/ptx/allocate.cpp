// Virtual registers -> slots of the block's register file, by linear scan over live intervals. A
// slot holds one value per thread of the block, so few slots mean that the file stays in the cache.
//
// Divergence needs no care here: a lane's slot content depends on that lane's own path, and masked
// writes touch only active lanes, so liveness on the control-flow graph is enough. Uniform
// registers are written only where all living threads are together (find_uniform), so for them one
// path is all there is.
#include <algorithm>
#include <queue>

#include "runtime/ptx/flow.h"
#include "runtime/ptx/program.h"
#include "runtime/ptx/region.h"

namespace driftc::runtime::ptx {
namespace {

constexpr std::size_t kMaxUnshared = 512;

class Bits {
 public:
  Bits(std::size_t rows, std::size_t bits) : words_((bits + 63) / 64), data_(rows * words_, 0) {}
  std::uint64_t* row(std::size_t r) { return data_.data() + r * words_; }
  std::size_t words() const { return words_; }
  static void set(std::uint64_t* row, std::size_t i) {
    row[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  static void reset(std::uint64_t* row, std::size_t i) {
    row[i / 64] &= ~(std::uint64_t{1} << (i % 64));
  }
  static bool test(const std::uint64_t* row, std::size_t i) { return row[i / 64] >> (i % 64) & 1; }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> data_;
};

struct Interval {
  std::uint32_t begin = ~std::uint32_t{0}, end = 0;
};

class Allocator {
 public:
  explicit Allocator(ProgramCode& program) : program_(program), code_(program.code) {}

  void run() {
    number_crossing();
    liveness();
    for (std::size_t b = 0; b < code_.blocks.size(); ++b)
      for (std::size_t d = 0; d < sparse_.size(); ++d)
        if (Bits::test(out_->row(b), d)) code_.blocks[b].live_out.push_back(sparse_[d]);
    intervals();
    assign();
  }

 private:
  // Only registers that are live across a block border need the data-flow analysis.
  void number_crossing() {
    constexpr std::uint32_t kMany = ~std::uint32_t{0} - 1, kNone = ~std::uint32_t{0};
    std::vector<std::uint32_t> home(code_.regs.size(), kNone);
    for (std::uint32_t b = 0; b < code_.blocks.size(); ++b) {
      auto note = [&](Reg r) {
        if (home[r] == kNone)
          home[r] = b;
        else if (home[r] != b)
          home[r] = kMany;
      };
      for (const Inst& i : code_.blocks[b].code) for_each(i, note, note);
      if (code_.blocks[b].condition != kNoReg) note(code_.blocks[b].condition);
    }
    // A register of one block crosses its border when it is read before it is written there.
    dense_.assign(code_.regs.size(), kNone);
    std::vector<char> written(code_.regs.size(), 0), exposed(code_.regs.size(), 0);
    for (const Block& block : code_.blocks) {
      for (const Inst& i : block.code)
        for_each(
            i, [&](Reg r) { exposed[r] |= !written[r]; }, [&](Reg r) { written[r] = 1; });
      if (block.condition != kNoReg) exposed[block.condition] |= !written[block.condition];
    }
    for (Reg r = 0; r < code_.regs.size(); ++r) {
      if (home[r] == kNone || fixed(r) || (home[r] != kMany && !exposed[r])) continue;
      dense_[r] = static_cast<std::uint32_t>(sparse_.size());
      sparse_.push_back(r);
    }
  }

  // Set before a block runs, by the machine or (parameters) by its first instructions, and kept.
  bool fixed(Reg r) const {
    const RegInfo& info = code_.regs[r];
    return info.is_constant || info.is_special || (info.is_parameter && info.uniform);
  }

  // A region reads its inputs and writes its outputs; the registers inside its fallback come on
  // top.
  template <class R, class W>
  void for_each(const Inst& i, R read, W write) const {
    if (i.op != Op::kRegion) {
      for_reads(i, read);
      for_writes(i, write);
      return;
    }
    const Region& region = code_.regions[static_cast<std::size_t>(i.imm)];
    for (Reg r : region.inputs) read(r);
    for (const Inst& f : region.fallback) for_writes(f, write);
  }

  void liveness() {
    std::size_t n = code_.blocks.size(), bits = sparse_.size();
    // Bounded: NVRTC's kernels have at most some thousand of each.
    in_ = std::make_unique<Bits>(n, bits);
    Bits uses(n, bits), kills(n, bits), out(n, bits);
    for (std::size_t b = 0; b < n; ++b) {
      std::uint64_t *use = uses.row(b), *kill = kills.row(b);
      auto read = [&](Reg r) {
        if (dense_[r] != ~std::uint32_t{0} && !Bits::test(kill, dense_[r]))
          Bits::set(use, dense_[r]);
      };
      for (const Inst& i : code_.blocks[b].code)
        for_each(i, read, [&](Reg r) {
          if (dense_[r] != ~std::uint32_t{0} && i.guard == kNoReg) Bits::set(kill, dense_[r]);
        });
      if (code_.blocks[b].condition != kNoReg) read(code_.blocks[b].condition);
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = n; b-- > 0;) {
        std::uint64_t* o = out.row(b);
        for (std::uint32_t s : successors(code_.blocks[b]))
          for (std::size_t w = 0; w < out.words(); ++w) o[w] |= in_->row(s)[w];
        std::uint64_t* i = in_->row(b);
        for (std::size_t w = 0; w < out.words(); ++w) {
          std::uint64_t now = uses.row(b)[w] | (o[w] & ~kills.row(b)[w]);
          changed = changed || now != i[w];
          i[w] = now;
        }
      }
    }
    out_ = std::make_unique<Bits>(std::move(out));
  }

  void touch(Reg r, std::uint32_t position) {
    intervals_[r].begin = std::min(intervals_[r].begin, position);
    intervals_[r].end = std::max(intervals_[r].end, position);
  }

  // Two positions per instruction: reads at 2p, writes at 2p + 1. A destination may take the slot
  // of a source that dies there, except where the instruction writes before it has read everything.
  void intervals() {
    intervals_.assign(code_.regs.size(), {});
    std::uint32_t p = 0;
    auto one = [&](const Inst& i) {
      bool in_place = is_plain(i.op);
      for_reads(i, [&](Reg r) { touch(r, in_place ? 2 * p : 2 * p + 1); });
      for_writes(i, [&](Reg r) { touch(r, 2 * p + 1); });
      ++p;
    };
    for (std::size_t b = 0; b < code_.blocks.size(); ++b) {
      std::uint32_t first = p;
      for (const Inst& i : code_.blocks[b].code) {
        if (i.op != Op::kRegion) {
          one(i);
          continue;
        }
        const Region& region = code_.regions[static_cast<std::size_t>(i.imm)];
        std::uint32_t begin = p;
        for (const Inst& f : region.fallback) one(f);
        // All inputs are read and all outputs written "at once": tiles run one after the other.
        for (Reg r : region.inputs) touch(r, 2 * begin), touch(r, 2 * p + 1);
        for (Reg r : region.outputs) touch(r, 2 * begin), touch(r, 2 * p + 1);
        ++p;
      }
      if (code_.blocks[b].condition != kNoReg) touch(code_.blocks[b].condition, 2 * p);
      ++p;
      for (std::size_t d = 0; d < sparse_.size(); ++d) {
        if (Bits::test(in_->row(b), d)) touch(sparse_[d], 2 * first);
        if (Bits::test(out_->row(b), d)) touch(sparse_[d], 2 * p - 1);
      }
    }
  }

  void assign() {
    struct Class {
      RegKind kind;
      bool uniform;
      std::uint32_t* count;
    };
    for (const Class& c : {Class{RegKind::kW, false, &program_.slots_w},
                           Class{RegKind::kL, false, &program_.slots_l},
                           Class{RegKind::kP, false, &program_.slots_p},
                           Class{RegKind::kW, true, &program_.uniform_w},
                           Class{RegKind::kL, true, &program_.uniform_l},
                           Class{RegKind::kP, true, &program_.uniform_p}}) {
      std::vector<Reg> order;
      std::uint32_t next = 0;
      for (Reg r = 0; r < code_.regs.size(); ++r) {
        RegInfo& info = code_.regs[r];
        if (info.kind != c.kind || info.uniform != c.uniform) continue;
        if (fixed(r))
          info.slot = next++;  // set once per block by the machine, so never shared
        else if (intervals_[r].begin <= intervals_[r].end)
          order.push_back(r);
        else
          info.slot = 0;  // never used
      }
      std::sort(order.begin(), order.end(), [&](Reg a, Reg b) {
        return intervals_[a].begin != intervals_[b].begin
                   ? intervals_[a].begin < intervals_[b].begin
                   : a < b;
      });
      using Active = std::pair<std::uint32_t, std::uint32_t>;  // end, slot
      std::priority_queue<Active, std::vector<Active>, std::greater<>> active;
      std::vector<std::uint32_t> free;  // a stack: the slot freed last is the warmest
      // Uniform slots are small; one each leaves the translator free to move uniform work.
      const bool share = !c.uniform || order.size() > kMaxUnshared;
      for (Reg r : order) {
        while (share && !active.empty() && active.top().first < intervals_[r].begin) {
          free.push_back(active.top().second);
          active.pop();
        }
        std::uint32_t slot;
        if (free.empty()) {
          slot = next++;
        } else {
          slot = free.back();
          free.pop_back();
        }
        code_.regs[r].slot = slot;
        active.emplace(intervals_[r].end, slot);
      }
      *c.count = std::max<std::uint32_t>(next, 1);
    }
  }

  ProgramCode& program_;
  Code& code_;
  std::vector<std::uint32_t> dense_;
  std::vector<Reg> sparse_;
  std::unique_ptr<Bits> in_, out_;
  std::vector<Interval> intervals_;
};

}  // namespace

void allocate(ProgramCode& program) { Allocator(program).run(); }

}  // namespace driftc::runtime::ptx
