#include "ir/numeric.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <numeric>

#include "ir/support/hash.h"

namespace driftc::ir {

int MmaSpec::k() const {
  const std::size_t at = shape.rfind('k');
  int value = 0;
  if (at != std::string::npos)
    std::from_chars(shape.data() + at + 1, shape.data() + shape.size(), value);
  return value;
}

namespace {

template <class E>
struct Named {
  E value;
  std::string_view name;
};
constexpr std::array kAriths = {
    Named<Arith>{Arith::kFma, "fma"}, Named<Arith>{Arith::kMulAdd, "muladd"},
    Named<Arith>{Arith::kAdd, "add"}, Named<Arith>{Arith::kKahan, "kahan"},
    Named<Arith>{Arith::kF64, "f64"}, Named<Arith>{Arith::kMma, "mma"}};
constexpr std::array kBiases = {Named<BiasPoint>{BiasPoint::kFirst, "+bias.first"},
                                Named<BiasPoint>{BiasPoint::kLast, "+bias.last"},
                                Named<BiasPoint>{BiasPoint::kStored, "+bias.stored"}};
constexpr std::array kPrecisions = {Named<Precision>{Precision::kF32, "f32"},
                                    Named<Precision>{Precision::kTf32Rna, "tf32:rna"},
                                    Named<Precision>{Precision::kTf32Trunc, "tf32:trunc"},
                                    Named<Precision>{Precision::kF16, "f16"},
                                    Named<Precision>{Precision::kBF16, "bf16"},
                                    Named<Precision>{Precision::kF64, "f64"}};
constexpr std::array kFolds = {Named<Fold>{Fold::kNone, "none"}, Named<Fold>{Fold::kF64, "f64"},
                               Named<Fold>{Fold::kF32, "f32"}};

// Largest count in an order; keeps every derived number far from overflow.
constexpr int kMaxCount = 1 << 20;

class OrderParser {
 public:
  explicit OrderParser(std::string_view text) : text_(text) {}

  Result<ReductionOrder> parse() {
    ReductionOrder order;
    DRIFTC_CHECK(parse_walk(order));
    bool has_arith = false;
    int last_rank = -1;
    while (!has_arith) {
      if (!accept(".")) return fail("expected '.' and the next part of the order");
      const std::size_t start = at_;
      const std::string_view word = take_word();
      for (const auto& row : kAriths)
        if (row.name == word) {
          order.arith = row.value;
          has_arith = true;
        }
      if (has_arith) {
        if (order.arith == Arith::kMma) DRIFTC_CHECK(parse_mma(order.mma));
        break;
      }
      at_ = start;
      DRIFTC_CHECK(parse_modifier(order, last_rank));
    }
    for (const auto& row : kBiases)
      if (accept(row.name)) order.bias = row.value;
    if (at_ != text_.size()) return fail("unexpected text after the order");
    if (order.arith == Arith::kAdd && order.walk != Walk::kHw && order.walk != Walk::kK)
      return fail("'add' has no products: it fits 'hw' and 'k' only");
    return order;
  }

