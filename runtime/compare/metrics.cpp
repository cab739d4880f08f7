#include "runtime/compare/metrics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/support/round.h"

namespace driftc::runtime::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::int64_t> unravel(std::int64_t linear, const ir::Shape& shape) {
  std::vector<std::int64_t> index(shape.rank());
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    index[axis] = linear % shape[axis];
    linear /= shape[axis];
  }
  return index;
}

std::uint64_t ulp_steps(float a, float b) {
  return static_cast<std::uint64_t>(std::llabs(ordered(bits_of(a)) - ordered(bits_of(b))));
}

// Values of other types than f32 (integers, 16-bit or f64 results): bits decide equality, distances
// are taken in double; ULP have no meaning there and stay 0.
Metrics measure_other(const ir::Tensor& eager, const ir::Tensor& compiled,
                      std::size_t worst_count) {
  Metrics m;
  m.elements = eager.elements();
  const ir::Tensor wide_a = eager.converted(ir::DType::kF64),
                   wide_b = compiled.converted(ir::DType::kF64);
  const auto a = wide_a.data<double>(), b = wide_b.data<double>();
  const std::size_t size = ir::byte_size(eager.dtype());
  double sum_difference = 0, sum_eager = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isfinite(a[i])) sum_eager += a[i] * a[i];
    const bool same =
        std::memcmp(eager.bytes().data() + i * size, compiled.bytes().data() + i * size, size) == 0;
    if (same || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ++m.mismatched;
    const double distance = std::fabs(a[i] - b[i]);
    if (std::isnan(a[i]) != std::isnan(b[i])) {
      ++m.nan_mismatch;
    } else if (!std::isfinite(distance)) {
      ++m.inf_mismatch;
    } else {
      m.max_abs = std::max(m.max_abs, distance);
      const double larger = std::max(std::fabs(a[i]), std::fabs(b[i]));
      if (larger > 0) m.max_rel = std::max(m.max_rel, distance / larger);
      sum_difference += distance * distance;
    }
    if (m.worst.size() < worst_count) {  // the first ones: there are few, and an index says enough
      WorstElement w;
      w.index = unravel(static_cast<std::int64_t>(i), eager.shape());
      w.eager = to_f32_rn(a[i]);
      w.compiled = to_f32_rn(b[i]);
      m.worst.push_back(std::move(w));
    }
  }
  if (sum_difference > 0)
    m.rel_l2 = sum_eager > 0 ? std::sqrt(sum_difference / sum_eager) : kInfinity;
  return m;
}

template <class T>
Distance distance_of(std::span<const T> a, std::span<const double> r) {
  Distance d;
  double sum_difference = 0, sum_reference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double wide = a[i];
    if (std::isfinite(r[i])) sum_reference += r[i] * r[i];
    if ((std::isnan(wide) && std::isnan(r[i])) || wide == r[i]) continue;
    const double difference = std::fabs(wide - r[i]);
    if (!std::isfinite(difference)) {  // NaN or Inf in one of the two must not hide in a norm
      d.max_abs = d.rel_l2 = kInfinity;
      return d;
    }
    d.max_abs = std::max(d.max_abs, difference);
    sum_difference += difference * difference;
  }
  if (sum_difference > 0)
    d.rel_l2 = sum_reference > 0 ? std::sqrt(sum_difference / sum_reference) : kInfinity;
  return d;
}

}  // namespace

Metrics measure(const ir::Tensor& eager, const ir::Tensor& compiled, const ir::Tensor* reference,
                std::size_t worst_count) {
  DRIFTC_ASSERT(eager.shape() == compiled.shape(), "measure needs equal shapes");
  if (eager.dtype() != ir::DType::kF32) return measure_other(eager, compiled, worst_count);
  const auto a = eager.data<float>(), b = compiled.data<float>();
  Metrics m;
  m.elements = eager.elements();
  struct Candidate {
    double distance;
    std::size_t index;
  };
  std::vector<Candidate> worst;  // sorted, largest distance first
  double sum_difference = 0, sum_eager = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double wide = a[i];
    if (std::isfinite(a[i])) sum_eager += wide * wide;
    if (bits_of(a[i]) == bits_of(b[i]) || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ++m.mismatched;
    double distance = kInfinity;
    if (std::isnan(a[i]) != std::isnan(b[i])) {
      ++m.nan_mismatch;
    } else if (std::isinf(a[i]) || std::isinf(b[i])) {
      ++m.inf_mismatch;
    } else {
      const double other = b[i];
      distance = std::fabs(wide - other);
      const double size = std::max(std::fabs(wide), std::fabs(other));
      m.max_abs = std::max(m.max_abs, distance);
      if (size > 0) m.max_rel = std::max(m.max_rel, distance / size);
      m.max_ulp = std::max(m.max_ulp, ulp_steps(a[i], b[i]));
      sum_difference += distance * distance;
    }
    if (worst.size() == worst_count && (worst_count == 0 || distance <= worst.back().distance))
      continue;
    auto at = std::find_if(worst.begin(), worst.end(),
                           [&](const Candidate& c) { return distance > c.distance; });
    worst.insert(at, {distance, i});
    if (worst.size() > worst_count) worst.pop_back();
  }
  if (sum_difference > 0)
    m.rel_l2 = sum_eager > 0 ? std::sqrt(sum_difference / sum_eager) : kInfinity;
  for (const Candidate& c : worst) {
    WorstElement w;
    w.index = unravel(static_cast<std::int64_t>(c.index), eager.shape());
    w.eager = a[c.index];
    w.compiled = b[c.index];
    if (reference != nullptr) w.reference = reference->data<double>()[c.index];
    if (std::isfinite(w.eager) && std::isfinite(w.compiled)) w.ulp = ulp_steps(w.eager, w.compiled);
    m.worst.push_back(std::move(w));
  }
  return m;
}

Distance distance(const ir::Tensor& value, const ir::Tensor& reference64) {
  DRIFTC_ASSERT(value.shape() == reference64.shape(), "distance needs equal shapes");
  if (value.dtype() != ir::DType::kF32 || reference64.dtype() != ir::DType::kF64) {
    const ir::Tensor wide = value.converted(ir::DType::kF64),
                     reference = reference64.converted(ir::DType::kF64);
    return distance_of(wide.data<double>(), reference.data<double>());
  }
  return distance_of(value.data<float>(), reference64.data<double>());
}

std::optional<ClassChanges> class_changes(const ir::Tensor& eager, const ir::Tensor& compiled) {
  const ir::Shape& shape = eager.shape();
  if (eager.dtype() != ir::DType::kF32) return std::nullopt;
  if (shape.rank() < 2 || shape[1] < 2) return std::nullopt;
  for (std::size_t axis = 2; axis < shape.rank(); ++axis)
    if (shape[axis] != 1) return std::nullopt;
  const auto classes = static_cast<std::size_t>(shape[1]);
  auto winner = [&](std::span<const float> row) {
    std::size_t best = 0;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (std::isnan(row[i])) return i;
      if (row[i] > row[best]) best = i;
    }
    return best;
  };
  ClassChanges changes;
  changes.of = shape[0];
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    const std::size_t at = static_cast<std::size_t>(n) * classes;
    if (winner(eager.data<float>().subspan(at, classes)) !=
        winner(compiled.data<float>().subspan(at, classes))) {
      ++changes.changed;
      changes.samples.push_back(n);
    }
  }
  return changes;
}

}  // namespace driftc::runtime::compare
