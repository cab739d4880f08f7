#include "runtime/compare/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <unordered_set>

#include "ir/support/assert.h"
#include "ir/support/hash.h"

namespace driftc::runtime::compare {
namespace {

// A way to split the elements into groups; one group per key. Keys below 0 are in no group.
struct Partition {
  std::int64_t groups;
  std::function<std::int64_t(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w)> key;
  std::function<std::string(std::int64_t)> words;
};

struct Extents {
  std::int64_t n = 1, c = 1, h = 1, w = 1;
};
Extents extents_of(const ir::Shape& shape) {
  Extents e;
  if (shape.rank() > 0) e.n = shape[0];
  if (shape.rank() > 1) e.c = shape[1];
  if (shape.rank() > 2) e.h = shape[2];
  for (std::size_t axis = 3; axis < shape.rank(); ++axis) e.w *= shape[axis];
  return e;
}

std::vector<Partition> partitions(const Extents& e) {
  std::vector<Partition> out;
  auto add = [&](std::int64_t groups, auto key, auto words) {
    out.push_back({groups, key, words});
  };
  if (e.n > 1) {
    add(
        1, [](auto n, auto, auto, auto) { return n > 0 ? 0 : -1; },
        [](std::int64_t) { return std::string("batch elements above 0"); });
    add(
        e.n, [](auto n, auto, auto, auto) { return n; },
        [](std::int64_t g) { return fmt::format("batch element {}", g); });
  }
  if (e.c > 1) {
    add(
        e.c, [](auto, auto c, auto, auto) { return c; },
        [](std::int64_t g) { return fmt::format("channel {}", g); });
    for (std::int64_t m : {2, 4, 8, 16, 32, 64})
      if (e.c > m)
        add(
            m, [m](auto, auto c, auto, auto) { return c % m; },
            [m](std::int64_t g) { return fmt::format("channels that are {} modulo {}", g, m); });
    for (std::int64_t m : {4, 8, 16, 32})
      if (e.c > m && e.c % m != 0) {
        const std::int64_t from = e.c / m * m;
        add(
            1, [from](auto, auto c, auto, auto) { return c >= from ? 0 : -1; },
            [from, m](std::int64_t) {
              return fmt::format("channels from {} on (the tail after blocks of {})", from, m);
            });
      }
  }
  if (e.h > 1 && e.w > 1) {
    const std::int64_t h1 = e.h - 1, w1 = e.w - 1;
    add(
        1,
        [h1, w1](auto, auto, auto h, auto w) {
          return h == 0 || w == 0 || h == h1 || w == w1 ? 0 : -1;
        },
        [](std::int64_t) { return std::string("the border ring (padding, halo)"); });
    add(
        2, [](auto, auto, auto h, auto) { return h % 2; },
        [](std::int64_t g) { return std::string(g != 0 ? "odd rows" : "even rows"); });
    add(
        2, [](auto, auto, auto, auto w) { return w % 2; },
        [](std::int64_t g) { return std::string(g != 0 ? "odd columns" : "even columns"); });
    add(
        e.h, [](auto, auto, auto h, auto) { return h; },
        [](std::int64_t g) { return fmt::format("row {}", g); });
    add(
        e.w, [](auto, auto, auto, auto w) { return w; },
        [](std::int64_t g) { return fmt::format("column {}", g); });
    for (std::int64_t m : {4, 8, 16, 32}) {
      if (e.h > m) {
        add(
            m, [m](auto, auto, auto h, auto) { return h % m; },
            [m](std::int64_t g) {
              return fmt::format("rows that are {} modulo {} (tile edge)", g, m);
            });
      }
      if (e.w > m) {
        add(
            m, [m](auto, auto, auto, auto w) { return w % m; },
            [m](std::int64_t g) {
              return fmt::format("columns that are {} modulo {} (tile edge)", g, m);
            });
      }
    }
    if (e.c > 1) {
      const std::int64_t width = e.w;
      add(
          e.h * e.w, [width](auto, auto, auto h, auto w) { return h * width + w; },
          [width](std::int64_t g) {
            return fmt::format("position ({}, {}) in all channels", g / width, g % width);
          });
    }
    if (e.n * e.c > 1 && e.h * e.w > 64) {  // tiles of 8x8 in one channel
      const std::int64_t th = (e.h + 7) / 8, tw = (e.w + 7) / 8, channels = e.c;
      add(
          e.n * e.c * th * tw,
          [=](auto n, auto c, auto h, auto w) {
            return ((n * channels + c) * th + h / 8) * tw + w / 8;
          },
          [=](std::int64_t g) {
            return fmt::format("one tile (batch {}, channel {}, rows from {}, columns from {})",
                               g / tw / th / channels, g / tw / th % channels, g / tw % th * 8,
                               g % tw * 8);
          });
    }
  }
  return out;
}

// Calls fn(index, key) for every comparable element of a group.
template <class F>
void for_keys(const Partition& p, const Extents& e, const F& fn) {
  std::int64_t i = 0;
  for (std::int64_t n = 0; n < e.n; ++n)
    for (std::int64_t c = 0; c < e.c; ++c)
      for (std::int64_t h = 0; h < e.h; ++h)
        for (std::int64_t w = 0; w < e.w; ++w, ++i) {
          const std::int64_t key = p.key(n, c, h, w);
          if (key >= 0) fn(static_cast<std::size_t>(i), static_cast<std::size_t>(key));
        }
}

// Which elements count: the first of those with equal expected value and residual.
std::vector<bool> distinct(const std::vector<double>& z, const std::vector<double>& expected) {
  std::vector<bool> keep(z.size(), true);
  if (expected.empty()) return keep;
  std::unordered_set<std::uint64_t> seen;
  seen.reserve(z.size());
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (z[i] == 0 || std::isnan(z[i])) continue;
    const std::uint64_t pair[2] = {std::bit_cast<std::uint64_t>(z[i]),
                                   std::bit_cast<std::uint64_t>(expected[i])};
    keep[i] = seen.insert(hash64(std::as_bytes(std::span(pair)))).second;
  }
  return keep;
}

struct Means {
  std::vector<double> t;     // self-normalised sum per group
  std::vector<double> mean;  // mean z
  double largest = 0;
};
Means means_of(const Partition& p, const Extents& e, const std::vector<double>& z,
               const std::vector<bool>& keep, double limit) {
  const auto groups = static_cast<std::size_t>(p.groups);
  std::vector<double> sum(groups), squares(groups), count(groups);
  for_keys(p, e, [&](std::size_t i, std::size_t g) {
    if (std::isnan(z[i]) || !keep[i]) return;
    const double v = std::clamp(z[i], -limit, limit);  // one outlier is not a mean
    sum[g] += v;
    squares[g] += v * v;
    count[g] += 1;
  });
  Means m;
  for (std::size_t g = 0; g < groups; ++g) {
    m.t.push_back(squares[g] > 0 ? sum[g] / std::sqrt(squares[g]) : 0);
    m.mean.push_back(count[g] > 0 ? sum[g] / count[g] : 0);
    m.largest = std::max(m.largest, std::fabs(m.t.back()));
  }
  return m;
}

double chance_of(double t, double tests) { return std::min(1.0, 2 * tests * std::exp(-t * t / 2)); }

// Kullback-Leibler divergence of two coins, q > f.
double divergence(double q, double f) {
  return q * std::log(q / f) + (q < 1 ? (1 - q) * std::log((1 - q) / (1 - f)) : 0);
}

class Finder {
 public:
  explicit Finder(const Residual& r)
      : r_(r), extents_(extents_of(r.shape)), partitions_(partitions(extents_)) {
    for (const Partition& p : partitions_) tests_ += static_cast<double>(p.groups);
    tests_ += 4;  // all elements: bias, scale, too many outliers; one element alone
  }

