#include "runtime/ptx/jit_shapes.h"

#include <algorithm>
#include <cstring>

#include "runtime/ptx/flow.h"
#include "runtime/ptx/frame.h"

namespace driftc::runtime::ptx {
namespace {

bool steady(const RegInfo& r) {
  return r.is_parameter || (r.is_special && static_cast<Special>(r.bits) < Special::kCtaidX);
}
bool constant(const Code& code, Reg r, std::int32_t& out, const Seen* seen) {
  const RegInfo& info = code.regs[r];
  if (seen && info.uniform && !info.is_constant && (!seen->steady_only || steady(info))) {
    if (seen->asked) seen->asked->push_back(r);
    out = static_cast<std::int32_t>(seen->uniform(r));
    return true;
  }
  if (!info.is_constant) return false;
  out = static_cast<std::int32_t>(static_cast<std::uint32_t>(code.regs[r].bits));
  return true;
}
std::int32_t wrapped(std::int64_t v) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::uint64_t>(v)));
}

Shape meet(Shape a, Shape b) {
  if (a.kind == Shape::Kind::kNothing) return b;
  if (b.kind == Shape::Kind::kNothing || a == b) return a;
  return Shape::unknown();
}

Shape product(const Code& code, Reg ra, Reg rb, Shape a, Shape b, const Seen* seen) {
  if (a.is_splat() && b.is_splat()) return Shape::splat();
  std::int32_t c = 0;
  if (a.is_linear() && constant(code, rb, c, seen))
    return {Shape::Kind::kLinear, wrapped(std::int64_t{a.step} * c)};
  if (b.is_linear() && constant(code, ra, c, seen))
    return {Shape::Kind::kLinear, wrapped(std::int64_t{b.step} * c)};
  return Shape::unknown();
}
Shape sum(Shape a, Shape b, int sign) {
  if (!a.is_linear() || !b.is_linear()) return Shape::unknown();
  return {Shape::Kind::kLinear, wrapped(std::int64_t{a.step} + sign * std::int64_t{b.step})};
}

// Registers that are functions of the thread's index alone, lane by lane: computed by the
// interpreter's own functions.
class Statics {
 public:
  Statics(const Code& code, const std::array<std::uint32_t, 3>& block)
      : code_(code), lanes_(block[0] * block[1] * block[2]) {
    groups_ = (lanes_ + kGroupLanes - 1) / kGroupLanes;
    known_.assign(code.regs.size(), 0);
    const Counts counts = count_uses(code);
    for (Reg r = 0; r < code.regs.size(); ++r) preset(r, block);
    for (bool changed = true; changed;) {
      changed = false;
      for (const Block& b : code.blocks)
        for (const Inst& i : b.code) changed |= evaluate(i, counts);
    }
  }

  // The shape when the register is known.
  bool shape(Reg r, Shape& out) const {
    if (!known_[r] || code_.regs[r].kind != RegKind::kW) return false;
    const auto* v = reinterpret_cast<const std::uint32_t*>(storage_[r].data());
    const std::int32_t step = lanes_ > 1 ? static_cast<std::int32_t>(v[1] - v[0]) : 0;
    out = {Shape::Kind::kLinear, step};
    for (std::uint32_t i = 0; i < lanes_; ++i) {
      const std::uint32_t first = i / kGroupLanes * kGroupLanes;
      if (v[i] - v[first] != static_cast<std::uint32_t>(step) * (i - first)) {
        out = Shape::unknown();
        break;
      }
    }
    return true;
  }

 private:
  std::byte* room(Reg r) {
    const std::size_t each = code_.regs[r].kind == RegKind::kL ? 8 : 4;
    if (storage_.empty()) storage_.resize(code_.regs.size());
    storage_[r].resize((std::size_t{groups_} * kGroupLanes * each + 63) / 64 * 8);
    return reinterpret_cast<std::byte*>(storage_[r].data());
  }
  void preset(Reg r, const std::array<std::uint32_t, 3>& block) {
    const RegInfo& info = code_.regs[r];
    const std::uint32_t padded = groups_ * kGroupLanes;
    if (info.kind != RegKind::kW) return;
    if (info.is_constant) {
      std::fill_n(reinterpret_cast<std::uint32_t*>(room(r)), padded,
                  static_cast<std::uint32_t>(info.bits));
      known_[r] = 1;
      return;
    }
    if (!info.is_special) return;
    const auto which = static_cast<Special>(info.bits);
    if (which != Special::kTidX && which != Special::kTidY && which != Special::kTidZ) return;
    auto* v = reinterpret_cast<std::uint32_t*>(room(r));
    for (std::uint32_t i = 0; i < padded; ++i)
      v[i] = which == Special::kTidX   ? i % block[0]
             : which == Special::kTidY ? i / block[0] % block[1]
                                       : i / block[0] / block[1];
    known_[r] = 1;
  }
  bool evaluate(const Inst& i, const Counts& counts) {
    if (!is_plain(i.op) || i.guard != kNoReg || i.destinations != 1 || known_[i.dst[0]] ||
        counts.writes[i.dst[0]] != 1 || code_.regs[i.dst[0]].kind != RegKind::kW)
      return false;
    for (std::uint8_t s = 0; s < i.sources; ++s)
      if (!known_[i.src[s]]) return false;
    std::byte* d = room(i.dst[0]);
    const std::size_t bytes = std::size_t{groups_} * kGroupLanes * 4;
    std::vector<std::uint64_t> file((bytes + 63) / 64 * 8 * (i.sources + 1u) + 8);
    // Vector loads of the functions want 64-byte alignment.
    auto* file_begin = reinterpret_cast<std::byte*>(
        (reinterpret_cast<std::uintptr_t>(file.data()) + 63) / 64 * 64);
    const std::size_t stride = (bytes + 63) / 64 * 64;
    BoundInst in;
    in.imm = i.imm;
    in.inst = &i;
    in.kind = RegKind::kW;
    in.destinations = 1;
    in.sources = i.sources;
    for (std::uint8_t s = 0; s < i.sources; ++s) {
      std::memcpy(file_begin + s * stride, storage_[i.src[s]].data(), bytes);
      in.src[s] = {static_cast<std::uint32_t>(s * stride), ~std::uint32_t{0}};
    }
    in.dst[0] = {static_cast<std::uint32_t>(i.sources * stride), ~std::uint32_t{0}};
    Frame f;
    f.regs = file_begin;
    f.groups = groups_;
    f.lanes = lanes_;
    plain_functions()[static_cast<std::size_t>(i.op)](in, f, 0, groups_);
    std::memcpy(d, file_begin + i.sources * stride, bytes);
    known_[i.dst[0]] = 1;
    return true;
  }

