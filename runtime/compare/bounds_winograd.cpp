// The Winograd bound: one more Winograd pass with absolute values (numerics.md 3.3).
#include <algorithm>
#include <cmath>

#include "ir/support/assert.h"
#include "ir/support/round.h"
#include "runtime/compare/bounds.h"
#include "runtime/sums/parallel.h"

namespace driftc::runtime::compare {
namespace {

constexpr double kSlack = 1 + 0x1p-30;  // covers the f64 arithmetic of the bound itself
constexpr double kEta = 0x1p-149;       // more than what one underflowing operation loses

using Square = std::vector<double>;  // row-major

// |M| as doubles, rounded up.
Square magnitudes_of(const ir::FractionMatrix& matrix) {
  Square out;
  for (const ir::Fraction& f : matrix.values)
    out.push_back(mul_rn(std::abs(f.value()), 1 + 0x1p-50));
  return out;
}
// out [rows x rows] = m [rows x inner] * x [inner x inner] * m'.
void sandwich(const Square& m, int rows, int inner, const double* x, double* out) {
  Square half(static_cast<std::size_t>(rows * inner), 0.0);
  for (int i = 0; i < rows; ++i)
    for (int k = 0; k < inner; ++k) {
      const double a = m[static_cast<std::size_t>(i * inner + k)];
      if (a == 0) continue;
      for (int j = 0; j < inner; ++j) {
        double& sum = half[static_cast<std::size_t>(i * inner + j)];
        sum = add_rn(sum, mul_rn(a, x[k * inner + j]));
      }
    }
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < rows; ++j) {
      double sum = 0;
      for (int k = 0; k < inner; ++k)
        sum = add_rn(sum, mul_rn(half[static_cast<std::size_t>(i * inner + k)],
                                 m[static_cast<std::size_t>(j * inner + k)]));
      out[i * rows + j] = sum;
    }
}
Square values_of(const ir::FractionMatrix& matrix) {
  Square out;
  for (const ir::Fraction& f : matrix.values) out.push_back(f.value());
  return out;
}
Square squares_of(const ir::FractionMatrix& matrix) {
  Square out = values_of(matrix);
  for (double& v : out) v = mul_rn(v, v);
  return out;
}

// The tiles of all images and groups: for_each calls them by index, `decode` says which it is.
struct Tiles {
  std::int64_t high, wide, groups, count;
  Tiles(const SumProblem& p, int m)
      : high((p.window.out_h + m - 1) / m),
        wide((p.window.out_w + m - 1) / m),
        groups(p.groups),
        count(p.window.images * p.groups * high * wide) {}
  struct Place {
    std::int64_t image, group, y0, x0;
  };
  Place decode(std::size_t index, int m) const {
    const auto i = static_cast<std::int64_t>(index), plane = i / (wide * high);
    return {plane / groups, plane % groups, i / wide % high * m, i % wide * m};
  }
};
// One channel of an input tile, +0 outside the image.
void read_patch(const SumProblem& p, const Tiles::Place& at, std::int64_t channel, int n,
                Square& patch) {
  const Window& w = p.window;
  const float* plane =
      p.columns.data<float>().data() +
      ((at.image * p.groups + at.group) * p.group_channels() + channel) * w.height * w.width;
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x) {
      const std::int64_t iy = at.y0 - w.pad_top + y, ix = at.x0 - w.pad_left + x;
      const bool inside = iy >= 0 && iy < w.height && ix >= 0 && ix < w.width;
      patch[static_cast<std::size_t>(y * n + x)] =
          inside ? static_cast<double>(plane[iy * w.width + ix]) : 0.0;
    }
}

double largest_row_sum(const Square& m, int rows, int columns) {
  double most = 0;
  for (int i = 0; i < rows; ++i) {
    double sum = 0;
    for (int j = 0; j < columns; ++j)
      sum = add_rn(sum, m[static_cast<std::size_t>(i * columns + j)]);
    most = std::max(most, sum);
  }
  return most;
}

}  // namespace

bool winograd_fits(const SumProblem& p) {
  const Window& w = p.window;
  return p.has_products && w.kernel_h == 3 && w.kernel_w == 3 && w.stride_h == 1 &&
         w.stride_w == 1 && w.dilation_h == 1 && w.dilation_w == 1;
}

