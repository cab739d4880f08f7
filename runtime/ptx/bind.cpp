#include "runtime/ptx/bind.h"

#include <algorithm>
#include <span>

namespace driftc::runtime::ptx {
namespace {

class Binder {
 public:
  Binder(const ProgramCode& program, std::uint32_t lanes) : p_(program) {
    out_.program = &program;
    out_.lanes = lanes;
    out_.groups = (lanes + kGroupLanes - 1) / kGroupLanes;
    std::size_t padded = std::size_t{out_.groups} * kGroupLanes;
    // One cache line more than the lanes need: slots a power of two apart would all fall into the
    // same cache sets.
    stride_[0] = padded * 4 + 64;
    stride_[1] = padded * 8 + 64;
    stride_[2] = (out_.groups * 2 + 31) / 32 * 32;
    stride_[3] = kGroupLanes * 4;
    stride_[4] = kGroupLanes * 8;
    stride_[5] = 32;
    std::uint32_t counts[6] = {p_.slots_w,   p_.slots_l,   p_.slots_p,
                               p_.uniform_w, p_.uniform_l, p_.uniform_p};
    std::size_t top = 0;
    for (int c = 0; c < 6; ++c) {
      base_[c] = top;
      top += (stride_[c] * counts[c] + 63) / 64 * 64;
    }
    out_.scratch_offset = static_cast<std::uint32_t>(top);
    out_.file_bytes = top + stride_[1] + 64;
  }

  BoundProgram run() {
    for (Reg r = 0; r < p_.code.regs.size(); ++r) out_.places.push_back(place(r));
    for (Reg r = 0; r < p_.code.regs.size(); ++r)
      if (p_.code.regs[r].is_constant || p_.code.regs[r].is_special)
        out_.presets.push_back({r, place(r)});
    for (const Region& region : p_.code.regions) out_.regions.push_back(bind_region(region));
    for (const Block& b : p_.code.blocks) {
      BoundBlock block;
      block.code.reserve(b.code.size());
      for (const Inst& i : b.code) block.code.push_back(bind_inst(i));
      group_mma(block.code);
      if (b.condition != kNoReg) block.condition = place(b.condition);
      out_.blocks.push_back(std::move(block));
    }
    return std::move(out_);
  }

 private:
  static bool overwrites_fragments(std::span<const BoundInst> run) {
    std::vector<std::uint32_t> fragments;
    for (const BoundInst& i : run)
      for (int s = 0; s < i.mma->a_regs + i.mma->b_regs; ++s)
        if (i.src[s].mask != 0) fragments.push_back(i.src[s].offset);
    std::sort(fragments.begin(), fragments.end());
    for (const BoundInst& i : run)
      for (int d = 0; d < i.mma->acc_regs; ++d)
        if (std::binary_search(fragments.begin(), fragments.end(), i.dst[d].offset)) return true;
    return false;
  }
  // mma instructions that follow each other run as one step: their fragments are expanded once.
  static void group_mma(std::vector<BoundInst>& code) {
    for (std::size_t i = 0; i < code.size();) {
      std::size_t end = i;
      while (end < code.size() && code[end].mma) ++end;
      if (end > i) {
        code[i].mma_run = static_cast<std::uint32_t>(end - i);
        const bool overwrites = overwrites_fragments({&code[i], end - i});
        for (std::size_t n = i; n < end; ++n) code[n].mma_overwrites = overwrites;
      }
      i = std::max(end, i + 1);
    }
  }

  static ExecFn function_of(const Inst& i) {
    if (is_plain(i.op)) return plain_functions()[static_cast<std::size_t>(i.op)];
    if (i.op == Op::kMma || i.op == Op::kLoadMatrix) return mma_function(i.op);
    if (i.op != Op::kLoad && i.op != Op::kStore) return warp_function(i.op);
    if (i.memory.space == Space::kShared) return shared_function(i.op);
    return i.memory.space == Space::kLocal ? local_function(i.op) : host_function(i.op);
  }