  const Code& code_;
  std::uint32_t lanes_, groups_ = 0;
  std::vector<char> known_;
  std::vector<std::vector<std::uint64_t>> storage_;
};

}  // namespace

std::uint32_t Seen::uniform(Reg r) const {
  std::uint32_t v = 0;
  std::memcpy(&v, regs + places[r].offset, sizeof v);
  return v;
}

Shape Seen::shape(Reg r) const {
  std::uint32_t v[kGroupLanes];
  std::memcpy(v, regs + places[r].offset + std::size_t{group} * sizeof v, sizeof v);
  int first = -1, second = -1;
  for (int j = 0; j < static_cast<int>(kGroupLanes); ++j) {
    if ((lanes >> j & 1) == 0) continue;
    if (first < 0)
      first = j;
    else if (second < 0)
      second = j;
    if (second < 0) continue;
    const auto step = static_cast<std::int32_t>(v[second] - v[first]) / (second - first);
    if (v[j] - v[first] != static_cast<std::uint32_t>(step) * static_cast<std::uint32_t>(j - first))
      return Shape::unknown();
  }
  if (second < 0) return {Shape::Kind::kLinear, 1};
  return {Shape::Kind::kLinear, static_cast<std::int32_t>(v[second] - v[first]) / (second - first)};
}

Shape shape_after(const Code& code, const Inst& i, const Shape* s, const Seen* seen) {
  bool nothing = false, splat = true;
  for (std::uint8_t n = 0; n < i.sources; ++n) {
    nothing |= s[n].kind == Shape::Kind::kNothing;
    splat &= s[n].is_splat();
  }
  if (nothing) return {};
  if (splat) return Shape::splat();
  std::int32_t c = 0;
  switch (i.op) {
    case Op::kMov32:
    case Op::kMov64:
      return s[0];
    case Op::kAdd32:
      return sum(s[0], s[1], 1);
    case Op::kSub32:
      return sum(s[0], s[1], -1);
    case Op::kMul32:
      return product(code, i.src[0], i.src[1], s[0], s[1], seen);
    case Op::kMad32:
      return sum(product(code, i.src[0], i.src[1], s[0], s[1], seen), s[2], 1);
    case Op::kShl32:
      if (s[0].is_linear() && constant(code, i.src[1], c, seen) && c >= 0 && c < 32)
        return {Shape::Kind::kLinear, wrapped(std::int64_t{s[0].step} << c)};
      return Shape::unknown();
    default:
      return Shape::unknown();  // not a closed set: lanes of anything else are looked at
  }
}

std::vector<Shape> find_shapes(const Code& code, const std::array<std::uint32_t, 3>& block) {
  const Statics statics(code, block);
  std::vector<Shape> shapes(code.regs.size());
  std::vector<char> fixed(code.regs.size(), 0);
  for (Reg r = 0; r < code.regs.size(); ++r) {
    const RegInfo& info = code.regs[r];
    if (info.uniform) {
      shapes[r] = Shape::splat();
      fixed[r] = 1;
    } else if (statics.shape(r, shapes[r])) {
      fixed[r] = 1;
    } else if (info.is_special) {
      shapes[r] = Shape::unknown();
      fixed[r] = 1;
    }
  }
  // Shapes only go down (nothing, linear, unknown), so this ends.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Block& b : code.blocks)
      for (const Inst& i : b.code)
        for (std::uint8_t d = 0; d < i.destinations; ++d) {
          const Reg r = i.dst[d];
          if (fixed[r] || shapes[r].kind == Shape::Kind::kUnknown) continue;
          Shape now = Shape::unknown();
          if (is_plain(i.op) && i.guard == kNoReg && !b.divergent) {
            Shape sources[5];
            for (std::uint8_t s = 0; s < i.sources; ++s) sources[s] = shapes[i.src[s]];
            now = shape_after(code, i, sources);
          }
          now = meet(shapes[r], now);
          if (now == shapes[r]) continue;
          shapes[r] = now;
          changed = true;
        }
  }
  // Sums of regions are not seen above.
  for (Shape& s : shapes)
    if (s.kind == Shape::Kind::kNothing) s = Shape::unknown();
  return shapes;
}

}  // namespace driftc::runtime::ptx
