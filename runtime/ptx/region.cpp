#include "runtime/ptx/region.h"

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/ptx/flow.h"

namespace driftc::runtime::ptx {
namespace {

constexpr std::size_t kMinFmas = 12;  // fewer are not worth the set-up per 16 lanes
constexpr std::size_t kMaxTileSide =
    4;  // 4x4 accumulators and 8 multiplicands fit the 32 vector registers

bool writes_shared(const Inst& i) {
  bool memory = i.op == Op::kStore || i.op == Op::kAtomic;
  return (memory && (i.memory.space == Space::kShared || i.memory.space == Space::kNone)) ||
         i.op == Op::kBarrier || i.op == Op::kTrap;
}
bool touches_memory(const Inst& i) {
  return i.op == Op::kLoad || i.op == Op::kStore || i.op == Op::kAtomic;
}

class Finder {
 public:
  explicit Finder(Code& code) : code_(code), counts_(count_uses(code)) {
    state_.resize(code.regs.size());
  }

  void run() {
    for (Block& b : code_.blocks) {
      std::size_t fmas = 0;
      for (const Inst& i : b.code) fmas += i.op == Op::kFmaF32;
      if (fmas < kMinFmas) continue;
      std::vector<Inst> out, window;
      for (Inst& i : b.code) {
        if (writes_shared(i)) {
          process(std::move(window), out, 0);
          window.clear();
          out.push_back(i);
        } else {
          window.push_back(i);
        }
      }
      process(std::move(window), out, 0);
      b.code = std::move(out);
    }
  }

 private:
  // What the instructions collected so far do to a register.
  struct State {
    std::uint32_t stamp = 0;
    bool member_reads = false, member_writes = false, later_reads = false, later_writes = false;
    bool is_load = false;          // the value of a shared load of the region
    bool is_multiplicand = false;  // or an address: must keep its value through the region
    std::int32_t chain = -1;       // the register is the tail of this chain
    std::int32_t start_of = -1;    // the register is the start value of this chain
    bool starts_many = false;
  };
  State& at(Reg r) {
    State& s = state_[r];
    if (s.stamp != stamp_) {
      s = {};
      s.stamp = stamp_;
    }
    return s;
  }

  struct Chain {
    Reg in = kNoReg, out = kNoReg;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> steps;  // operands
  };

  bool is_member_load(const Inst& i) {
    if (i.op != Op::kLoad || i.memory.space != Space::kShared || i.memory.bytes != 4 ||
        i.guard != kNoReg || i.uniform)
      return false;
    State& a = at(i.src[0]);
    if (a.member_writes || a.later_writes) return false;
    if (i.imm < -(1 << 24) || i.imm > (1 << 24)) return false;
    for (std::uint8_t d = 0; d < i.destinations; ++d) {
      State& s = at(i.dst[d]);
      if (counts_.writes[i.dst[d]] != 1 || s.member_reads || s.later_reads || s.later_writes)
        return false;
    }
    return true;
  }

  bool is_member_fma(const Inst& i) {
    if (i.op != Op::kFmaF32 || i.guard != kNoReg || i.uniform) return false;
    for (int k = 0; k < 2; ++k) {
      State& s = at(i.src[k]);
      if (s.later_writes || (s.member_writes && !s.is_load)) return false;
    }
    Reg c = i.src[2], d = i.dst[0];
    State& sc = at(c);
    if (sc.later_writes || sc.is_load) return false;
    if (sc.member_writes) {
      if (sc.chain < 0) return false;  // a value in the middle of a chain
      // The running sum must not be seen by anyone else than its chain.
      if (d != c && (counts_.writes[c] != 1 || counts_.reads[c] != 1)) return false;
    }
    State& sd = at(d);
    if (sd.later_reads || sd.later_writes) return false;
    if (sd.is_load || sd.is_multiplicand || i.src[0] == d || i.src[1] == d) return false;
    // In place: nobody else may have started from this register.
    if (d == c) return sd.start_of < 0 || (sd.start_of == sc.chain && !sd.starts_many);
    if (sd.member_writes) return false;
    // The sum may end in the register it started from (the loop's own variable), if no other chain
    // starts there.
    return !sd.member_reads || (sd.start_of >= 0 && !sd.starts_many && sd.start_of == sc.chain);
  }

  std::uint32_t operand(Reg reg, bool is_address, std::int32_t offset) {
    auto [b, fresh_base] =
        base_ids_.try_emplace({reg, is_address}, static_cast<std::uint32_t>(region_.bases.size()));
    if (fresh_base) {
      region_.bases.push_back({});
      region_.bases.back().reg = reg;
      region_.bases.back().is_address = is_address;
    }
    auto [o, fresh] = operand_ids_.try_emplace({b->second, offset},
                                               static_cast<std::uint32_t>(region_.operands.size()));
    if (fresh) {
      region_.operands.push_back({b->second, offset});
      Region::Base& base = region_.bases[b->second];
      base.min_offset = base.operands.empty() ? offset : std::min(base.min_offset, offset);
      base.max_offset = base.operands.empty() ? offset : std::max(base.max_offset, offset);
      base.operands.push_back(o->second);
    }
    return o->second;
  }
  std::uint32_t multiplicand(Reg r) {
    auto load = loads_.find(r);
    if (load != loads_.end()) return operand(load->second.first, true, load->second.second);
    return operand(r, false, 0);
  }

