#include "ir/numeric.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <memory>

#include "ir/support/rng.h"
#include "ir/text.h"

using namespace driftc;
using namespace driftc::ir;

TEST_CASE("orders: text round trip") {
  for (const char* text :
       {"crs.fma", "rsc.muladd+bias.first",
        "c16rs.kpad4.skip.split4p.lanes8.acc2.tile16.kahan+bias.last", "k.split3.fma+bias.stored",
        "hw.lanes32.add", "k.split8a.fma", "crs.f64",
        "rsc.kpad8.mma(sm_90,tf32,m16n8k8,rna)+bias.stored", "k.mma(sm_80,f16,m16n8k16)"}) {
    auto order = parse_order(text);
    REQUIRE_MESSAGE(order.ok(), text);
    CHECK(to_string(*order) == text);
  }
}

TEST_CASE("orders: errors carry the column") {
  struct Row {
    const char* text;
    int column;
    const char* message;
  };
  for (const Row& row :
       {Row{"", 1, "unknown walk: expected crs, rsc, cNrs, k or hw"},
        Row{"crs", 4, "expected '.' and the next part of the order"},
        Row{"crs.fmax", 5, "unknown part of an order"},
        Row{"crs.lanes3.fma", 11, "lanes must be a power of two"},
        Row{"crs.tile4.split2.fma", 11,
            "the parts of an order come in the order kpad, skip, split, lanes, acc, tile"},
        Row{"crs.fma+bias.middle", 8, "unexpected text after the order"},
        Row{"crs.split0.fma", 10, "expected a count from 1 to 1048576"},
        Row{"crs.add", 8, "'add' has no products: it fits 'hw' and 'k' only"},
        Row{"k.mma(sm_91,f16,m16n8k8)", 7,
            "unknown tensor-core architecture: sm_70, sm_75, sm_80, sm_89, sm_90, sm_100"}}) {
    auto order = parse_order(row.text);
    REQUIRE_MESSAGE(!order.ok(), row.text);
    CHECK(order.error().message == row.message);
    CHECK_MESSAGE(order.error().place.column == row.column, row.text);
  }
}

TEST_CASE("order lists split at commas outside parentheses") {
  auto list = parse_order_list("crs.fma,k.mma(sm_80,f16,m16n8k16),hw.add");
  REQUIRE(list.ok());
  CHECK(list->size() == 3);
}

TEST_CASE("denote: hand-made programs") {
  auto program = [](const char* text, ReductionExtent e, std::vector<char> pad = {}) {
    std::unique_ptr<bool[]> flags(new bool[pad.size()]);
    std::copy(pad.begin(), pad.end(), flags.get());
    const SumProgram p =
        denote(*parse_order(text), e, std::span<const bool>(flags.get(), pad.size()));
    std::string out;
    for (const auto& chain : p.chains) {
      out += chain.starts_with_bias ? "[b" : "[";
      for (auto leaf : chain.leaves) out += " " + std::to_string(leaf);
      out += "]";
    }
    for (const auto& a : p.additions)
      out += std::to_string(a.to) + "+=" + std::to_string(a.from) + ";";
    return out;
  };
  const ReductionExtent e{3, 1, 2};
  CHECK(program("crs.fma", e) == "[b 0 1 2 3 4 5]");
  CHECK(program("rsc.fma", e) == "[b 0 2 4 1 3 5]");
  CHECK(program("c2rs.fma", e) == "[b 0 2 1 3 4 5]");
  CHECK(program("rsc.kpad2.fma", e) == "[b 0 2 4 -1 1 3 5 -1]");
  CHECK(program("crs.kpad4.fma", e) == "[b 0 1 2 3 4 5 -1 -1]");
  CHECK(program("crs.skip.fma", e, {1, 0, 1, 0, 1, 0}) == "[b 1 3 5]");
  CHECK(program("crs.split4.fma", e) == "[b 0 1][ 2 3][ 4 5]0+=1;0+=2;");
  CHECK(program("crs.split4p.fma", e) == "[b 0 1][ 2 3][ 4 5]0+=1;0+=2;");
  CHECK(program("crs.split6p.fma", e) == "[b 0][ 1][ 2][ 3][ 4][ 5]0+=1;2+=3;4+=5;0+=2;0+=4;");
  CHECK(program("crs.split2a.fma", e) == "[][b 0 1 2][ 3 4 5]0+=1;0+=2;");
  CHECK(program("crs.lanes4.fma", e) == "[b 0 4][ 1 5][ 2][ 3]0+=2;1+=3;0+=1;");
  CHECK(program("crs.acc3.fma", e) == "[b 0 3][ 1 4][ 2 5]0+=1;0+=2;");
  CHECK(program("crs.tile4.fma", e) == "[b][ 0 1 2 3][ 4 5]0+=1;0+=2;");
  CHECK(program("crs.split2.tile4.fma", e) == "[b][ 0 1 2 3][][ 4 5]0+=1;2+=3;0+=2;");
  CHECK(program("crs.fma", {0, 3, 3}) == "[b]");
}

TEST_CASE("generator: test vectors of docs/ir.md") {
  std::array<float, 3> u{}, r{}, n{};
  fill(Distribution::kUniform, 1, "x", u);
  fill(Distribution::kRandom, 1, "x", r);
  fill(Distribution::kIntegers, 1, "x", n);
  CHECK(hex_float(u[0]) == "0x1.6e4658p-1");
  CHECK(hex_float(u[1]) == "0x1.5ffc1p-3");
  CHECK(hex_float(r[0]) == "-0x1.825668p-2");
  CHECK(hex_float(r[1]) == "0x1.8fed64p-2");
  CHECK(n[0] == 4);
  CHECK(n[1] == -6);
  for (float v : n) CHECK((v >= -8 && v <= 8 && v == static_cast<int>(v)));
  // The same value whatever else is drawn: a longer tensor starts with the same elements.
  std::array<float, 9> longer{};
  fill(Distribution::kRandom, 1, "x", longer);
  CHECK(std::equal(r.begin(), r.end(), longer.begin()));
}
