// Metrics and verdict parts, by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ir/support/rng.h"
#include "ir/support/round.h"
#include "runtime/compare/metrics.h"
#include "runtime/compare/verdict.h"

using namespace driftc;
using namespace driftc::runtime::compare;

namespace {
constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

ir::Tensor row(const std::vector<float>& values) {
  return ir::Tensor::of<float>({1, static_cast<std::int64_t>(values.size())}, values);
}
}  // namespace

TEST_CASE("metrics: equal bits, NaN as one class, signed zeros apart") {
  const Metrics m =
      measure(row({1, kNan, 0.0f, kInf}), row({1, float_of(0xFFC00001u), -0.0f, kInf}));
  CHECK(m.mismatched == 1);
  CHECK(m.max_abs == 0);
  CHECK(m.max_ulp == 0);  // -0 and +0 are 0 ULP apart
  REQUIRE(m.worst.size() == 1);
  CHECK(m.worst[0].index == std::vector<std::int64_t>{0, 2});
}

TEST_CASE("metrics: distances and the worst elements") {
  const Metrics m =
      measure(row({1, 2, -4, 0}), row({std::nextafter(1.0f, 2.0f), 2.5f, -4, 0x1p-149f}));
  CHECK(m.mismatched == 3);
  CHECK(m.max_abs == 0.5);
  CHECK(m.max_rel == 1.0);  // 0 against the smallest subnormal
  CHECK(m.max_ulp == (1u << 21));
  CHECK(m.worst[0].index[1] == 1);
  CHECK(m.worst[1].index[1] == 0);
  CHECK(m.worst[2].ulp == 1);
  // ||a-b|| / ||a||, a = eager.
  const double difference = std::sqrt(0.25 + 0x1p-46 + 0x1p-298);
  CHECK(m.rel_l2 == difference / std::sqrt(21.0));
}

TEST_CASE("metrics: NaN and Inf are counted, not hidden in a norm") {
  const Metrics m = measure(row({1, kInf, kInf, kNan}), row({kNan, 1, -kInf, kNan}));
  CHECK(m.mismatched == 3);
  CHECK(m.nan_mismatch == 1);
  CHECK(m.inf_mismatch == 2);
  CHECK(m.max_abs == 0);
  const auto reference = ir::Tensor::of<double>({1, 1}, std::vector<double>{1});
  CHECK(distance(row({kNan}), reference).max_abs == std::numeric_limits<double>::infinity());
}

TEST_CASE("metrics: integers are compared exactly") {
  const std::vector<std::int64_t> a = {1, 2, 9007199254740993}, b = {1, 5, 9007199254740992};
  const Metrics m =
      measure(ir::Tensor::of<std::int64_t>({3}, a), ir::Tensor::of<std::int64_t>({3}, b));
  CHECK(m.mismatched == 2);
  CHECK(m.max_abs == 3);
}

TEST_CASE("metrics: ULP distance is a metric") {
  const CounterRng rng(3, "ulp");
  auto ulp = [](std::uint32_t a, std::uint32_t b) { return std::llabs(ordered(a) - ordered(b)); };
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const auto a = static_cast<std::uint32_t>(rng.bits(3 * i)),
               b = static_cast<std::uint32_t>(rng.bits(3 * i + 1)),
               c = static_cast<std::uint32_t>(rng.bits(3 * i + 2));
    CHECK(ulp(a, b) == ulp(b, a));
    CHECK(ulp(a, a) == 0);
    CHECK(ulp(a, c) <= ulp(a, b) + ulp(b, c));
  }
  CHECK(ulp(bits_of(1.0f), bits_of(std::nextafter(1.0f, 2.0f))) == 1);
  CHECK(ulp(bits_of(-0x1p-149f), bits_of(0x1p-149f)) == 2);
}

TEST_CASE("metrics: a class changes when another element becomes the largest") {
  const std::vector<float> a = {1, 3, 2, 5, 5, 0}, b = {1, 3, 2, 4, 5, 0};
  const auto changes =
      class_changes(ir::Tensor::of<float>({2, 3}, a), ir::Tensor::of<float>({2, 3}, b));
  REQUIRE(changes.has_value());
  CHECK(changes->changed == 1);  // ties go to the lower index
  CHECK(changes->samples == std::vector<std::int64_t>{1});
  CHECK(!class_changes(row({1}), row({1})).has_value());
}

TEST_CASE("verdict: rungs are ordered, not-compiled loses") {
  CHECK(worse(Verdict::kOrder, Verdict::kPrecision) == Verdict::kPrecision);
  CHECK(worse(Verdict::kNotCompiled, Verdict::kIdentical) == Verdict::kIdentical);
  for (const char* name :
       {"identical", "order", "precision", "algorithm", "unexplained", "invalid", "not-compiled"})
    CHECK(name_of(*parse_verdict(name)) == name);
}

TEST_CASE("verdict: one part of a contract at a time") {
  ir::NumericContract eager, compiled;
  eager.order = *ir::parse_order("crs.fma+bias.stored");
  compiled.order = *ir::parse_order("rsc.split2.muladd+bias.first");
  compiled.contract = true;
  struct Row {
    ContractPart part;
    const char* order;
    CauseKind kind;
  };
  for (const Row& row :
       {Row{ContractPart::kAssociation, "crs.muladd+bias.first", CauseKind::kReductionOrder},
        Row{ContractPart::kBiasPoint, "rsc.split2.muladd+bias.stored", CauseKind::kReductionOrder},
        Row{ContractPart::kArithmetic, "rsc.split2.fma+bias.first", CauseKind::kContraction}}) {
    const ir::NumericContract reset = with_part(compiled, eager, row.part);
    CHECK(to_string(*reset.order) == row.order);
    CHECK(reset.contract);
    const auto d = difference(eager, compiled, row.part);
    REQUIRE(d.has_value());
    CHECK(d->kind == row.kind);
    CHECK(d->detail == "crs.fma+bias.stored -> rsc.split2.muladd+bias.first");
  }
  CHECK(difference(eager, compiled, ContractPart::kContract)->detail == "contract off -> on");
  CHECK(!difference(eager, compiled, ContractPart::kFold).has_value());
  // No bias, and a bias added after rounding, are the same point.
  ir::NumericContract none = eager;
  none.order->bias = ir::BiasPoint::kNone;
  CHECK(!difference(none, eager, ContractPart::kBiasPoint).has_value());
}