 private:
  Diagnostic fail(std::string message) const {
    Diagnostic d = input_error(std::move(message));
    d.place = {"order", 1, static_cast<int>(at_) + 1};
    d.source_line = std::string(text_.substr(0, 200));
    d.hint =
        "an order is WALK[.kpadN][.skip][.splitS[p|a]][.lanesL][.accA][.tileN].ARITH[+bias.first|"
        "+bias.last|+bias.stored], for example crs.fma, rsc.split4p.fma+bias.stored, "
        "hw.lanes32.add";
    return d;
  }
  bool accept(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string_view take_word() {
    const std::size_t start = at_;
    while (at_ < text_.size() &&
           ((text_[at_] >= 'a' && text_[at_] <= 'z') || (text_[at_] >= '0' && text_[at_] <= '9')))
      ++at_;
    return text_.substr(start, at_ - start);
  }
  Result<int> take_count() {
    int value = 0;
    const char* begin = text_.data() + at_;
    auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 1 || value > kMaxCount)
      return fail("expected a count from 1 to 1048576");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }
  Result<void> parse_walk(ReductionOrder& order) {
    if (accept("crs")) {
      order.walk = Walk::kCrs;
    } else if (accept("rsc")) {
      order.walk = Walk::kRsc;
    } else if (accept("hw")) {
      order.walk = Walk::kHw;
    } else if (accept("k")) {
      order.walk = Walk::kK;
    } else if (accept("c")) {
      order.walk = Walk::kTiledCrs;
      DRIFTC_TRY(n, take_count());
      order.channel_tile = n;
      if (!accept("rs")) return fail("expected 'rs' after the channel tile");
    } else {
      return fail("unknown walk: expected crs, rsc, cNrs, k or hw");
    }
    return {};
  }
  // Modifiers come in the order of the grammar, each at most once.
  Result<void> parse_modifier(ReductionOrder& order, int& last_rank) {
    const std::size_t start = at_;
    int rank = -1;
    if (accept("kpad")) {
      rank = 0;
      DRIFTC_TRY(n, take_count());
      order.kpad = n;
    } else if (accept("skip")) {
      rank = 1;
      order.skip = true;
    } else if (accept("split")) {
      rank = 2;
      DRIFTC_TRY(n, take_count());
      order.split = n;
      if (accept("p")) {
        order.combine = SplitCombine::kPairwise;
      } else if (accept("a")) {
        order.combine = SplitCombine::kAtomic;
      }
      if (n == 1) order.combine = SplitCombine::kSerial;  // one slice is no split
    } else if (accept("lanes")) {
      rank = 3;
      DRIFTC_TRY(n, take_count());
      if (!std::has_single_bit(static_cast<unsigned>(n)))
        return fail("lanes must be a power of two");
      order.lanes = n;
    } else if (accept("acc")) {
      rank = 4;
      DRIFTC_TRY(n, take_count());
      order.acc = n;
    } else if (accept("tile")) {
      rank = 5;
      DRIFTC_TRY(n, take_count());
      order.tile = n;
    } else {
      return fail("unknown part of an order");
    }
    if (rank <= last_rank) {
      at_ = start;
      return fail("the parts of an order come in the order kpad, skip, split, lanes, acc, tile");
    }
    last_rank = rank;
    return {};
  }
  Result<void> parse_mma(MmaSpec& mma) {
    if (!accept("(")) return fail("expected '(ARCH,DTYPE,SHAPE[,rna|,trunc])' after mma");
    const std::size_t close = text_.find(')', at_);
    if (close == std::string_view::npos) return fail("missing ')'");
    std::vector<std::string> parts(1);
    for (char ch : text_.substr(at_, close - at_)) {
      if (ch == ',') {
        parts.emplace_back();
      } else {
        parts.back() += ch;
      }
    }
    auto known = [](const std::string& word, std::initializer_list<std::string_view> list) {
      return std::find(list.begin(), list.end(), word) != list.end();
    };
    if (parts.size() < 3 || parts.size() > 4)
      return fail("mma takes ARCH,DTYPE,SHAPE[,rna|,trunc]");
    if (!known(parts[0], {"sm_70", "sm_75", "sm_80", "sm_89", "sm_90", "sm_100"}))
      return fail("unknown tensor-core architecture: sm_70, sm_75, sm_80, sm_89, sm_90, sm_100");
    if (!known(parts[1], {"f16", "bf16", "tf32"})) return fail("unknown mma type: f16, bf16, tf32");
    if (!known(parts[2], {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"}))
      return fail("unknown mma shape: m8n8k4, m16n8k4, m16n8k8, m16n8k16");
    if (parts.size() == 4 && !known(parts[3], {"rna", "trunc"}))
      return fail("unknown mma operand rounding: rna, trunc");
    if (parts.size() == 4 && parts[1] != "tf32")
      return fail("rna and trunc say how f32 becomes tf32; f16 and bf16 are rounded to nearest");
    if (!exists(parts[0], parts[1], parts[2]))
      return fail(parts[0] + " has no mma " + parts[2] + " of " + parts[1]);
    mma = {parts[0], parts[1], parts[2], parts.size() == 4 ? parts[3] : ""};
    at_ = close + 1;
    return {};
  }

  // PTX ISA, mma.sync: what each architecture has.
  static bool exists(std::string_view arch, std::string_view dtype, std::string_view shape) {
    if (arch == "sm_70") return dtype == "f16" && shape == "m8n8k4";
    if (arch == "sm_75") return dtype == "f16" && shape == "m16n8k8";
    if (shape == "m8n8k4") return false;
    return shape == "m16n8k8" || (shape == "m16n8k4") == (dtype == "tf32");
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Positions in walk order, kpad applied, padding removed under `.skip`.
std::vector<std::int32_t> walk_positions(const ReductionOrder& order, const ReductionExtent& e,
                                         std::span<const bool> padded) {
  std::vector<std::int32_t> out;
  out.reserve(static_cast<std::size_t>(e.positions()));
  auto position = [&](std::int64_t c, std::int64_t r, std::int64_t s) {
    return static_cast<std::int32_t>((c * e.r + r) * e.s + s);
  };
  auto pad_to = [&](std::size_t run) {
    const auto n = static_cast<std::size_t>(order.kpad);
    for (std::size_t i = run; n > 0 && i % n != 0; ++i) out.push_back(SumProgram::kZeroLeaf);
  };
  auto channel_run = [&](std::int64_t c0, std::int64_t c1) {
    for (std::int64_t r = 0; r < e.r; ++r)
      for (std::int64_t s = 0; s < e.s; ++s) {
        for (std::int64_t c = c0; c < c1; ++c) out.push_back(position(c, r, s));
        pad_to(static_cast<std::size_t>(c1 - c0));
      }
  };
  switch (order.walk) {
    case Walk::kK:
    case Walk::kHw:
    case Walk::kCrs:
      for (std::int64_t p = 0; p < e.positions(); ++p) out.push_back(static_cast<std::int32_t>(p));
      pad_to(out.size());
      break;
    case Walk::kRsc:
      channel_run(0, e.c);
      break;
    case Walk::kTiledCrs:
      for (std::int64_t c0 = 0; c0 < e.c; c0 += order.channel_tile)
        channel_run(c0, std::min<std::int64_t>(e.c, c0 + order.channel_tile));
      break;
  }
  if (order.skip && !padded.empty())
    std::erase_if(out, [&](std::int32_t p) {
      return p != SumProgram::kZeroLeaf && padded[static_cast<std::size_t>(p)];
    });
  return out;
}

class Builder {
 public:
  Builder(const ReductionOrder& order, SumProgram& program) : order_(order), program_(program) {}

  // The slot that holds the sum of one split slice.
  std::int32_t slice(std::span<const std::int32_t> leaves, bool bias) {
    std::vector<std::int32_t> lanes;
    for (int l = 0; l < order_.lanes; ++l)
      lanes.push_back(lane(strided(leaves, l, order_.lanes), bias && l == 0));
    // The xor butterfly as lane 0 sees it: at each step lane i adds lane i ^ offset.
    for (int offset = order_.lanes / 2; offset >= 1; offset /= 2)
      for (int i = 0; i < offset; ++i) add(lanes[i], lanes[i + offset]);
    return lanes[0];
  }
  // Adjacent pairs, an odd one carried, until one is left.
  std::int32_t pairwise(std::vector<std::int32_t> slots) {
    while (slots.size() > 1) {
      std::vector<std::int32_t> next;
      for (std::size_t i = 0; i < slots.size(); i += 2) {
        if (i + 1 < slots.size()) add(slots[i], slots[i + 1]);
        next.push_back(slots[i]);
      }
      slots = std::move(next);
    }
    return slots[0];
  }
  std::int32_t chain(std::vector<std::int32_t> leaves, bool bias) {
    program_.chains.push_back({std::move(leaves), bias});
    return static_cast<std::int32_t>(program_.chains.size() - 1);
  }
  void add(std::int32_t to, std::int32_t from) { program_.additions.push_back({to, from}); }

 private:
  static std::vector<std::int32_t> strided(std::span<const std::int32_t> leaves, int first,
                                           int step) {
    std::vector<std::int32_t> out;
    for (std::size_t i = static_cast<std::size_t>(first); i < leaves.size();
         i += static_cast<std::size_t>(step))
      out.push_back(leaves[i]);
    return out;
  }
  std::int32_t lane(const std::vector<std::int32_t>& leaves, bool bias) {
    std::vector<std::int32_t> accumulators;
    for (int a = 0; a < order_.acc; ++a)
      accumulators.push_back(tiled(strided(leaves, a, order_.acc), bias && a == 0));
    return pairwise(std::move(accumulators));
  }
  std::int32_t tiled(std::vector<std::int32_t> leaves, bool bias) {
    if (order_.tile == 0) return chain(std::move(leaves), bias);
    const std::int32_t running = chain({}, bias);
    const auto n = static_cast<std::size_t>(order_.tile);
    for (std::size_t i = 0; i < leaves.size(); i += n)
      add(running,
          chain({leaves.begin() + static_cast<std::ptrdiff_t>(i),
                 leaves.begin() + static_cast<std::ptrdiff_t>(std::min(leaves.size(), i + n))},
                false));
    return running;
  }

  const ReductionOrder& order_;
  SumProgram& program_;
};

}  // namespace

std::string to_string(const ReductionOrder& order) {
  std::string out;
  switch (order.walk) {
    case Walk::kK:
      out = "k";
      break;
    case Walk::kHw:
      out = "hw";
      break;
    case Walk::kCrs:
      out = "crs";
      break;
    case Walk::kRsc:
      out = "rsc";
      break;
    case Walk::kTiledCrs:
      out = "c" + std::to_string(order.channel_tile) + "rs";
      break;
  }
  if (order.kpad) out += ".kpad" + std::to_string(order.kpad);
  if (order.skip) out += ".skip";
  if (order.split != 1) {
    out += ".split" + std::to_string(order.split);
    if (order.combine == SplitCombine::kPairwise) out += 'p';
    if (order.combine == SplitCombine::kAtomic) out += 'a';
  }
  if (order.lanes != 1) out += ".lanes" + std::to_string(order.lanes);
  if (order.acc != 1) out += ".acc" + std::to_string(order.acc);
  if (order.tile) out += ".tile" + std::to_string(order.tile);
  out += '.';
  for (const auto& row : kAriths)
    if (row.value == order.arith) out += row.name;
  if (order.arith == Arith::kMma) {
    out += '(' + order.mma.arch + ',' + order.mma.dtype + ',' + order.mma.shape;
    if (!order.mma.rounding.empty()) out += ',' + order.mma.rounding;
    out += ')';
  }
  for (const auto& row : kBiases)
    if (row.value == order.bias) out += row.name;
  return out;
}

Result<ReductionOrder> parse_order(std::string_view text) { return OrderParser(text).parse(); }

Result<std::vector<ReductionOrder>> parse_order_list(std::string_view text) {
  std::vector<ReductionOrder> out;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) {
      if (text[i] == '(') ++depth;
      if (text[i] == ')') --depth;
      if (text[i] != ',' || depth > 0) continue;
    }
    DRIFTC_TRY(order, parse_order(text.substr(start, i - start)));
    out.push_back(order);
    start = i + 1;
  }
  return out;
}

SumProgram denote(const ReductionOrder& order, const ReductionExtent& extent,
                  std::span<const bool> padded, std::uint64_t atomic_seed) {
  SumProgram program;
  Builder builder(order, program);
  const std::vector<std::int32_t> leaves = walk_positions(order, extent, padded);
  const auto count = static_cast<std::int64_t>(leaves.size());
  if (order.split <= 1) {
    builder.slice(leaves, true);
    return program;
  }
  // Slices of ceil(ceil(P/S)/u)*u positions; empty slices vanish.
  const std::int64_t unit =
      order.tile ? order.tile : (order.arith == Arith::kMma ? order.mma.k() : 1);
  const std::int64_t per = (count + order.split - 1) / order.split;
  const std::int64_t length = std::max<std::int64_t>(1, (per + unit - 1) / unit * unit);
  const auto slices =
      static_cast<std::int32_t>(std::max<std::int64_t>(1, (count + length - 1) / length));
  const bool atomic = order.combine == SplitCombine::kAtomic;
  const std::int32_t root = atomic ? builder.chain({}, false) : 0;
  std::vector<std::int32_t> slots;
  for (std::int32_t i = 0; i < slices; ++i) {
    const std::int64_t begin = i * length, end = std::min(count, begin + length);
    slots.push_back(builder.slice(std::span(leaves).subspan(static_cast<std::size_t>(begin),
                                                            static_cast<std::size_t>(end - begin)),
                                  i == 0));
  }
  if (order.combine == SplitCombine::kPairwise) {
    builder.pairwise(std::move(slots));
  } else if (atomic) {
    for (std::uint32_t i : seeded_permutation(atomic_seed, static_cast<std::uint32_t>(slices)))
      builder.add(root, slots[i]);
  } else {
    for (std::int32_t i = 1; i < slices; ++i)
      builder.add(slots[0], slots[static_cast<std::size_t>(i)]);
  }
  return program;
}

Precision operand_precision(const MmaSpec& mma) {
  if (mma.dtype == "f16") return Precision::kF16;
  if (mma.dtype == "bf16") return Precision::kBF16;
  return mma.rounding == "rna" ? Precision::kTf32Rna : Precision::kTf32Trunc;
}
std::string_view name_of(Precision precision) {
  return kPrecisions[static_cast<std::size_t>(precision)].name;
}
std::optional<Precision> parse_precision(std::string_view text) {
  if (text == "tf32") return Precision::kTf32Rna;
  for (const auto& row : kPrecisions)
    if (row.name == text) return row.value;
  return std::nullopt;
}
std::string_view name_of(Fold fold) { return kFolds[static_cast<std::size_t>(fold)].name; }

std::string to_string(const Transform& t) {
  if (t.m == 0) return "none";
  return "winograd" + std::to_string(t.m) + ":" + std::string(name_of(t.filters));
}
std::optional<Transform> parse_transform(std::string_view text) {
  for (const Transform& t :
       {Transform{}, Transform{2, Precision::kF32}, Transform{2, Precision::kF64},
        Transform{4, Precision::kF32}, Transform{4, Precision::kF64}})
    if (to_string(t) == text) return t;
  return std::nullopt;
}

std::string to_string(const NumericContract& c) {
  std::string out = "{order=" + (c.order ? to_string(*c.order) : std::string("none"));
  out += ", in=" + std::string(name_of(c.in)) + ", acc=" + std::string(name_of(c.acc)) +
         ", inner=" + std::string(name_of(c.inner));
  if (c.store != Precision::kF32) out += ", store=" + std::string(name_of(c.store));
  out +=
      std::string(", contract=") + (c.contract ? "on" : "off") + ", ftz=" + (c.ftz ? "on" : "off");
  out += ", fold=" + std::string(name_of(c.fold));
  if (c.transform.m != 0) out += ", transform=" + to_string(c.transform);
  return out + "}";
}

}  // namespace driftc::ir
