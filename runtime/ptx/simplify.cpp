// Clean-up that makes the interpreter's work smaller without touching a bit of any result: copies
// and constants are propagated, 64-bit address arithmetic whose upper half nobody reads becomes
// 32-bit, loop invariants move out of loops, and values nobody reads disappear.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/ptx/flow.h"
#include "runtime/ptx/program.h"

namespace driftc::runtime::ptx {
namespace {

bool is_copy(const Inst& i) {
  return i.guard == kNoReg && (i.op == Op::kMov32 || i.op == Op::kMov64 || i.op == Op::kMovPred);
}

// A register written once holds one value wherever it is defined (PTX from NVRTC comes out of SSA),
// so a copy of it can be replaced by it.
void propagate_copies(Code& code) {
  Counts counts = count_uses(code);
  std::vector<Reg> origin(code.regs.size());
  for (Reg r = 0; r < origin.size(); ++r) origin[r] = r;
  auto fixed = [&](Reg r) {
    return code.regs[r].is_constant || code.regs[r].is_special || counts.writes[r] == 1;
  };
  for (const Block& b : code.blocks)
    for (const Inst& i : b.code)
      if (is_copy(i) && counts.writes[i.dst[0]] == 1 && fixed(i.src[0]) && i.src[0] != i.dst[0])
        origin[i.dst[0]] = i.src[0];
  auto find = [&](Reg r) {
    Reg root = r;
    for (std::size_t steps = 0; origin[root] != root && steps <= origin.size(); ++steps)
      root = origin[root];
    if (origin[root] != root) return r;  // a cycle of copies: undefined in any case
    while (origin[r] != root && origin[r] != r) r = std::exchange(origin[r], root);
    return root;
  };
  for (Block& b : code.blocks) {
    for (Inst& i : b.code) {
      for (std::uint8_t s = 0; s < i.sources; ++s) i.src[s] = find(i.src[s]);
      if (i.guard != kNoReg) i.guard = find(i.guard);
    }
    if (b.condition != kNoReg) b.condition = find(b.condition);
  }
}

void drop_dead(Code& code) {
  Counts counts = count_uses(code);
  for (bool changed = true; changed;) {
    changed = false;
    for (Block& b : code.blocks) {
      for (std::size_t k = b.code.size(); k-- > 0;) {
        Inst& i = b.code[k];
        if (!(is_plain(i.op) || i.op == Op::kLoadParam) || i.destinations == 0) continue;
        bool dead = true;
        for_writes(i,
                   [&](Reg r) { dead = dead && counts.reads[r] == (i.guard != kNoReg ? 1u : 0u); });
        if (!dead) continue;
        for_reads(i, [&](Reg r) { --counts.reads[r]; });
        i.destinations = 0;  // marks it for removal
        changed = true;
      }
    }
    for (Block& b : code.blocks)
      std::erase_if(b.code, [](const Inst& i) {
        return (is_plain(i.op) || i.op == Op::kLoadParam) && i.destinations == 0;
      });
  }
}

// Parameters never change, so each is read once, where all threads still run together: its value is
// then uniform.
void read_parameters_first(Code& code) {
  const Counts counts = count_uses(code);
  std::vector<Inst> first;
  for (Block& b : code.blocks) {
    std::vector<Inst> kept;
    for (Inst& i : b.code) {
      if (i.op == Op::kLoadParam && counts.writes[i.dst[0]] == 1) {
        i.guard = kNoReg;
        i.guard_negated = false;
        code.regs[i.dst[0]].is_parameter = true;
        first.push_back(i);
      } else {
        kept.push_back(i);
      }
    }
    b.code = std::move(kept);
  }
  code.blocks[0].code.insert(code.blocks[0].code.begin(), first.begin(), first.end());
}

// ---- 64-bit values of which only the low half is read
// --------------------------------------------------------------

// The 32-bit operation that gives the low half of a 64-bit one from the low halves of its operands.
bool narrow_form(const Code& code, const Inst& i, Op& out) {
  auto small_constant_shift = [&] { return code.regs[i.src[1]].is_constant; };
  switch (i.op) {
    case Op::kMov64:
      out = Op::kMov32;
      return true;
    case Op::kAdd64:
      out = Op::kAdd32;
      return true;
    case Op::kSub64:
      out = Op::kSub32;
      return true;
    case Op::kMul64:
      out = Op::kMul32;
      return true;
    case Op::kMad64:
      out = Op::kMad32;
      return true;
    case Op::kAnd64:
      out = Op::kAnd32;
      return true;
    case Op::kOr64:
      out = Op::kOr32;
      return true;
    case Op::kXor64:
      out = Op::kXor32;
      return true;
    case Op::kNot64:
      out = Op::kNot32;
      return true;
    case Op::kNeg64:
      out = Op::kNeg32;
      return true;
    case Op::kShl64:
      out = Op::kShl32;
      return small_constant_shift();  // by 32 or more: both give 0 in the low half
    case Op::kMulWideS32:
    case Op::kMulWideU32:
      out = Op::kMul32;
      return true;
    case Op::kMadWideS32:
    case Op::kMadWideU32:
      out = Op::kMad32;
      return true;
    case Op::kSextW:
    case Op::kZextW:
      out = Op::kMov32;
      return true;
    default:
      return false;  // not a closed set: anything else keeps its width
  }
}

void narrow_addresses(Code& code) {
  std::vector<char> narrow(code.regs.size(), 0);
  for (Reg r = 0; r < code.regs.size(); ++r)
    narrow[r] = code.regs[r].kind == RegKind::kL && !code.regs[r].is_special;
  for (bool changed = true; changed;) {
    changed = false;
    auto widen = [&](Reg r) {
      if (!code.regs[r].is_constant && narrow[r]) narrow[r] = 0, changed = true;
    };
    for (const Block& b : code.blocks) {
      for (const Inst& i : b.code) {
        Op form;
        bool can = i.destinations == 1 && code.regs[i.dst[0]].kind == RegKind::kL &&
                   narrow_form(code, i, form);
        if (can)
          for (std::uint8_t s = 0; s < i.sources; ++s)
            can = can && (code.regs[i.src[s]].kind != RegKind::kL || narrow[i.src[s]] ||
                          code.regs[i.src[s]].is_constant);
        if (!can) for_writes(i, [&](Reg r) { widen(r); });
        // A 64-bit source is read whole, unless the result is narrow or the instruction takes the
        // low half.
        bool low_only = i.op == Op::kTruncL || (can && narrow[i.dst[0]]);
        if (!low_only)
          for (std::uint8_t s = 0; s < i.sources; ++s) widen(i.src[s]);
      }
    }
  }
  // Constants are shared by narrow and wide readers, so narrow ones get twins.
  std::vector<Reg> twin(code.regs.size(), kNoReg);
  auto low = [&](Reg r) {
    if (code.regs[r].kind != RegKind::kL || !code.regs[r].is_constant) return r;
    if (twin[r] == kNoReg) {
      RegInfo info = code.regs[r];
      info.kind = RegKind::kW;
      info.bits &= 0xFFFFFFFFu;
      code.regs.push_back(info);
      twin.push_back(kNoReg);
      narrow.push_back(0);
      twin[r] = static_cast<Reg>(code.regs.size() - 1);
    }
    return twin[r];
  };
  std::vector<char> written(code.regs.size(), 0);
  for (const Block& b : code.blocks)
    for (const Inst& i : b.code) for_writes(i, [&](Reg r) { written[r] = 1; });
  std::size_t count = written.size();
  for (Reg r = 0; r < count; ++r)
    if (!written[r]) narrow[r] = 0;
  for (Block& b : code.blocks) {
    for (Inst& i : b.code) {
      Op form;
      if (i.destinations == 1 && code.regs[i.dst[0]].kind == RegKind::kL && narrow[i.dst[0]] &&
          narrow_form(code, i, form)) {
        i.op = form;
        for (std::uint8_t s = 0; s < i.sources; ++s) i.src[s] = low(i.src[s]);
      } else if (i.op == Op::kTruncL && narrow[i.src[0]]) {
        i.op = Op::kMov32;
      }
    }
  }
  for (Reg r = 0; r < count; ++r)
    if (narrow[r]) code.regs[r].kind = RegKind::kW;
}

// Parameters are read first.
void insert_behind_parameters(Code& code, const std::vector<Inst>& list) {
  auto& entry = code.blocks[0].code;
  const auto at = std::find_if(entry.begin(), entry.end(),
                               [](const Inst& i) { return i.op != Op::kLoadParam; });
  entry.insert(at, list.begin(), list.end());
}

// ---- loop invariants
// --------------------------------------------------------------------------------------------------

// Plain operations have no side effect, so one whose operands do not change in a loop is computed
// once at the end of the block that dominates the loop.
void hoist_invariants(Code& code) {
  std::size_t n = code.blocks.size();
  std::vector<BlockList> next(n), before = predecessors(code);
  for (std::uint32_t b = 0; b < n; ++b) next[b] = successors(code.blocks[b]);
  std::vector<std::uint32_t> idom = dominators(next, before, 0);

  struct Loop {
    std::uint32_t header;
    BlockList body;
  };
  std::vector<Loop> loops;
  std::size_t work_limit = 4u << 20;  // a hostile graph may have quadratically many loop blocks
  for (std::uint32_t header = 0; header < n; ++header) {
    BlockList work;
    for (std::uint32_t p : before[header])
      if (dominates(idom, header, p)) work.push_back(p);
    if (work.empty() || header == 0) continue;
    Loop loop{header, {header}};
    std::vector<char> inside(n, 0);
    inside[header] = 1;
    while (!work.empty()) {
      std::uint32_t b = work.back();
      work.pop_back();
      if (inside[b]) continue;
      inside[b] = 1;
      loop.body.push_back(b);
      for (std::uint32_t p : before[b]) work.push_back(p);
    }
    if (work_limit < n + loop.body.size()) return;
    work_limit -= n + loop.body.size();
    std::sort(loop.body.begin(), loop.body.end());
    loops.push_back(std::move(loop));
  }
  // Inner loops first: what leaves one may leave the next.
  std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) {
    return a.body.size() != b.body.size() ? a.body.size() < b.body.size() : a.header < b.header;
  });
  Counts counts = count_uses(code);
  std::vector<std::uint32_t> written_in(code.regs.size(), 0);
  std::uint32_t stamp = 0;
  for (const Loop& loop : loops) {
    ++stamp;
    for (std::uint32_t b : loop.body)
      for (const Inst& i : code.blocks[b].code)
        for_writes(i, [&](Reg r) { written_in[r] = stamp; });
    std::uint32_t entry = idom[loop.header];
    std::size_t outside = 0;
    for (std::uint32_t p : before[loop.header])
      outside += !std::binary_search(loop.body.begin(), loop.body.end(), p);
    bool direct = outside == 1;  // the dominating block is the only way in: registers written more
                                 // than once are safe too
    for (std::uint32_t b : loop.body) {
      std::vector<Inst>& list = code.blocks[b].code;
      std::vector<Inst> kept;
      for (Inst& i : list) {
        bool invariant = is_plain(i.op) && i.guard == kNoReg && i.destinations == 1 &&
                         counts.writes[i.dst[0]] == 1 && !is_copy(i);
        for (std::uint8_t s = 0; s < i.sources && invariant; ++s) {
          Reg r = i.src[s];
          invariant = written_in[r] != stamp &&
                      (code.regs[r].is_constant || code.regs[r].is_special ||
                       counts.writes[r] == 1 || (direct && before[loop.header].size() > 1));
        }
        if (invariant) {
          written_in[i.dst[0]] = 0;
          code.blocks[entry].code.push_back(i);
        } else {
          kept.push_back(i);
        }
      }
      list = std::move(kept);
    }
  }
}