  std::vector<Structure> run() {
    if (r_.z.empty()) return {};
    if (r_.independent) means();
    outliers();
    std::stable_sort(found_.begin(), found_.end(), [](const Structure& a, const Structure& b) {
      if (a.share != b.share) return a.share > b.share;
      return a.chance < b.chance;
    });
    if (found_.size() > 5) found_.resize(5);
    return std::move(found_);
  }

 private:
  void note(std::string words, double chance, double share, double mean, std::int64_t first) {
    if (chance < kFalseAlarm) found_.push_back({std::move(words), chance, share, mean, first});
  }

  void means() {
    const std::vector<bool> keep = distinct(r_.z, r_.expected);
    std::vector<std::vector<bool>> twin_keep;
    for (const auto& twin : r_.twins) twin_keep.push_back(distinct(twin, r_.expected));
    const Partition all{1, [](auto, auto, auto, auto) { return 0; }, {}};
    struct Shift {
      std::string words;
      double t, mean;
    };
    // One partition at a time; `transform` gives the residual that is averaged.
    auto test = [&](const Partition& p, const auto& transform, const auto& words) {
      const Means own = means_of(p, extents_, transform(r_.z), keep, r_.limit);
      double misfit = 1;
      for (std::size_t i = 0; i < r_.twins.size(); ++i) {
        const Means twin = means_of(p, extents_, transform(r_.twins[i]), twin_keep[i], r_.limit);
        misfit = std::max(misfit, twin.largest / expected_largest(static_cast<double>(p.groups)));
      }
      std::size_t best = 0;
      std::size_t significant = 0;
      for (std::size_t g = 0; g < own.t.size(); ++g) {
        if (std::fabs(own.t[g]) > std::fabs(own.t[best])) best = g;
        significant += chance_of(own.t[g] / misfit, tests_) < kFalseAlarm;
      }
      // Where most groups shift, the cause is not the group.
      if (own.t.empty() || (p.groups > 2 && static_cast<std::int64_t>(significant) * 2 > p.groups))
        return;
      std::string text = words(static_cast<std::int64_t>(best));
      if (significant > 1) text += fmt::format(" and {} more such groups", significant - 1);
      note(fmt::format("{}: mean residual {:+.2g} standard deviations", text, own.mean[best]),
           chance_of(own.t[best] / misfit, tests_), 0, own.mean[best], -1);
    };
    const auto same = [](const std::vector<double>& z) { return z; };
    const auto along = [&](const std::vector<double>& z) {
      std::vector<double> out(z);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = r_.expected[i] < 0 ? -z[i] : z[i];
      return out;
    };
    test(all, same, [](std::int64_t) {
      return std::string("a constant offset (sign bias over all elements)");
    });
    if (!r_.expected.empty())
      test(all, along, [](std::int64_t) {
        return std::string("a constant scale (all values too large or too small in size)");
      });
    for (const Partition& p : partitions_) test(p, same, p.words);
  }

