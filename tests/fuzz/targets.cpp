#include "tests/fuzz/targets.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/fuzz/devices_fuzz.h"
#include "tests/fuzz/gir_fuzz.h"
#include "tests/fuzz/npy_fuzz.h"
#include "tests/fuzz/onnx_fuzz.h"
#include "tests/fuzz/order_fuzz.h"
#include "tests/fuzz/passes_fuzz.h"
#include "tests/fuzz/ptx_fuzz.h"
#include "tests/fuzz/tuning_fuzz.h"

namespace driftc::fuzz {
namespace {

bool onnx_accepts(std::string_view b) { return frontend::onnx::import_onnx_bytes(b, "seed").ok(); }
bool gir_accepts(std::string_view b) { return ir::parse_graph(b, "seed").ok(); }
bool npy_accepts(std::string_view b) { return frontend::npy::parse_npy(b, "seed").ok(); }
bool ptx_accepts(std::string_view b) { return runtime::ptx::parse_module(b, "seed").ok(); }
bool order_accepts(std::string_view b) { return ir::parse_order_list(b).ok(); }
bool passes_accepts(std::string_view b) { return selected(b).ok(); }

bool tuning_accepts(std::string_view b) { return frontend::parse_tuning(b, "seed").ok(); }
bool devices_accepts(std::string_view b) { return runtime::device_list(b).ok(); }

}  // namespace

std::span<const Target> targets() {
  static const std::vector<Target> kTargets = {
      {"onnx", onnx_file, onnx_accepts, {}},
      {"gir",
       gir_file,
       gir_accepts,
       {"%x",
        "%y",
        " = ",
        "f32[",
        "]",
        "[-1]",
        "[9223372036854775807]",
        "[1099511627776]",
        "@nhwc",
        "{",
        "}",
        "kernel ",
        "yield %x",
        "return %x",
        "conv2d ",
        "add ",
        "relu ",
        "constant f32[2] ",
        "splat(",
        "0x1p0",
        "nan(0x7fc00001)",
        "-inf",
        "random(seed=1, he)",
        "file(\"x\", offset=0, xxh3=0x0)",
        "contract={",
        "order=rsc.fma",
        "schedule={",
        "pad=[1,1,1,1]",
        "groups=0",
        "axis=-1",
        "loc(\"a\", \"b\")",
        "from=[%x]",
        "%\"q\\\"\"",
        "//",
        "\n",
        "\"",
        "99999999999999999999",
        "gir 1\n",
        "graph @g("}},
      {"npy",
       npy_file,
       npy_accepts,
       {"'<f4'", "'>f8'", "'|O'", "(2, 3)", "(-1,)", "True", "{", "}", "\x93NUMPY"}},
      {"ptx",
       ptx_file,
       ptx_accepts,
       {"%r1",
        "%rd1",
        "%p1",
        "%f1",
        "$L1",
        "$L2",
        "ret;",
        "bra $L1;",
        ".reg",
        "{",
        "}",
        ";",
        ",",
        "[",
        "]",
        "0x7fffffffffffffff",
        "-1",
        "99999999999999999999",
        "0f7F800000",
        ".v4",
        ".shared",
        "bar.sync 0;",
        "@%p1",
        "@!%p2",
        "%r<4294967295>",
        "[268435456]",
        "fma.rn.f32 %f1, %f2, %f3, %f4;",
        "\"",
        "/*",
        "//",
        "::",
        "$X:",
        "mov.u32 %r1, %r2;"}},
      {"order",
       order_text,
       order_accepts,
       {"crs",
        "rsc",
        "c16rs",
        "k",
        "hw",
        ".kpad8",
        ".skip",
        ".split4",
        ".split4p",
        ".split2a",
        ".lanes8",
        ".acc4",
        ".tile16",
        ".fma",
        ".muladd",
        ".add",
        ".kahan",
        ".f64",
        ".mma(sm_90,tf32,m16n8k8,rna)",
        "+bias.first",
        "+bias.last",
        "+bias.stored",
        ",",
        "0",
        "-1",
        "4294967296"}},
      {"passes",
       pass_list,
       passes_accepts,
       {"none",
        "all",
        "+",
        "-",
        ",",
        "\n",
        "default",
        "strict",
        "eager",
        "fuse-epilogue",
        "split-k",
        "contract",
        "choose-tiling.accumulate=kahan",
        "split-k.slices=",
        "=",
        ".",
        "#2",
        "on",
        "off",
        "4294967296"}},
      {"devices",
       device_names,
       devices_accepts,
       {"h200", "h100", "A100", "t4", "v100", "b200", "rtx4090", "sm_", "-sxm", ",", " ",
        "hopper"}},
      {"tuning",
       tuning_file,
       tuning_accepts,
       {"\"schema\"",
        "\"driftc.tuning/1\"",
        "\"key_version\"",
        "\"device\"",
        "\"kernels\"",
        "\"problem\"",
        "\"time\"",
        "\"measured\"",
        "\"candidates\"",
        "\"algorithm\"",
        "\"winograd4\"",
        "\"matmul\"",
        "\"block\"",
        "\"split\"",
        "\"atomic\"",
        "\"f64\"",
        "\"inf\"",
        "null",
        "true",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "-1",
        "1e999",
        "0.5",
        "4096",
        "18446744073709551615",
        "\\u0000",
        "\\ud800"}}};
  return kTargets;
}

std::vector<CorpusFile> corpus(const Target& target) {
  std::vector<CorpusFile> files;
  const std::filesystem::path folder =
      std::filesystem::path(DRIFTC_SOURCE_DIR) / "tests/fuzz/corpus" / target.name;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    files.push_back({entry.path().string(), std::string(std::istreambuf_iterator<char>(in), {})});
  }
  std::ranges::sort(files, {}, &CorpusFile::path);
  return files;
}

}  // namespace driftc::fuzz
