// The fuzz targets as a seeded loop: any compiler, 20,000 mutations each in `./dev test`, a million
// each in `./dev soak fuzz`. A run is one (seed, index), which a crash prints together with a file
// that holds the input; that file belongs into the corpus as crash-WHAT once the fault is repaired.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/targets.h"

using namespace driftc;

namespace {

// What runs now, for the handler.
const std::string* current = nullptr;
char crash_file[256];

void save_input(int signal) {
  if (current != nullptr)
    if (std::FILE* file = std::fopen(crash_file, "wb")) {
      std::fwrite(current->data(), 1, current->size(), file);
      std::fclose(file);
      std::fprintf(stderr, "fuzz: the input that ended the program is in %s\n", crash_file);
    }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// Installed around a loop; the handlers of the test program come back afterwards.
class CrashSaver {
 public:
  explicit CrashSaver(std::string_view target) {
    const std::string path =
        (std::filesystem::temp_directory_path() / fmt::format("driftc-fuzz-{}", target)).string();
    std::snprintf(crash_file, sizeof crash_file, "%s", path.c_str());
    abort_ = std::signal(SIGABRT, save_input);
    fault_ = std::signal(SIGSEGV, save_input);
  }
  CrashSaver(const CrashSaver&) = delete;
  CrashSaver& operator=(const CrashSaver&) = delete;
  ~CrashSaver() {
    current = nullptr;
    std::signal(SIGABRT, abort_);
    std::signal(SIGSEGV, fault_);
  }

 private:
  void (*abort_)(int);
  void (*fault_)(int);
};

// The most memory that this program had so far (Linux: ru_maxrss is in KiB).
std::int64_t peak_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * std::int64_t{1024};
}

// Returns the slowest run in seconds.
double loop(const fuzz::Target& target, std::uint64_t seed, std::uint64_t count) {
  const auto files = fuzz::corpus(target);
  REQUIRE(!files.empty());
  const CrashSaver saver(target.name);
  double slowest = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string input = fuzz::mutated(files[i % files.size()].bytes, seed, i, target.words);
    current = &input;
    const auto start = std::chrono::steady_clock::now();
    target.run(input);
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    slowest = std::max(slowest, spent.count());
  }
  return slowest;
}

}  // namespace

TEST_CASE("fuzz: the corpora, and in them every crash found so far") {
  for (const fuzz::Target& target : fuzz::targets()) {
    bool accepted = false;
    for (const fuzz::CorpusFile& file : fuzz::corpus(target)) {
      CAPTURE(file.path);
      target.run(file.bytes);
      accepted = accepted || target.accepts(file.bytes);
    }
    CHECK_MESSAGE(accepted, target.name, ": no file of the corpus is accepted");
  }
}

// Bounded time and memory, whatever the input: 10 s and 256 MB beyond what was in use before.
TEST_CASE("fuzz: 20,000 mutations for each target") {
  for (const fuzz::Target& target : fuzz::targets()) {
    const std::int64_t before = peak_bytes();
    CHECK_MESSAGE(loop(target, 1, 20'000) < 10, target.name);
    CHECK_MESSAGE(peak_bytes() - before < 256 << 20, target.name);
  }
}

TEST_SUITE("soak") {
  TEST_CASE("soak: fuzz, a million mutations for each target" * doctest::skip()) {
    const char* seed = std::getenv("DRIFTC_FUZZ_SEED");
    for (const fuzz::Target& target : fuzz::targets()) {
      const double slowest =
          loop(target, seed == nullptr ? 2 : std::strtoull(seed, nullptr, 10), 1'000'000);
      fmt::print("fuzz {}: 1,000,000 runs, the slowest {:.3f} s\n", target.name, slowest);
      CHECK(slowest < 10);
    }
  }

  // Through the whole program: it ends with 0 (the damage is in a weight) or with 2, and takes no
  // more memory than a small model needs.
  TEST_CASE("soak: fuzz, a damaged model through the program" * doctest::skip()) {
    std::ifstream in(DRIFTC_SOURCE_DIR "/tests/models/digits-resnet.onnx", std::ios::binary);
    const std::string model((std::istreambuf_iterator<char>(in)), {});
    const std::string path =
        (std::filesystem::temp_directory_path() / "driftc-damaged.onnx").string();
    const std::string command = "ulimit -v 1000000; " DRIFTC_BINARY " run " + path +
                                " --arm eager --threads 1 >/dev/null 2>&1";
    int ran = 0, refused = 0;
    const auto check = [&](const std::string& bytes, const std::string& what) {
      std::ofstream(path, std::ios::binary) << bytes;
      const int status = std::system(command.c_str());
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      CHECK_MESSAGE((code == 0 || code == 2), what, ": exit ", code);
      ++(code == 0 ? ran : refused);
    };
    for (std::size_t size = 0; size < model.size(); size += 1024)
      check(model.substr(0, size), fmt::format("truncated to {}", size));
    const CounterRng rng(4, "flip");
    for (std::uint64_t i = 0; i < 1000; ++i) {
      std::string damaged = model;
      const auto at =
          static_cast<std::size_t>(rng.bits(2 * i) % (i % 2 == 0 ? model.size() : 8192));
      damaged[at] = static_cast<char>(damaged[at] ^ (1 + rng.bits(2 * i + 1) % 255));
      check(damaged, fmt::format("flip {} at {}", i, at));
    }
    std::filesystem::remove(path);
    fmt::print("damaged models: {} ran, {} refused\n", ran, refused);
  }
}