  Place place(Reg r) const {
    const RegInfo& info = p_.code.regs[r];
    int kind = info.kind == RegKind::kW ? 0 : info.kind == RegKind::kL ? 1 : 2;
    int area = kind + (info.uniform ? 3 : 0);
    return {static_cast<std::uint32_t>(base_[area] + stride_[area] * info.slot),
            info.uniform ? 0 : ~std::uint32_t{0}};
  }

  BoundInst bind_inst(const Inst& i) const {
    BoundInst b;
    b.inst = &i;
    b.imm = i.imm;
    b.memory = i.memory;
    b.destinations = i.destinations;
    b.sources = i.sources;
    b.uniform = i.uniform;
    b.plain = is_plain(i.op);
    b.fn = function_of(i);
    for (std::uint8_t d = 0; d < i.destinations; ++d) b.dst[d] = place(i.dst[d]);
    for (std::uint8_t s = 0; s < i.sources; ++s) b.src[s] = place(i.src[s]);
    if (i.destinations) b.kind = p_.code.regs[i.dst[0]].kind;
    if (i.guard != kNoReg) {
      b.guarded = true;
      b.guard_negated = i.guard_negated;
      b.guard = place(i.guard);
    }
    if (i.op == Op::kMma) b.mma = &p_.mma_shapes[static_cast<std::size_t>(i.imm)];
    if (i.op == Op::kRegion) b.region = out_.regions[static_cast<std::size_t>(i.imm)].get();
    return b;
  }

  static BoundRegion::Side bind_side(const Region& region,
                                     const std::vector<std::uint32_t>& operands,
                                     const std::vector<std::uint32_t>& base, std::uint32_t width) {
    BoundRegion::Side side;
    side.operands = operands;
    side.base = base;
    side.linear = true;
    std::size_t steps = operands.size() / width;
    auto offset = [&](std::size_t n) { return region.operands[operands[n]].offset; };
    for (std::uint32_t i = 0; i < width; ++i) side.first.push_back(offset(i));
    side.stride = steps > 1 ? offset(width) - offset(0) : 0;
    for (std::size_t n = 0; n < operands.size(); ++n) {
      std::size_t row = n % width, step = n / width;
      side.linear = side.linear && base[row] != Region::kMixed &&
                    offset(n) == side.first[row] + static_cast<std::int32_t>(step) * side.stride;
      side.bases_used.push_back(region.operands[operands[n]].base);
    }
    std::sort(side.bases_used.begin(), side.bases_used.end());
    side.bases_used.erase(std::unique(side.bases_used.begin(), side.bases_used.end()),
                          side.bases_used.end());
    return side;
  }

  std::unique_ptr<BoundRegion> bind_region(const Region& region) {
    auto out = std::make_unique<BoundRegion>();
    for (const Region::Base& b : region.bases) {
      std::uint32_t offset_bits = 0;
      for (std::uint32_t o : b.operands)
        offset_bits |= static_cast<std::uint32_t>(region.operands[o].offset);
      out->bases.push_back(
          {place(b.reg), b.is_address, b.min_offset, b.max_offset, offset_bits, &b.operands});
    }
    out->operands = region.operands;
    for (const Region::Tile& t : region.tiles) {
      BoundRegion::Tile tile;
      tile.rows = t.rows;
      tile.columns = t.columns;
      tile.steps = t.steps;
      tile.a = bind_side(region, t.a, t.a_base, t.rows);
      tile.b = bind_side(region, t.b, t.b_base, t.columns);
      for (Reg r : t.in) tile.in.push_back(place(r));
      for (Reg r : t.out) tile.out.push_back(place(r));
      out_.region_pointers =
          std::max<std::size_t>(out_.region_pointers, std::size_t{t.rows + t.columns} * t.steps);
      out->tiles.push_back(std::move(tile));
    }
    for (const Inst& i : region.fallback) out->fallback.push_back(bind_inst(i));
    out_.region_operands = std::max(out_.region_operands, region.operands.size());
    return out;
  }

  const ProgramCode& p_;
  BoundProgram out_;
  std::size_t stride_[6], base_[6];
};

}  // namespace

BoundProgram bind(const ProgramCode& program, std::uint32_t lanes) {
  return Binder(program, lanes).run();
}

}  // namespace driftc::runtime::ptx
