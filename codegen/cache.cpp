#include "codegen/cache.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <map>
#include <thread>

#include "ir/support/hash.h"

namespace driftc::codegen {
namespace {

namespace fs = std::filesystem;

// One entry is one text file:
//   driftc-ptx 1 <key> <hash of the rest> <log bytes> <compiler>\n<log><ptx>
constexpr std::string_view kMagic = "driftc-ptx 1 ";
constexpr std::size_t kMaxEntryBytes =
    64u << 20;  // far above any kernel; bounds what a broken entry can cost

std::string render_entry(const CompiledPtx& compiled) {
  std::string body =
      fmt::format("{} {}\n", compiled.log.size(), compiled.compiler) + compiled.log + compiled.ptx;
  return fmt::format("{}{} {} ", kMagic, compiled.key, hash128_hex(body)) + body;
}

std::optional<CompiledPtx> parse_entry(std::string_view text, const std::string& key) {
  std::string head = std::string(kMagic) + key + " ";
  if (!text.starts_with(head) || text.size() < head.size() + 33) return std::nullopt;
  text.remove_prefix(head.size());
  std::string_view hash = text.substr(0, 32), body = text.substr(33);
  if (text[32] != ' ' || hash128_hex(body) != hash) return std::nullopt;
  std::size_t line_end = body.find('\n'), space = body.find(' ');
  if (line_end == std::string_view::npos || space > line_end) return std::nullopt;
  std::size_t log_bytes = 0;
  auto [end, status] = std::from_chars(body.data(), body.data() + space, log_bytes);
  if (status != std::errc() || end != body.data() + space) return std::nullopt;
  std::string_view payload = body.substr(line_end + 1);
  if (log_bytes > payload.size()) return std::nullopt;
  CompiledPtx out;
  out.key = key;
  out.compiler = body.substr(space + 1, line_end - space - 1);
  out.log = payload.substr(0, log_bytes);
  out.ptx = payload.substr(log_bytes);
  return out;
}

std::optional<std::string> read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return std::nullopt;
  std::string out;
  char buffer[1 << 16];
  std::size_t got;
  while ((got = std::fread(buffer, 1, sizeof buffer, file)) > 0 && out.size() <= kMaxEntryBytes)
    out.append(buffer, got);
  bool good = !std::ferror(file) && out.size() <= kMaxEntryBytes;
  std::fclose(file);
  if (!good) return std::nullopt;
  return out;
}

// Whole or not at all: a reader in another process sees the old file or the new one.
bool write_atomically(const std::string& path, const std::string& text) {
  static std::atomic<unsigned> serial =
      0;  // makes names of concurrent writers in this process differ
  std::string temporary = fmt::format("{}.tmp.{}.{}", path, ::getpid(), serial.fetch_add(1));
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) return false;
  bool good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  good = std::fclose(file) == 0 && good;
  good = good && std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!good) ::unlink(temporary.c_str());
  return good;
}

// A file name may hold only these; versions look like "nvrtc 13.0".
std::string entry_path(const std::string& folder, const std::string& key, std::string compiler) {
  std::replace_if(
      compiler.begin(), compiler.end(),
      [](char c) { return !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.'); }, '-');
  return folder + "/" + key + "." + compiler + ".ptx";
}

// The entry of any compiler version, newest name first.
std::optional<std::string> any_version_path(const std::string& folder, const std::string& key) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::string file = it->path().filename().string();
    if (file.starts_with(key + ".") && file.ends_with(".ptx")) found.push_back(it->path().string());
  }
  if (found.empty()) return std::nullopt;
  return *std::max_element(found.begin(), found.end());
}

}  // namespace

KernelCache::KernelCache(CacheOptions options, std::optional<Nvrtc> nvrtc)
    : options_(std::move(options)), nvrtc_(std::move(nvrtc)) {}

CacheCounters KernelCache::counters() const {
  return {hits_.load(), recorded_.load(), misses_.load(), compiled_.load(), damaged_.load()};
}