  void outliers() {
    std::vector<std::size_t> beyond;
    double squares = 0, rest = 0, comparable = 0;
    for (std::size_t i = 0; i < r_.z.size(); ++i) {
      const double z = r_.z[i];
      if (std::isnan(z)) continue;
      comparable += 1;
      if (std::fabs(z) > r_.limit) {
        beyond.push_back(i);
      } else if (z != 0) {
        squares += z * z;
        rest += 1;
      }
    }
    if (beyond.empty()) return;
    const auto m = static_cast<double>(beyond.size());
    // A few elements far from what all others do.
    std::size_t worst = beyond.front();
    for (std::size_t i : beyond)
      if (std::fabs(r_.z[i]) > std::fabs(r_.z[worst])) worst = i;
    const double usual = rest > 0 ? std::max(1.0, std::sqrt(squares / rest)) : 1;
    double misfit = 1;  // twins whose largest residual is beyond what normal values reach
    for (const auto& twin : r_.twins) {
      double largest = 0;
      for (double z : twin) largest = std::isnan(z) ? largest : std::max(largest, std::fabs(z));
      misfit = std::max(misfit, largest / expected_largest(comparable));
    }
    if (m <= std::max(1.0, comparable / 64))
      note(m == 1 ? fmt::format("one element alone is off, {}", place(worst))
                  : fmt::format("{} elements are off among {}, the worst {}", beyond.size(),
                                static_cast<std::int64_t>(comparable), place(worst)),
           chance_of(std::fabs(r_.z[worst]) / usual / misfit, comparable * tests_), 0.5,
           r_.z[worst], static_cast<std::int64_t>(worst));
    constexpr double kChebyshev = 1.0 / 36;
    if (m > kChebyshev * comparable)
      note(fmt::format(
               "{:.0f} of {:.0f} elements carry more error than rounding gives in any usual order",
               m, comparable),
           std::min(1.0, tests_ * std::exp(-comparable * divergence(m / comparable, kChebyshev))),
           0.4, 0, static_cast<std::int64_t>(beyond.front()));
    std::vector<bool> is_beyond(r_.z.size());
    for (std::size_t i : beyond) is_beyond[i] = true;
    for (const Partition& p : partitions_) {
      const auto groups = static_cast<std::size_t>(p.groups);
      std::vector<double> size(groups), hits(groups);
      for_keys(p, extents_, [&](std::size_t i, std::size_t g) {
        if (std::isnan(r_.z[i])) return;
        size[g] += 1;
        if (is_beyond[i]) hits[g] += 1;
      });
      for (std::size_t g = 0; g < groups; ++g) {
        const double f = size[g] / comparable, q = hits[g] / m;
        if (hits[g] < 2 || q <= f || q < 0.5) continue;  // the group has to hold most of them
        const double kl = divergence(q, f);
        const std::string where = p.words(static_cast<std::int64_t>(g));
        note(fmt::format("clustered: {:.0f} of {:.0f} elements beyond rounding lie in {}", hits[g],
                         m, where),
             std::min(1.0, tests_ * std::exp(-m * kl)), q, 0,
             static_cast<std::int64_t>(beyond.front()));
      }
    }
  }