// What follows from parameters, constants and the block's index alone is the same for all threads
// wherever it is computed; in a divergent block nobody could see that, so it is computed at the
// begin of the kernel.
void compute_shared_first(Code& code) {
  const Counts counts = count_uses(code);
  std::vector<char> shared(code.regs.size(), 0);
  for (Reg r = 0; r < code.regs.size(); ++r) {
    const RegInfo& info = code.regs[r];
    shared[r] = info.is_constant || info.is_parameter ||
                (info.is_special && info.bits < static_cast<std::uint64_t>(Special::kFirstVarying));
  }
  std::vector<Inst> first;
  for (bool changed = true; changed;) {
    changed = false;
    for (Block& b : code.blocks) {
      std::vector<Inst> kept;
      for (Inst& i : b.code) {
        bool moves = is_plain(i.op) && i.guard == kNoReg && i.destinations == 1 &&
                     counts.writes[i.dst[0]] == 1 && !is_copy(i);
        for (std::uint8_t s = 0; s < i.sources; ++s) moves = moves && shared[i.src[s]];
        if (moves) {
          shared[i.dst[0]] = 1;
          first.push_back(i);
          changed = true;
        } else {
          kept.push_back(i);
        }
      }
      b.code = std::move(kept);
    }
  }
  insert_behind_parameters(code, first);
}

