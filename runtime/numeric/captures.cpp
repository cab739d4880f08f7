#include "runtime/numeric/captures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

namespace driftc::runtime {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kGpus = {
    {{"v100", "sm_70"},
     {"t4", "sm_75"},
     {"a100", "sm_80"},
     {"ada", "sm_89"},
     {"h100", "sm_90"},
     {"h200", "sm_90"},
     {"b200", "sm_100"}}};
constexpr std::array<std::pair<std::string_view, TcFormat>, 3> kFormats = {
    {{"fp16", TcFormat::kF16}, {"bf16", TcFormat::kBf16}, {"tf32", TcFormat::kTf32}}};
constexpr std::uint32_t kMagic = 0x31564354;  // "TCV1"
constexpr std::uint32_t kMaxK = 64, kMaxRows = 1u << 24;

}  // namespace

Result<Capture> read_capture(const std::filesystem::path& path) {
  Capture out;
  out.file = path.filename().string();
  const auto bad = [&](std::string why) {
    Diagnostic d = input_error(std::move(why), "the README beside the data describes the format");
    d.place.file = path.string();
    return d;
  };
  const std::string stem = path.stem().string();
  const std::size_t bar = stem.rfind('_');
  for (const auto& [name, arch] : kGpus)
    if (bar != std::string::npos && stem.substr(0, bar) == name) out.arch = arch;
  std::optional<TcFormat> format;
  for (const auto& [name, value] : kFormats)
    if (bar != std::string::npos && stem.substr(bar + 1) == name) format = value;
  if (out.arch.empty() || !format) return bad("not named GPU_fp16, GPU_bf16 or GPU_tf32");
  out.format = *format;

  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  std::array<std::uint32_t, 4> header{};
  if (!in.good() && bytes.empty()) return bad("cannot be read");
  if (bytes.size() < sizeof header) return bad("shorter than its header");
  std::memcpy(header.data(), bytes.data(), sizeof header);
  const auto [magic, k, rows, has_d16] = header;
  if (magic != kMagic) return bad("not a file of captured tensor-core outputs (no TCV1)");
  if (k == 0 || k > kMaxK || rows > kMaxRows || has_d16 > 1) return bad("a header out of range");
  const std::size_t words = 2 * std::size_t{k} + 2 + has_d16;
  if (bytes.size() != sizeof header + words * rows * 4)
    return bad(fmt::format("{} rows of {} words expected, the file has {} bytes", rows, words,
                           bytes.size()));
  out.k = static_cast<int>(k);
  std::vector<float> row(words);
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::memcpy(row.data(), bytes.data() + sizeof header + words * 4 * r, words * 4);
    out.a.insert(out.a.end(), row.begin(), row.begin() + k);
    out.b.insert(out.b.end(), row.begin() + k, row.begin() + 2 * k);
    out.c.push_back(row[2 * k]);
    out.d32.push_back(row[2 * k + 1]);
    if (has_d16) out.d16.push_back(row[2 * k + 2]);
  }
  return out;
}

std::vector<std::string> capture_files(std::string_view arch) {
  std::vector<std::string> names;
  for (const auto& [gpu, gpu_arch] : kGpus)
    if (gpu_arch == arch)
      for (const auto& [format, value] : kFormats)
        names.push_back(fmt::format("{}_{}.bin", gpu, format));
  return names;
}

Result<std::vector<Capture>> read_captures(const std::string& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".bin") files.push_back(entry.path());
  if (error || files.empty())
    return input_error(fmt::format("no captured tensor-core outputs in '{}'", folder),
                       "DRIFTC_TENSORCORE_DATA names the folder of the .bin files");
  std::sort(files.begin(), files.end());
  std::vector<Capture> out;
  for (const auto& file : files) {
    DRIFTC_TRY(capture, read_capture(file));
    out.push_back(std::move(capture));
  }
  return out;
}

}  // namespace driftc::runtime