  std::string place(std::size_t flat) const {
    std::string out = "at [";
    std::vector<std::int64_t> index(r_.shape.rank());
    auto rest = static_cast<std::int64_t>(flat);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      index[axis] = rest % r_.shape[axis];
      rest /= r_.shape[axis];
    }
    for (std::size_t axis = 0; axis < index.size(); ++axis)
      out += (axis ? "," : "") + std::to_string(index[axis]);
    return out + "]";
  }

  const Residual& r_;
  Extents extents_;
  std::vector<Partition> partitions_;
  double tests_ = 0;
  std::vector<Structure> found_;
};

}  // namespace

double expected_largest(double count) {
  return count <= 1 ? 1 : std::max(1.0, std::sqrt(2 * std::log(count)));
}

std::string pattern_of(const ir::Tensor& promised, const ir::Tensor& observed) {
  if (promised.dtype() != ir::DType::kF32) return "";
  Residual residual;
  residual.shape = promised.shape();
  residual.independent = false;
  const auto a = promised.data<float>(), b = observed.data<float>();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool same = std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ||
                      (std::isnan(a[i]) && std::isnan(b[i]));
    residual.z.push_back(same ? 0 : 1e6);
  }
  for (const Structure& s : find_structure(residual)) {
    if (s.share == 0.5) return s.words;  // few elements
    const std::size_t at = s.words.find(" lie in ");
    if (s.share == 1 && at != std::string::npos) return "all differences" + s.words.substr(at);
  }
  return "";
}

std::vector<Structure> find_structure(const Residual& residual) {
  DRIFTC_ASSERT(static_cast<std::int64_t>(residual.z.size()) == residual.shape.elements(),
                "one z per element");
  return Finder(residual).run();
}

}  // namespace driftc::runtime::compare