// Products of what all threads share are computed once, and what is left is a sum, in which
// addresses are recognised: a * b + c with uniform a and b, and (v + a) * b + c with uniform a and
// b where v * b + c is wanted more than once, as in the rows of a tile.
class UniformProducts {
 public:
  explicit UniformProducts(Code& code) : code_(code), counts_(count_uses(code)) {}

  void run() {
    for (Block& b : code_.blocks) block(b);
    insert_behind_parameters(code_, first_);
  }

 private:
  struct Row {  // v * b + c
    Reg v = kNoReg, b = kNoReg, c = kNoReg;
    bool swapped = false;  // b is the first operand
    auto operator<=>(const Row&) const = default;
  };
  struct Sum {  // v + a
    Reg v, a;
  };

  bool is_written_once(Reg r) const { return r < counts_.writes.size() && counts_.writes[r] == 1; }
  bool is_constant(Reg r) const {
    return code_.regs[r].is_constant || code_.regs[r].is_special || code_.regs[r].is_parameter;
  }
  // Has one value from its one definition, or from the begin of the block, to the end of the block.
  bool is_steady(Reg r) const {
    return is_constant(r) || (is_written_once(r) && (defined_.contains(r) || !here_.contains(r)));
  }
  // In a divergent block only what is computed at the begin of the kernel is uniform.
  bool is_fixed(Reg r) const {
    return code_.regs[r].uniform && (divergent_ ? is_constant(r) : is_steady(r));
  }

