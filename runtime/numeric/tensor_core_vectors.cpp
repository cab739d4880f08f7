#include "runtime/numeric/tensor_core_vectors.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "ir/support/half.h"
#include "runtime/numeric/captures.h"

namespace driftc::runtime {
namespace {

using Products = std::vector<std::pair<float, float>>;

class Builder {
 public:
  explicit Builder(std::string_view arch) : arch_(arch) {}

  // No vector where the unit does not exist, or the products do not fit its k.
  void add(const char* name, TcFormat format, TcAccumulator accumulator, int k, float c,
           const Products& products, bool open = false) {
    const auto unit = tensor_core(arch_, format, accumulator);
    if (!unit || products.size() > static_cast<std::size_t>(k)) return;
    TcVector v;
    v.name = name;
    v.c = c;
    v.open = open;
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
      v.a.push_back(i < products.size() ? products[i].first : 0.0f);
      v.b.push_back(i < products.size() ? products[i].second : 0.0f);
    }
    v.expected = std::bit_cast<std::uint32_t>(tensor_core_chain(*unit, k, c, v.a, v.b).value);
    for (TcVectors& group : out_)
      if (group.format == format && group.accumulator == accumulator && group.k == k) {
        group.vectors.push_back(std::move(v));
        return;
      }
    out_.push_back({"T1 to T11", format, accumulator, k, {std::move(v)}});
  }
  std::vector<TcVectors> take() { return std::move(out_); }

 private:
  std::string_view arch_;
  std::vector<TcVectors> out_;
};

Products times(std::size_t n, std::pair<float, float> product) { return Products(n, product); }

// Zeros up to `index`, then the product.
Products at(Products first, std::size_t index, std::pair<float, float> product) {
  while (first.size() < index) first.emplace_back(0.0f, 0.0f);
  first.push_back(product);
  return first;
}

float of_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// The outputs of one accumulator as vectors; none where they were not captured.
void add_captured(const Capture& capture, TcAccumulator accumulator, std::vector<TcVectors>& out) {
  const bool half = accumulator == TcAccumulator::kF16;
  const std::vector<float>& results = half ? capture.d16 : capture.d32;
  if (half && results.empty()) return;
  TcVectors group{capture.file, capture.format, accumulator, capture.k, {}};
  const auto k = static_cast<std::ptrdiff_t>(capture.k);
  for (std::int64_t r = 0; r < capture.rows(); ++r) {
    const auto row = static_cast<std::size_t>(r);
    TcVector v;
    v.name = "row " + std::to_string(r);
    v.a.assign(capture.a.begin() + r * k, capture.a.begin() + (r + 1) * k);
    v.b.assign(capture.b.begin() + r * k, capture.b.begin() + (r + 1) * k);
    v.c = half ? f16_to_f32(f32_to_f16_rne(capture.c[row])) : capture.c[row];
    v.expected = std::bit_cast<std::uint32_t>(results[row]);
    group.vectors.push_back(std::move(v));
  }
  out.push_back(std::move(group));
}

}  // namespace

std::vector<TcVectors> discriminating_vectors(std::string_view arch) {
  constexpr auto kF32 = TcAccumulator::kF32;
  constexpr auto kHalf = TcFormat::kF16;
  const float inf = std::numeric_limits<float>::infinity();
  const float most = std::numeric_limits<float>::max();
  // sm_70 and sm_75 have no k of 16.
  const bool small = arch == "sm_70" || arch == "sm_75";
  const int k = small ? 8 : 16;
  Builder out(arch);
  out.add("T1", kHalf, kF32, k, 1, {{0x1.8p-12f, 0x1p-12f}});
  out.add("T2a", kHalf, kF32, k, 1, times(2, {0x1p-12f, 0x1p-12f}));
  out.add("T2b", kHalf, kF32, k, 1, times(4, {0x1p-12f, 0x1p-13f}));
  out.add("T2c", kHalf, kF32, k, 1, times(8, {0x1p-13f, 0x1p-13f}));
  const Products cancel = {{0x1p12f, 0x1p12f}, {-0x1p12f, 0x1p12f}};
  out.add("T3", kHalf, kF32, k, 0, at(cancel, 8, {0x1p-5f, 0x1p-5f}));
  out.add("T3", TcFormat::kTf32, kF32, 8, 0, at(cancel, 4, {0x1p-5f, 0x1p-5f}));
  Products t4 = times(9, {0x1p-12f, 0x1p-13f});
  t4[0] = {1.5f, 1.5f};
  out.add("T4", kHalf, kF32, k, 0, t4);
  out.add("T5", kHalf, kF32, k, 0, {{0x1p-24f, 1}});
  if (arch == "sm_80" || arch == "sm_89")
    out.add("T6", TcFormat::kBf16, kF32, 16, 0, times(8, {0x1p-76f, 0x1p-76f}));
  else
    out.add("T6", TcFormat::kBf16, kF32, 16, 0, times(16, {0x1p-76f, 0x1p-77f}));
  const std::pair<float, float> tiny = arch == "sm_70" ? std::pair{0x1p-21f, 0x1p-22f}
                                       : arch == "sm_75" || arch == "sm_80" || arch == "sm_89"
                                           ? std::pair{0x1p-22f, 0x1p-23f}
                                           : std::pair{0x1p-23f, 0x1p-24f};
  out.add("T7", kHalf, TcAccumulator::kF16, k, 0, {{0x1p-12f, 0x1p-13f}, tiny}, true);
  out.add("T8a", TcFormat::kTf32, kF32, 8, 0, {{of_bits(0x3F801000), 1}});
  out.add("T8b", TcFormat::kTf32, kF32, 8, 0, {{of_bits(0x3F801FFF), 1}});
  out.add("T9a", kHalf, kF32, k, 0, {{inf, 0}}, true);
  out.add("T9b", kHalf, kF32, k, 0, {{inf, 1}, {-inf, 1}}, true);
  out.add("T9c", TcFormat::kTf32, kF32, 8, 0, {{of_bits(0x7FC12345), 1}}, true);
  // A NaN whose payload lies in the bits that tf32 drops.
  out.add("T9d", TcFormat::kTf32, kF32, 8, 0, {{of_bits(0x7F800001), 1}}, true);
  out.add("T10a", kHalf, kF32, k, -0.0f, times(static_cast<std::size_t>(k), {-0.0f, 1}), true);
  out.add("T10b", TcFormat::kBf16, kF32, 16, 0, {{-0x1p-100f, 0x1p-100f}}, true);
  out.add("T11a", TcFormat::kBf16, kF32, 16, most, {{0x1p60f, 0x1p44f}});
  out.add("T11b", TcFormat::kBf16, kF32, 16, most, {{0x1p60f, 0x1p43f}});
  return out.take();
}

Result<std::vector<TcVectors>> captured_vectors(const std::string& folder, std::string_view arch) {
  std::vector<TcVectors> out;
  for (const std::string& name : capture_files(arch)) {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if (!std::filesystem::exists(path)) continue;
    DRIFTC_TRY(capture, read_capture(path));
    add_captured(capture, TcAccumulator::kF32, out);
    add_captured(capture, TcAccumulator::kF16, out);
  }
  return out;
}

}  // namespace driftc::runtime