  // Splits a window into [before][region][after]; `after` may hold another region.
  void process(std::vector<Inst> window, std::vector<Inst>& out, int depth) {
    std::size_t fmas = 0;
    for (const Inst& i : window) fmas += i.op == Op::kFmaF32;
    if (fmas < kMinFmas || depth > 16) {
      out.insert(out.end(), window.begin(), window.end());
      return;
    }
    ++stamp_;
    region_ = {};
    base_ids_.clear();
    operand_ids_.clear();
    loads_.clear();
    std::vector<Chain> chains;
    std::vector<Inst> before, after, members;
    std::map<Reg, std::uint32_t> member_uses;
    bool later_memory = false;
    for (const Inst& i : window) {
      if (is_member_load(i)) {
        at(i.src[0]).member_reads = true;
        at(i.src[0]).is_multiplicand = true;
        for (std::uint8_t d = 0; d < i.destinations; ++d) {
          loads_[i.dst[d]] = {i.src[0], static_cast<std::int32_t>(i.imm) + 4 * d};
          at(i.dst[d]).member_writes = true;
          at(i.dst[d]).is_load = true;
        }
        members.push_back(i);
        continue;
      }
      if (is_member_fma(i)) {
        Reg c = i.src[2], d = i.dst[0];
        std::int32_t chain = at(c).chain;
        if (chain < 0) {
          chain = static_cast<std::int32_t>(chains.size());
          chains.push_back({});
          chains.back().in = c;
          at(c).starts_many = at(c).start_of >= 0;
          at(c).start_of = chain;
        }
        for (int k = 0; k < 2; ++k) {
          at(i.src[k]).member_reads = true;
          at(i.src[k]).is_multiplicand = true;
          ++member_uses[i.src[k]];
        }
        at(c).member_reads = true;
        at(c).chain = -1;
        ++member_uses[c];
        Chain& ch = chains[static_cast<std::size_t>(chain)];
        std::uint32_t a = multiplicand(i.src[0]), b = multiplicand(i.src[1]);
        if (region_.operands[a].base > region_.operands[b].base)
          std::swap(a, b);  // products commute
        ch.steps.emplace_back(a, b);
        ch.out = d;
        at(d).member_writes = true;
        at(d).chain = chain;
        members.push_back(i);
        continue;
      }
      bool later = false;
      for_reads(i, [&](Reg r) { later = later || at(r).member_writes || at(r).later_writes; });
      for_writes(i, [&](Reg r) {
        State& s = at(r);
        later = later || s.member_reads || s.member_writes || s.later_reads || s.later_writes;
      });
      later = later || (later_memory && touches_memory(i));
      if (later) {
        for_reads(i, [&](Reg r) { at(r).later_reads = true; });
        for_writes(i, [&](Reg r) { at(r).later_writes = true; });
        later_memory = later_memory || touches_memory(i);
        after.push_back(i);
      } else {
        before.push_back(i);
      }
    }
    std::size_t member_fmas = 0;
    for (const Chain& c : chains) member_fmas += c.steps.size();
    if (member_fmas < kMinFmas || region_.bases.size() > Region::kMaxBases ||
        !build_tiles(chains)) {
      out.insert(out.end(), window.begin(), window.end());
      return;
    }
    out.insert(out.end(), before.begin(), before.end());
    Inst region;
    region.op = Op::kRegion;
    region.imm = static_cast<std::int64_t>(code_.regions.size());
    region.line = members.front().line;
    region.source = members.front().source;
    out.push_back(region);
    // Loaded values that someone else reads are loaded again behind the region.
    std::vector<Inst> rest;
    for (const Inst& i : members) {
      if (i.op != Op::kLoad) continue;
      bool outside = false;
      for (std::uint8_t d = 0; d < i.destinations; ++d)
        outside = outside || counts_.reads[i.dst[d]] > member_uses[i.dst[d]];
      if (outside) rest.push_back(i);
    }
    region_.fallback = std::move(members);
    collect_registers(chains);
    code_.regions.push_back(std::move(region_));
    rest.insert(rest.end(), after.begin(), after.end());
    process(std::move(rest), out, depth + 1);
  }

