#include "codegen/cache.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/unit/ptx_helpers.h"

using namespace driftc;
using codegen::CacheOptions;
using codegen::CompileRequest;
using codegen::KernelCache;
namespace fs = std::filesystem;

namespace {
fs::path scratch(const char* name) {
  fs::path p = fs::temp_directory_path() /
               ("driftc_cache_" + std::string(name) + std::to_string(::getpid()));
  fs::remove_all(p);
  return p;
}
CompileRequest request(int n) {
  return {"k" + std::to_string(n),
          "extern \"C\" __global__ void k(int* x) { x[0] = " + std::to_string(n) + "; }",
          "90",
          {}};
}
std::vector<fs::path> files(const fs::path& folder) {
  std::vector<fs::path> out;
  if (fs::exists(folder))
    for (const auto& e : fs::directory_iterator(folder)) out.push_back(e.path());
  return out;
}
}  // namespace

TEST_CASE("cache: misses compile once, hits come from disk, damage is repaired") {
  if (!ptx_test::nvrtc()) {
    MESSAGE("skipped: NVRTC is missing");
    return;
  }
  fs::path folder = scratch("main");
  std::vector<CompileRequest> requests = {request(1), request(2), request(1), request(3)};
  std::string first;
  {
    KernelCache cache({folder.string(), {}}, ptx_test::nvrtc());
    auto result = cache.compile_all(requests, 2);
    REQUIRE(result.ok());
    CHECK(result->size() == 4);
    CHECK((*result)[0].ptx == (*result)[2].ptx);
    CHECK((*result)[3].name == "k3");
    first = (*result)[0].ptx;
    CHECK(cache.counters().compiled == 3);
    CHECK(cache.counters().misses == 3);
    CHECK(cache.counters().hits == 0);
    CHECK(files(folder).size() == 3);
  }
  {
    KernelCache cache({folder.string(), {}}, ptx_test::nvrtc());
    auto result = cache.compile_all(requests, 3);
    REQUIRE(result.ok());
    CHECK((*result)[0].ptx == first);
    CHECK(cache.counters().hits == 3);
    CHECK(cache.counters().compiled == 0);
  }
  for (const fs::path& f : files(folder)) {  // flip a byte near the end
    std::fstream s(f, std::ios::in | std::ios::out | std::ios::binary);
    s.seekp(-5, std::ios::end);
    s.put('#');
  }
  KernelCache cache({folder.string(), {}}, ptx_test::nvrtc());
  auto result = cache.compile_all(requests, 1);
  REQUIRE(result.ok());
  CHECK((*result)[0].ptx == first);
  CHECK(cache.counters().damaged == 3);
  CHECK(cache.counters().compiled == 3);
  fs::remove_all(folder);
}

TEST_CASE("cache: without NVRTC recorded PTX answers, anything else is unavailable") {
  fs::path recorded = scratch("recorded");
  codegen::CompiledPtx entry;
  entry.name = "k1";
  entry.ptx = ".version 9.0\n";
  entry.log = "a warning\nof two lines";
  entry.compiler = "nvrtc 12.9";
  entry.key = codegen::request_key(request(1));
  REQUIRE(KernelCache::record(recorded.string(), entry).ok());
  KernelCache cache({"", {recorded.string()}}, std::nullopt);
  CHECK_FALSE(cache.has_compiler());
  auto hit = cache.compile(request(1));
  REQUIRE(hit.ok());
  CHECK(hit->ptx == entry.ptx);
  CHECK(hit->log == entry.log);
  CHECK(hit->compiler == "nvrtc 12.9");
  CHECK(cache.counters().recorded == 1);
  auto miss = cache.compile_all(std::vector<CompileRequest>{request(1), request(2)}, 2);
  REQUIRE_FALSE(miss.ok());
  CHECK(miss.error().kind == ErrorKind::kUnavailable);
  CHECK(miss.error().render().find("./dev demo") != std::string::npos);
  for (const fs::path& f : files(recorded)) std::ofstream(f) << "driftc-ptx 1 garbage";
  CHECK_FALSE(cache.compile(request(1)).ok());
  CHECK(files(recorded).size() == 1);  // recorded folders are read-only
  fs::remove_all(recorded);
}

TEST_CASE("cache: several users of one folder, and a folder that cannot be written") {
  if (!ptx_test::nvrtc()) return;
  fs::path folder = scratch("shared");
  std::vector<CompileRequest> requests;
  for (int i = 0; i < 6; ++i) requests.push_back(request(i));
  std::vector<std::thread> users;
  std::atomic<int> good = 0;
  for (int u = 0; u < 3; ++u)
    users.emplace_back([&] {
      KernelCache cache({folder.string(), {}}, ptx_test::nvrtc());
      auto result = cache.compile_all(requests, 2);
      if (result.ok() && result->size() == 6) ++good;
    });
  for (std::thread& t : users) t.join();
  CHECK(good == 3);
  CHECK(files(folder).size() == 6);
  fs::remove_all(folder);
  KernelCache nowhere({"/proc/driftc-cannot-write", {}}, ptx_test::nvrtc());
  CHECK(nowhere.compile(request(1)).ok());
}

TEST_CASE("cache: the first error in request order wins") {
  if (!ptx_test::nvrtc()) return;
  std::vector<CompileRequest> requests = {
      request(1), {"bad_a", "syntax error a", "90", {}}, {"bad_b", "syntax error b", "90", {}}};
  for (int threads : {1, 3}) {
    KernelCache cache({"", {}}, ptx_test::nvrtc());
    auto result = cache.compile_all(requests, threads);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().message.find("bad_a") != std::string::npos);
  }
}