  // The row that an instruction belongs to, and what it adds to v.
  std::optional<std::pair<Row, Reg>> row_of(const Inst& i) const {
    if (i.op != Op::kMad32 || i.uniform || i.guard != kNoReg || !is_steady(i.src[2])) return {};
    for (int s = 0; s < 2; ++s) {
      const auto at = sums_.find(i.src[s]);
      if (at != sums_.end() && is_fixed(i.src[1 - s]))
        return std::pair{Row{at->second.v, i.src[1 - s], i.src[2], s == 1}, at->second.a};
    }
    return {};
  }
  void note_sum(const Inst& i) {
    if (i.op != Op::kAdd32 || i.uniform || i.guard != kNoReg || !is_written_once(i.dst[0])) return;
    // NVRTC repeats sums with a loop's counter.
    const std::array<std::size_t, 4> operands{i.src[0], writes_before(i.src[0]), i.src[1],
                                              writes_before(i.src[1])};
    first_same_[i.dst[0]] = known_sums_.emplace(operands, i.dst[0]).first->second;
    for (int s = 0; s < 2; ++s) {
      const Reg v = i.src[s], a = i.src[1 - s];
      if (code_.regs[v].uniform || !is_steady(v) || !is_fixed(a)) continue;
      const auto same = first_same_.find(v);
      sums_[i.dst[0]] = {same == first_same_.end() ? v : same->second, a};
    }
  }
  std::size_t writes_before(Reg r) const {
    const auto at = defined_.find(r);
    return at == defined_.end() ? 0 : at->second;
  }
  void passed(const Inst& i) {
    note_sum(i);
    for_writes(i, [&](Reg r) { ++defined_[r]; });
  }
  void begin() {
    sums_.clear();
    first_same_.clear();
    known_sums_.clear();
    defined_.clear();
  }