  void collect_registers(const std::vector<Chain>& chains) {
    for (const Region::Base& b : region_.bases) region_.inputs.push_back(b.reg);
    for (const Inst& i : region_.fallback)  // loads whose value only the code behind reads
      if (i.op == Op::kLoad) region_.inputs.push_back(i.src[0]);
    for (const Chain& c : chains) {
      region_.inputs.push_back(c.in);
      region_.outputs.push_back(c.out);
    }
    for (std::vector<Reg>* list : {&region_.inputs, &region_.outputs}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
  }

  // Chains with the same sequence of first operands form a row, with the same second operands a
  // column.
  bool build_tiles(const std::vector<Chain>& chains) {
    std::map<std::vector<std::uint32_t>, std::uint32_t> row_ids, column_ids;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> place;
    for (const Chain& c : chains) {
      std::vector<std::uint32_t> a, b;
      for (auto [x, y] : c.steps) a.push_back(x), b.push_back(y);
      std::uint32_t row =
          row_ids.try_emplace(std::move(a), static_cast<std::uint32_t>(row_ids.size()))
              .first->second;
      std::uint32_t column =
          column_ids.try_emplace(std::move(b), static_cast<std::uint32_t>(column_ids.size()))
              .first->second;
      place.emplace_back(row, column);
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::size_t>>
        cells;  // usually one chain a cell
    std::vector<std::vector<std::size_t>> of_row(row_ids.size()), of_column(column_ids.size());
    for (std::size_t c = 0; c < chains.size(); ++c) {
      cells[place[c]].push_back(c);
      of_row[place[c].first].push_back(c);
      of_column[place[c].second].push_back(c);
    }
    std::vector<char> done(chains.size(), 0);
    auto free_chain = [&](std::uint32_t row, std::uint32_t column) -> std::ptrdiff_t {
      auto cell = cells.find({row, column});
      if (cell == cells.end()) return -1;
      for (std::size_t c : cell->second)
        if (!done[c]) return static_cast<std::ptrdiff_t>(c);
      return -1;
    };
    for (std::size_t first = 0; first < chains.size(); ++first) {
      if (done[first]) continue;
      std::vector<std::uint32_t> columns, rows;
      for (std::size_t c : of_row[place[first].first]) {
        std::uint32_t column = place[c].second;
        if (!done[c] && std::find(columns.begin(), columns.end(), column) == columns.end())
          columns.push_back(column);
        if (columns.size() == kMaxTileSide) break;
      }
      for (std::size_t c : of_column[columns[0]]) {
        std::uint32_t row = place[c].first;
        bool complete = std::find(rows.begin(), rows.end(), row) == rows.end();
        for (std::uint32_t column : columns) complete = complete && free_chain(row, column) >= 0;
        if (complete) rows.push_back(row);
        if (rows.size() == kMaxTileSide) break;
      }
      Region::Tile tile;
      tile.rows = static_cast<std::uint32_t>(rows.size());
      tile.columns = static_cast<std::uint32_t>(columns.size());
      tile.steps = static_cast<std::uint32_t>(chains[first].steps.size());
      tile.a.resize(std::size_t{tile.rows} * tile.steps);
      tile.b.resize(std::size_t{tile.columns} * tile.steps);
      for (std::uint32_t i = 0; i < tile.rows; ++i) {
        for (std::uint32_t j = 0; j < tile.columns; ++j) {
          std::ptrdiff_t c = free_chain(rows[i], columns[j]);
          if (c < 0) return false;
          const Chain& chain = chains[static_cast<std::size_t>(c)];
          done[static_cast<std::size_t>(c)] = 1;
          tile.in.push_back(chain.in);
          tile.out.push_back(chain.out);
          for (std::uint32_t s = 0; s < tile.steps; ++s) {
            tile.a[s * tile.rows + i] = chain.steps[s].first;
            tile.b[s * tile.columns + j] = chain.steps[s].second;
          }
        }
      }
      tile.a_base = common_bases(tile.a, tile.rows);
      tile.b_base = common_bases(tile.b, tile.columns);
      region_.tiles.push_back(std::move(tile));
    }
    return true;
  }

  std::vector<std::uint32_t> common_bases(const std::vector<std::uint32_t>& operands,
                                          std::uint32_t side) const {
    std::vector<std::uint32_t> out(side);
    for (std::uint32_t i = 0; i < side; ++i) {
      out[i] = region_.operands[operands[i]].base;
      for (std::size_t s = i; s < operands.size(); s += side)
        if (region_.operands[operands[s]].base != out[i]) out[i] = Region::kMixed;
    }
    return out;
  }

  Code& code_;
  Counts counts_;
  std::vector<State> state_;
  std::uint32_t stamp_ = 0;
  Region region_;
  std::map<std::pair<Reg, bool>, std::uint32_t> base_ids_;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> operand_ids_;
  std::map<Reg, std::pair<Reg, std::int32_t>> loads_;
};

}  // namespace

void find_regions(Code& code) { Finder(code).run(); }

}  // namespace driftc::runtime::ptx