std::optional<WinogradSettings> winograd_settings(const ir::NumericContract& contract,
                                                  std::int64_t channels) {
  WinogradSettings settings;
  settings.filters_in_f64 = contract.transform.filters == ir::Precision::kF64;
  switch (contract.order->arith) {
    case ir::Arith::kFma:
    case ir::Arith::kAdd:
      settings.accumulate_roundings = channels;
      break;
    case ir::Arith::kMulAdd:
      settings.accumulate_roundings = channels + 1;
      break;
    case ir::Arith::kKahan:
      settings.accumulate_roundings = 4;  // as leaf_roundings counts them
      break;
    case ir::Arith::kF64:
      settings.accumulate_roundings = 2;  // to f32, and more than all those in f64
      break;
    case ir::Arith::kMma:
      return std::nullopt;
  }
  switch (contract.in) {
    case ir::Precision::kF32:
    case ir::Precision::kF64:
      break;
    case ir::Precision::kTf32Rna:
      settings.operand_error = 0x1p-11;
      break;
    case ir::Precision::kTf32Trunc:
      settings.operand_error = 0x1p-10;
      break;
    case ir::Precision::kF16:
      settings.operand_error = 0x1p-11;
      settings.operand_floor = 0x1p-25;  // half the smallest subnormal
      break;
    case ir::Precision::kBF16:
      settings.operand_error = 0x1p-9;
      settings.operand_floor = 0x1p-134;
      break;
  }
  return settings;
}