std::optional<CompiledPtx> KernelCache::find_on_disk(const std::string& key) {
  if (!options_.folder.empty()) {
    std::optional<std::string> path;
    if (nvrtc_)
      path = entry_path(options_.folder, key, "nvrtc " + nvrtc_->version());
    else
      path = any_version_path(options_.folder, key);
    if (path) {
      if (std::optional<std::string> text = read_file(*path)) {
        if (std::optional<CompiledPtx> entry = parse_entry(*text, key)) {
          ++hits_;
          return entry;
        }
        ++damaged_;
        ::unlink(path->c_str());
      }
    }
  }
  if (nvrtc_) return std::nullopt;  // recorded PTX stands in for a missing compiler only
  for (const std::string& folder : options_.recorded_folders) {
    std::optional<std::string> path = any_version_path(folder, key);
    if (!path) continue;
    std::optional<std::string> text = read_file(*path);
    std::optional<CompiledPtx> entry = text ? parse_entry(*text, key) : std::nullopt;
    if (entry) {
      ++recorded_;
      return entry;
    }
    ++damaged_;
  }
  return std::nullopt;
}

// A cache that cannot be written (full disk, read-only home) only costs time, so failures are
// silent here.
void KernelCache::store(const CompiledPtx& compiled) {
  if (options_.folder.empty()) return;
  std::error_code error;
  fs::create_directories(options_.folder, error);
  write_atomically(entry_path(options_.folder, compiled.key, compiled.compiler),
                   render_entry(compiled));
}

Result<void> KernelCache::record(const std::string& folder, const CompiledPtx& compiled) {
  std::error_code error;
  fs::create_directories(folder, error);
  std::string path = entry_path(folder, compiled.key, compiled.compiler);
  if (!write_atomically(path, render_entry(compiled))) return input_error("cannot write " + path);
  return {};
}

Result<CompiledPtx> KernelCache::produce(const CompileRequest& request, const std::string& key) {
  if (std::optional<CompiledPtx> found = find_on_disk(key)) {
    found->name = request.name;
    return *std::move(found);
  }
  ++misses_;
  if (!nvrtc_)
    return unavailable(
        fmt::format(
            "kernel '{}' needs NVRTC, which was not found, and no recorded PTX has its key {}",
            request.name, key),
        "`./dev demo` installs NVRTC; `driftc doctor` shows where it was looked for");
  DRIFTC_TRY(compiled, nvrtc_->compile(request));
  ++compiled_;
  store(compiled);
  return std::move(compiled);
}

Result<CompiledPtx> KernelCache::compile(const CompileRequest& request) {
  return produce(request, request_key(request));
}

Result<std::vector<CompiledPtx>> KernelCache::compile_all(std::span<const CompileRequest> requests,
                                                          int threads) {
  std::map<std::string, std::size_t> first_with_key;
  std::vector<std::string> keys(requests.size());
  std::vector<std::size_t> unique;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    keys[i] = request_key(requests[i]);
    if (first_with_key.emplace(keys[i], i).second) unique.push_back(i);
  }
  std::vector<std::optional<Result<CompiledPtx>>> results(requests.size());
  std::atomic<std::size_t> next = 0;
  auto work = [&] {
    for (std::size_t u; (u = next.fetch_add(1)) < unique.size();)
      results[unique[u]].emplace(produce(requests[unique[u]], keys[unique[u]]));
  };
  std::size_t helpers =
      std::min<std::size_t>(static_cast<std::size_t>(std::max(1, threads)), unique.size());
  std::vector<std::thread> pool;
  for (std::size_t i = 1; i < helpers; ++i) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();

  std::vector<CompiledPtx> out;
  out.reserve(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Result<CompiledPtx>& result = *results[first_with_key[keys[i]]];
    if (!result.ok()) return std::move(result.error());
    out.push_back(*result);
    out.back().name = requests[i].name;
  }
  return out;
}

}  // namespace driftc::codegen
