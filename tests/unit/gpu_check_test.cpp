// gpu-check and the program that ./dev gpu-pack carries to a GPU machine, through the fake driver
// (tests/fake_cuda) and through none.
#include "runtime/study/gpu_check.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "frontend/report/json_text.h"
#include "runtime/cuda/mma_vectors.h"
#include "runtime/ptx/decode.h"
#include "runtime/ptx/parser.h"
#include "tests/support/command_line.h"
#include "tests/support/services.h"
#include "tests/unit/report_schema.h"

using namespace driftc;
using frontend::Json;
namespace fs = std::filesystem;
using runtime::TcAccumulator;
using runtime::TcFormat;

namespace {

[[maybe_unused]] std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  while (const std::size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, n);
  ::pclose(pipe);
  return out;
}

bool has(const std::string& text, const std::string& piece) {
  return text.find(piece) != std::string::npos;
}

// A pack with the shipped network alone.
class Pack {
 public:
  Pack() {
    const fs::path models = DRIFTC_SOURCE_DIR "/tests/models";
    fs::create_directories(folder() / "models");
    fs::copy_file(models / "digits-resnet.onnx", folder() / "models/digits-resnet.onnx");
    fs::copy_file(models / "digits.images.npy", folder() / "models/digits-resnet.input.npy");
    // What ./dev gpu-pack would have compiled: the kernels recorded with the sources.
    fs::copy(models / "recorded-ptx", folder() / "kernels");
  }

  struct Outcome {
    int code;
    Json json;
    std::set<std::string> files;
  };
  Outcome check(const std::string& part, const std::string& arguments,
                const std::string& program = DRIFTC_BINARY) const {
    const fs::path out = folder() / "out";
    fs::remove_all(out);
    const std::string command =
        (part == "none"
             ? "DRIFTC_LIBRARY_PATH=/nowhere "
             : "DRIFTC_LIBRARY_PATH=" DRIFTC_FAKE_CUDA "works FAKE_CUDA='" + part + "' ") +
        "'" + program + "' gpu-check '" + folder().string() + "' --out '" + out.string() +
        "' --runs 1 " + arguments + " >/dev/null 2>&1";
    const int status = std::system(command.c_str());
    Outcome result{WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}, {}};
    REQUIRE(fs::exists(out / "gpu-check.json"));
    result.json = Json::parse(tests::read_file(out / "gpu-check.json"));
    const Json schema =
        Json::parse(tests::read_file(DRIFTC_SOURCE_DIR "/docs/schema/gpu-check-1.json"));
    CHECK(tests::schema_faults(schema, result.json) == "");
    for (const auto& file : fs::directory_iterator(out))
      result.files.insert(file.path().filename());
    return result;
  }
  const fs::path& folder() const { return folder_.path(); }

 private:
  tests::TemporaryFolder folder_;
};

// The PTX executor runs the instruction, so that the fake driver does.
bool runs_mma(TcFormat format, TcAccumulator accumulator, int k) {
  const auto module =
      runtime::ptx::parse_module(runtime::cuda::mma_ptx(format, accumulator, k, 90), "mma.ptx");
  return module.ok() && runtime::ptx::decode(*module, "mma_vectors").ok();
}

}  // namespace

TEST_CASE("gpu check: every kernel of the shipped network, in two settings, and as a CUDA graph") {
  const Pack pack;
  const Pack::Outcome good = pack.check("", "--only 'digits-resnet.onnx --passes'");
  CHECK(good.code == 0);
  CHECK(good.files == std::set<std::string>{"gpu-check.json", "gpu-check.txt"});
  int networks = 0;
  for (const Json& row : good.json["checks"]) {
    if (!has(row["check"], "digits")) continue;
    CAPTURE(row.dump());
    ++networks;
    CHECK(row["status"] == "ok");
    CHECK(row["data"]["kernels"] >= 17);
    CHECK(row["data"]["mismatched"] == 0);
    CHECK(row["data"]["plan_outputs_wrong"] == 0);
    CHECK(row["data"]["graph_ms"] == row["data"]["launches"]);  // the fake's clock
  }
  CHECK(networks == 2);
  const Pack::Outcome flipped = pack.check("flip", "--only 'digits-resnet.onnx --mode strict'");
  CHECK(flipped.code == 1);
  CHECK(flipped.json["checks"].back()["status"] == "differs");
  CHECK(has(flipped.json["checks"].back()["detail"], "; first %"));
  CHECK(has(flipped.json["checks"].back()["detail"], "plan and CUDA graph DIFFER"));
}

TEST_CASE("gpu check: without a GPU everything is skipped and said") {
  const Pack pack;
  const Pack::Outcome none = pack.check("no-gpu", "");
  CHECK(none.code == 0);
  CHECK(none.json["checks"].size() > 10);
  for (const Json& row : none.json["checks"])
    CHECK_MESSAGE((row["status"] == "skipped" || has(row["check"], "exceptions")), row.dump());
  const Pack::Outcome late = pack.check("fault=conv", "--only 'digits-resnet.onnx --mode strict'");
  CHECK(late.code == 1);
  CHECK(late.json["checks"].back()["status"] == "failed");
  CHECK(has(late.json["checks"].back()["detail"], "CUDA_ERROR_ILLEGAL_ADDRESS"));
}