TensorBound winograd_bound(const SumProblem& p, const ir::WinogradMatrices& matrices,
                           const WinogradSettings& settings, ThreadPool& pool) {
  DRIFTC_ASSERT(winograd_fits(p) && matrices.r == 3,
                "Winograd of a convolution that it does not fit");
  const Window& w = p.window;
  const int n = matrices.n(), m = matrices.m, area = n * n;
  const Square bt = magnitudes_of(matrices.bt), g = magnitudes_of(matrices.g),
               at = magnitudes_of(matrices.at);
  const std::int64_t channels = p.group_channels(), group_rows = p.group_rows();
  const int tau_g = settings.filters_in_f64 ? 1 : 2 * ir::transform_roundings(matrices.g);
  const double h = static_cast<double>(
      settings.accumulate_roundings > 0 ? settings.accumulate_roundings : channels);
  const double roundings = add_rn(
      tau_g + 2 * (ir::transform_roundings(matrices.bt) + ir::transform_roundings(matrices.at)), h);
  const double nu = mul_rn(roundings, 0x1p-24);
  const double gamma = div_rn(nu, sub_rn(1, nu)), e = settings.operand_error;
  // (1 + gamma_N) (1 + e)^2 - 1
  const double factor =
      mul_rn(add_rn(gamma, mul_rn(add_rn(1, gamma), mul_rn(e, add_rn(2, e)))), kSlack);

  // What underflow can add to one transformed filter, input and output value.
  const auto underflow = [](const Square& matrix, int rows, int columns) {
    const double sum = largest_row_sum(matrix, rows, columns);
    return mul_rn(mul_rn(kEta, columns), add_rn(1, sum));
  };
  // A tiny operand is rounded by more than operand_error.
  const double rounded = e > 0 ? settings.operand_floor : 0;
  const double eta_g = add_rn(underflow(g, n, 3), rounded),
               eta_b = add_rn(underflow(bt, n, n), rounded), eta_a = underflow(at, m, n);

  const auto weights = p.rows.data<float>();
  Square filters(static_cast<std::size_t>(p.channels_out * channels * area));
  Square filter_sums(static_cast<std::size_t>(p.channels_out * area), 0.0);  // over the channels
  for_each(pool, p.channels_out, p.channels_out * channels * area, [&](std::size_t row, int) {
    for (std::int64_t c = 0; c < channels; ++c) {
      double taps[9];
      for (int i = 0; i < 9; ++i)
        taps[i] = std::abs(static_cast<double>(
            weights[(row * static_cast<std::size_t>(channels) + static_cast<std::size_t>(c)) * 9 +
                    static_cast<std::size_t>(i)]));
      double* to = filters.data() + (static_cast<std::int64_t>(row) * channels + c) * area;
      sandwich(g, n, 3, taps, to);
      for (int i = 0; i < area; ++i) {
        double& sum =
            filter_sums[row * static_cast<std::size_t>(area) + static_cast<std::size_t>(i)];
        sum = add_rn(sum, to[i]);
      }
    }
  });

  TensorBound out{ir::Tensor(ir::DType::kF64, p.result), BoundKind::kTransform,
                  "winograd F(" + std::to_string(m) +
                      ",3), N = " + std::to_string(static_cast<std::int64_t>(roundings))};
  const auto result = out.value.data_mut<double>();
  const Tiles tiles(p, m);
  for_each(
      pool, tiles.count, tiles.count * group_rows * channels * area, [&](std::size_t index, int) {
        const Tiles::Place at_tile = tiles.decode(index, m);
        const std::int64_t x0 = at_tile.x0, y0 = at_tile.y0, group = at_tile.group,
                           image = at_tile.image;
        Square data(static_cast<std::size_t>(channels * area)),
            patch(static_cast<std::size_t>(area));
        Square data_sum(static_cast<std::size_t>(area), 0.0);
        for (std::int64_t c = 0; c < channels; ++c) {
          read_patch(p, at_tile, c, n, patch);
          for (double& v : patch) v = std::abs(v);
          sandwich(bt, n, n, patch.data(), data.data() + c * area);
          for (int i = 0; i < area; ++i)
            data_sum[static_cast<std::size_t>(i)] =
                add_rn(data_sum[static_cast<std::size_t>(i)],
                       data[static_cast<std::size_t>(c * area + i)]);
        }
        Square products(static_cast<std::size_t>(area)), lost(static_cast<std::size_t>(area));
        Square tile(static_cast<std::size_t>(m * m)), tile_lost(static_cast<std::size_t>(m * m));
        for (std::int64_t r = 0; r < group_rows; ++r) {
          const std::int64_t row = group * group_rows + r;
          std::fill(products.begin(), products.end(), 0.0);
          for (std::int64_t c = 0; c < channels; ++c) {
            const double* u = filters.data() + (row * channels + c) * area;
            const double* v = data.data() + c * area;
            double* sums = products.data();
            for (int i = 0; i < area; ++i) sums[i] = add_rn(sums[i], mul_rn(u[i], v[i]));
          }
          const double terms = static_cast<double>(channels);
          for (int i = 0; i < area; ++i)
            lost[static_cast<std::size_t>(i)] =
                add_rn(add_rn(mul_rn(eta_g, data_sum[static_cast<std::size_t>(i)]),
                              mul_rn(eta_b, filter_sums[static_cast<std::size_t>(row * area + i)])),
                       mul_rn(terms, add_rn(mul_rn(eta_g, eta_b), kEta)));
          sandwich(at, m, n, products.data(), tile.data());
          sandwich(at, m, n, lost.data(), tile_lost.data());
          for (int y = 0; y < m && y0 + y < w.out_h; ++y)
            for (int x = 0; x < m && x0 + x < w.out_w; ++x) {
              const double bracket = tile[static_cast<std::size_t>(y * m + x)];
              double bound = 0;
              if (bracket != 0)
                bound = add_rn(
                    mul_rn(factor, bracket),
                    mul_rn(add_rn(tile_lost[static_cast<std::size_t>(y * m + x)], eta_a), 1.01));
              if (p.addend.defined()) {
                // The bracket is at least |the sum|: one rounding of sum + bias.
                const double addend = std::abs(static_cast<double>(p.addend_at(row, 0)));
                bound = add_rn(bound, mul_rn(0x1p-24, add_rn(add_rn(bracket, bound), addend)));
              }
              result[static_cast<std::size_t>((image * p.channels_out + row) * w.out_pixels() +
                                              (y0 + y) * w.out_w + x0 + x)] = mul_rn(bound, kSlack);
            }
        }
      });
  return out;
}