  void block(Block& b) {
    divergent_ = b.divergent;
    begin();
    here_.clear();
    products_.clear();
    rows_.clear();
    for (const Inst& i : b.code) for_writes(i, [&](Reg r) { here_.insert(r); });
    std::map<Row, int> wanted;
    for (const Inst& i : b.code) {
      if (const auto row = row_of(i)) ++wanted[row->first];
      passed(i);
    }
    begin();
    out_.clear();
    out_.reserve(b.code.size());
    for (const Inst& i : b.code) {
      const auto row = row_of(i);
      if (i.op == Op::kMad32 && !i.uniform && is_fixed(i.src[0]) && is_fixed(i.src[1])) {
        emit_sum(i, product(i.src[0], i.src[1], i), i.src[2]);
      } else if (row && wanted[row->first] > 1) {
        const Reg added = product(row->second, row->first.b, i);
        emit_sum(i, added, value_of(row->first, i));
      } else {
        out_.push_back(i);
      }
      passed(i);
    }
    b.code = out_;
  }

  Reg fresh(bool uniform) {
    RegInfo info;
    info.kind = RegKind::kW;
    info.uniform = uniform;
    code_.regs.push_back(info);
    return static_cast<Reg>(code_.regs.size() - 1);
  }
  static Inst made(Op op, bool uniform, Reg to, std::initializer_list<Reg> from,
                   const Inst& where) {
    Inst i;
    i.op = op;
    i.destinations = 1;
    i.uniform = uniform;
    i.dst[0] = to;
    for (Reg r : from) i.src[i.sources++] = r;
    i.line = where.line;
    i.source = where.source;
    return i;
  }
  void emit_sum(Inst i, Reg a, Reg b) {
    i.op = Op::kAdd32;
    i.sources = 2;
    i.src[0] = a;
    i.src[1] = b;
    i.src[2] = kNoReg;
    out_.push_back(i);
  }
  Reg product(Reg a, Reg b, const Inst& where) {
    const bool always = is_constant(a) && is_constant(b);  // then once for the whole kernel
    auto& known = always ? constant_products_ : products_;
    const auto [at, unknown] = known.emplace(std::pair{a, b}, kNoReg);
    if (unknown) {
      at->second = fresh(true);
      (always ? first_ : out_).push_back(made(Op::kMul32, true, at->second, {a, b}, where));
    }
    return at->second;
  }
  Reg value_of(const Row& row, const Inst& where) {
    const auto [at, unknown] = rows_.emplace(row, kNoReg);
    if (unknown) {
      at->second = fresh(false);
      out_.push_back(made(Op::kMad32, false, at->second,
                          {row.swapped ? row.b : row.v, row.swapped ? row.v : row.b, row.c},
                          where));
    }
    return at->second;
  }

  Code& code_;
  const Counts counts_;
  bool divergent_ = false;  // the block at hand
  std::map<std::pair<Reg, Reg>, Reg> constant_products_, products_;
  std::map<Reg, Sum> sums_;
  std::map<Row, Reg> rows_;
  std::map<std::array<std::size_t, 4>, Reg> known_sums_;
  std::map<Reg, Reg> first_same_;       // of sums of the block
  std::set<Reg> here_;                  // written in the block
  std::map<Reg, std::size_t> defined_;  // how often before the running instruction
  std::vector<Inst> first_, out_;
};

}  // namespace

void split_uniform_products(Code& code) {
  UniformProducts(code).run();
  drop_dead(code);  // sums that only rows read
}

void simplify(Code& code, bool registers_written) {
  read_parameters_first(code);
  propagate_copies(code);
  narrow_addresses(code);
  propagate_copies(code);
  drop_dead(code);
  // What is computed earlier is written earlier, and might be read where nothing had written it:
  // checked mode has to see that.
  if (!registers_written) return;
  hoist_invariants(code);
  compute_shared_first(code);
}

}  // namespace driftc::runtime::ptx