TEST_CASE("gpu check: tensor-core vectors through mma.sync, T1 to T11 and captured ones") {
  if (!runs_mma(TcFormat::kF16, TcAccumulator::kF32, 16)) {
    std::printf("[skip] the PTX executor, hence the fake driver, has no mma.sync\n");
    return;
  }
  const Pack pack;
  const char* given = std::getenv("DRIFTC_TENSORCORE_DATA");
  const fs::path captured =
      given != nullptr ? given : DRIFTC_SOURCE_DIR "/../shared/data/tensorcore";
  if (fs::exists(captured)) fs::copy(captured, pack.folder() / "tensorcore");
  const Pack::Outcome checked = pack.check("", "--only 'tensor cores'");
  CHECK(checked.code == 0);
  int groups = 0, recorded = 0;
  for (const Json& row : checked.json["checks"]) {
    if (!row["data"].is_object()) continue;
    CAPTURE(row.dump());
    ++groups;
    CHECK((row["status"] == "ok" || row["status"] == "recorded"));
    CHECK(row["data"]["mismatched"] == 0);
    recorded += static_cast<int>(row["data"]["recorded"].size());
  }
  CHECK(groups >= 4);
  CHECK(recorded == 7);  // T7, T9 a to d, T10 a and b
}

TEST_CASE("gpu check: the instruction of a format, and none where there is none") {
  using runtime::cuda::mma_ptx;
  CHECK(has(mma_ptx(TcFormat::kF16, TcAccumulator::kF32, 16, 90),
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
  CHECK(
      has(mma_ptx(TcFormat::kF16, TcAccumulator::kF16, 8, 75),
          "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 \t{%r30, %r31}, {%r10, %r11}, {%r12}, "
          "{%r13, %r14}"));
  CHECK(has(mma_ptx(TcFormat::kTf32, TcAccumulator::kF32, 4, 80), "m16n8k4.row.col.f32.tf32"));
  CHECK(has(mma_ptx(TcFormat::kF16, TcAccumulator::kF32, 16, 86), ".target sm_80\n"));
  CHECK(has(mma_ptx(TcFormat::kF16, TcAccumulator::kF32, 16, 90), ".target sm_90\n"));
  CHECK(mma_ptx(TcFormat::kTf32, TcAccumulator::kF32, 8, 75) == "");
  CHECK(mma_ptx(TcFormat::kBf16, TcAccumulator::kF16, 16, 90) == "");
  CHECK(mma_ptx(TcFormat::kF16, TcAccumulator::kF32, 4, 90) == "");
}

TEST_CASE("gpu check: T1 to T11 as the specification has them") {
  auto expected = [](const char* arch, const char* name, TcFormat format) -> std::uint32_t {
    for (const auto& group : runtime::discriminating_vectors(arch))
      for (const auto& v : group.vectors)
        if (v.name == name && group.format == format) return v.expected;
    return 0xDEAD;
  };
  CHECK(expected("sm_90", "T1", TcFormat::kF16) == 0x3F800000);
  CHECK(expected("sm_80", "T2a", TcFormat::kF16) == 0x3F800001);
  CHECK(expected("sm_90", "T2b", TcFormat::kF16) == 0x3F800001);
  CHECK(expected("sm_80", "T2b", TcFormat::kF16) == 0x3F800000);
  CHECK(expected("sm_90", "T2c", TcFormat::kF16) == 0x3F800000);
  CHECK(expected("sm_90", "T3", TcFormat::kF16) == 0);
  CHECK(expected("sm_80", "T3", TcFormat::kF16) == 0x3A800000);
  CHECK(expected("sm_80", "T3", TcFormat::kTf32) == 0x3A800000);
  CHECK(expected("sm_90", "T4", TcFormat::kF16) == 0x40100001);
  CHECK(expected("sm_90", "T5", TcFormat::kF16) == 0x33800000);
  CHECK(expected("sm_90", "T6", TcFormat::kBf16) == 1);
  CHECK(expected("sm_80", "T6", TcFormat::kBf16) == 1);
  CHECK(expected("sm_90", "T8a", TcFormat::kTf32) == 0x3F800000);
  CHECK(expected("sm_90", "T11a", TcFormat::kBf16) == 0x7F800000);
  CHECK(expected("sm_90", "T11b", TcFormat::kBf16) == 0x7F7FFFFF);
  CHECK(expected("sm_75", "T6", TcFormat::kBf16) == 0xDEAD);  // no bf16 there
}

#ifdef DRIFTC_PACK_BINARY
TEST_CASE("gpu pack: the program needs glibc alone, 2.34 at most, and works") {
  const std::string symbols = output_of("objdump -T '" DRIFTC_PACK_BINARY "'");
  const std::string headers = output_of("objdump -p '" DRIFTC_PACK_BINARY "'");
  if (symbols.empty()) {
    std::printf("[skip] no objdump\n");
    return;
  }
  int seen = 0;
  for (std::size_t at = symbols.find("GLIBC_"); at != std::string::npos;
       at = symbols.find("GLIBC_", at + 1)) {
    int major = 0, minor = 0;
    REQUIRE(std::sscanf(symbols.c_str() + at, "GLIBC_%d.%d", &major, &minor) == 2);
    CHECK((major == 2 && minor <= 34));
    ++seen;
  }
  CHECK(seen > 20);
  const std::set<std::string> allowed = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0",
                                         "ld-linux-x86-64.so.2"};
  for (std::size_t at = headers.find("NEEDED"); at != std::string::npos;
       at = headers.find("NEEDED", at + 1)) {
    char name[64] = {};
    REQUIRE(std::sscanf(headers.c_str() + at, "NEEDED %63s", name) == 1);
    CHECK_MESSAGE(allowed.contains(name), name);
  }
  const Pack pack;
  const Pack::Outcome checked =
      pack.check("", "--only 'digits-resnet.onnx --mode strict'", DRIFTC_PACK_BINARY);
  CHECK(checked.code == 0);
  CHECK(checked.json["checks"][0]["status"] == "ok");  // exceptions are caught
  CHECK(checked.json["checks"].back()["status"] == "ok");
}
#endif