ir::Tensor winograd_variance(const SumProblem& p, const ir::WinogradMatrices& matrices,
                             const WinogradSettings& settings, ThreadPool& pool) {
  DRIFTC_ASSERT(winograd_fits(p) && matrices.r == 3,
                "Winograd of a convolution that it does not fit");
  constexpr double kRounding = 0x1p-48 / 3;  // u^2 / 3, of a result of 1
  const Window& w = p.window;
  const int n = matrices.n(), m = matrices.m, area = n * n;
  const Square g = values_of(matrices.g), bt = values_of(matrices.bt),
               g_size = magnitudes_of(matrices.g), bt_size = magnitudes_of(matrices.bt),
               at_square = squares_of(matrices.at);
  const std::int64_t channels = p.group_channels(), group_rows = p.group_rows();
  const double terms = static_cast<double>(channels);
  const double of_operands =
      (settings.filters_in_f64 ? 1 : 2 * ir::transform_roundings(matrices.g)) +
      2 * ir::transform_roundings(matrices.bt);
  const double of_output = 2 * ir::transform_roundings(matrices.at);
  const double moved = settings.operand_error * settings.operand_error;

  // Transformed filters and the absolute values that went into them, row by row.
  const auto weights = p.rows.data<float>();
  Square filters(static_cast<std::size_t>(p.channels_out * channels * area)), filter_sizes(filters);
  for_each(pool, p.channels_out * channels, p.channels_out * channels * area,
           [&](std::size_t i, int) {
             double taps[9], sizes[9];
             for (std::size_t t = 0; t < 9; ++t) {
               taps[t] = static_cast<double>(weights[i * 9 + t]);
               sizes[t] = std::abs(taps[t]);
             }
             const std::size_t to = i * static_cast<std::size_t>(area);
             sandwich(g, n, 3, taps, filters.data() + to);
             sandwich(g_size, n, 3, sizes, filter_sizes.data() + to);
           });

  ir::Tensor out(ir::DType::kF64, p.result);
  const auto result = out.data_mut<double>();
  const Tiles tiles(p, m);
  for_each(
      pool, tiles.count, tiles.count * group_rows * channels * area, [&](std::size_t index, int) {
        const Tiles::Place at = tiles.decode(index, m);
        Square data(static_cast<std::size_t>(channels * area)), sizes(data),
            patch(static_cast<std::size_t>(area));
        for (std::int64_t c = 0; c < channels; ++c) {
          read_patch(p, at, c, n, patch);
          sandwich(bt, n, n, patch.data(), data.data() + c * area);
          for (double& v : patch) v = std::abs(v);
          sandwich(bt_size, n, n, patch.data(), sizes.data() + c * area);
        }
        Square variance(static_cast<std::size_t>(area)), tile(static_cast<std::size_t>(m * m));
        for (std::int64_t r = 0; r < group_rows; ++r) {
          const std::int64_t row = at.group * group_rows + r;
          for (int i = 0; i < area; ++i) {
            double sum = 0, squares = 0, transformed = 0;  // S, Q, and Q over absolute values
            for (std::int64_t c = 0; c < channels; ++c) {
              const auto u = static_cast<std::size_t>((row * channels + c) * area + i),
                         v = static_cast<std::size_t>(c * area + i);
              const double product = mul_rn(filters[u], data[v]),
                           size = mul_rn(filter_sizes[u], sizes[v]);
              sum = add_rn(sum, product);
              squares = add_rn(squares, mul_rn(product, product));
              transformed = add_rn(transformed, mul_rn(size, size));
            }
            const double sum2 = mul_rn(sum, sum);
            variance[static_cast<std::size_t>(i)] =
                kRounding * (of_operands * transformed + terms / 3 * sum2 +
                             (terms / 6 + 1) * squares + of_output * sum2) +
                moved * (squares + sum2);
          }
          sandwich(at_square, m, n, variance.data(), tile.data());
          for (int y = 0; y < m && at.y0 + y < w.out_h; ++y)
            for (int x = 0; x < m && at.x0 + x < w.out_w; ++x)
              result[static_cast<std::size_t>((at.image * p.channels_out + row) * w.out_pixels() +
                                              (at.y0 + y) * w.out_w + at.x0 + x)] =
                  tile[static_cast<std::size_t>(y * m + x)];
        }
      });
  return out;
}

}  // namespace driftc::runtime::compare
