#include "runtime/cuda/mma_vectors.h"

#include <fmt/format.h>

#include <bit>

#include "ir/support/half.h"

namespace driftc::runtime::cuda {
namespace {

constexpr int kLanes = 32;

// Registers of 32 bits a lane.
struct Fragments {
  int a = 0, b = 0, c = 0;
  int all() const { return a + b + c; }
};

Fragments fragments(TcFormat format, TcAccumulator accumulator, int k) {
  const int c = accumulator == TcAccumulator::kF32 ? 4 : 2;
  if (format == TcFormat::kTf32) return k == 4 ? Fragments{2, 1, c} : Fragments{4, 2, c};
  return k == 8 ? Fragments{2, 1, c} : Fragments{4, 2, c};
}

bool exists(TcFormat format, TcAccumulator accumulator, int k, int capability) {
  if (format == TcFormat::kTf32)
    return capability >= 80 && (k == 4 || k == 8) && accumulator == TcAccumulator::kF32;
  if (format == TcFormat::kBf16 && (capability < 80 || accumulator == TcAccumulator::kF16))
    return false;
  return k == 8 ? capability >= 75 : k == 16 && capability >= 80;
}

std::uint32_t half_bits(TcFormat format, float value) {
  return format == TcFormat::kF16 ? f32_to_f16_rne(value) : f32_to_bf16_rne(value);
}

std::string registers(char kind, int first, int count) {
  std::string out = "{";
  for (int i = 0; i < count; ++i)
    out += fmt::format("{}%{}{}", i == 0 ? "" : ", ", kind, first + i);
  return out + "}";
}

// Where a[0..k) of row 0 and b[0..k) of column 0 lie: lane and register, low half first
// (numerics.md 2.5; PTX ISA, warp-level mma fragments). The rest of the matrices is zero.
void fill(const TcVectors& group, const TcVector& v, std::uint32_t* words) {
  const Fragments f = fragments(group.format, group.accumulator, group.k);
  auto word = [&](int lane, int index) -> std::uint32_t& { return words[lane * f.all() + index]; };
  for (int k = 0; k < group.k; ++k) {
    const float a = v.a[static_cast<std::size_t>(k)], b = v.b[static_cast<std::size_t>(k)];
    if (group.format == TcFormat::kTf32) {
      const int lane = k % 4, high = k / 4;
      word(lane, 2 * high) = std::bit_cast<std::uint32_t>(a);
      word(lane, f.a + high) = std::bit_cast<std::uint32_t>(b);
    } else {
      const int lane = k % 8 / 2, high = k / 8, shift = 16 * (k % 2);
      word(lane, 2 * high) |= half_bits(group.format, a) << shift;
      word(lane, f.a + high) |= half_bits(group.format, b) << shift;
    }
  }
  word(0, f.a + f.b) = group.accumulator == TcAccumulator::kF32 ? std::bit_cast<std::uint32_t>(v.c)
                                                                : f32_to_f16_rne(v.c);
}

}  // namespace

std::string mma_ptx(TcFormat format, TcAccumulator accumulator, int k, int capability) {
  if (!exists(format, accumulator, k, capability)) return "";
  const Fragments f = fragments(format, accumulator, k);
  const char* type = format == TcFormat::kF16 ? "f16" : format == TcFormat::kBf16 ? "bf16" : "tf32";
  const bool wide = accumulator == TcAccumulator::kF32;
  const char* acc = wide ? "f32" : "f16";
  std::string body;
  for (int i = 0; i < f.all(); ++i) {
    const bool as_float = wide && i >= f.a + f.b;
    body += fmt::format("\tld.global.{} \t%{}{}, [%rd5+{}];\n", as_float ? "f32" : "b32",
                        as_float ? 'f' : 'r', 10 + i, 4 * i);
  }
  const char kind = wide ? 'f' : 'r';
  body += fmt::format("\tmma.sync.aligned.m16n8k{}.row.col.{}.{}.{}.{} \t{}, {}, {}, {};\n", k, acc,
                      type, type, acc, registers(kind, 30, f.c), registers('r', 10, f.a),
                      registers('r', 10 + f.a, f.b), registers(kind, 10 + f.a + f.b, f.c));
  for (int i = 0; i < f.c; ++i)
    body += fmt::format("\tst.global.{} \t[%rd8+{}], %{}{};\n", wide ? "f32" : "b32", 4 * i, kind,
                        30 + i);
  // The GPU's own target where PTX has had it long enough: it also tells the PTX executor whose
  // tensor cores to model.
  struct Target {
    int capability;
    const char *version, *name;
  };
  constexpr Target kTargets[] = {
      {100, "8.6", "sm_100"}, {90, "7.8", "sm_90"}, {89, "7.8", "sm_89"}, {80, "7.0", "sm_80"}};
  Target target{75, "6.5", "sm_75"};
  for (const Target& t : kTargets)
    if (capability >= t.capability && target.capability == 75) target = t;
  return fmt::format(R"(.version {}
.target {}
.address_size 64

.visible .entry mma_vectors(
	.param .u64 mma_vectors_param_0,
	.param .u64 mma_vectors_param_1
)
{{
	.reg .b32 	%r<40>;
	.reg .f32 	%f<40>;
	.reg .b64 	%rd<9>;

	ld.param.u64 	%rd1, [mma_vectors_param_0];
	ld.param.u64 	%rd2, [mma_vectors_param_1];
	mov.u32 	%r1, %ctaid.x;
	mov.u32 	%r2, %ntid.x;
	mov.u32 	%r3, %tid.x;
	mad.lo.s32 	%r4, %r1, %r2, %r3;
	cvta.to.global.u64 	%rd3, %rd1;
	mul.wide.s32 	%rd4, %r4, {};
	add.s64 	%rd5, %rd3, %rd4;
	cvta.to.global.u64 	%rd6, %rd2;
	mul.wide.s32 	%rd7, %r4, {};
	add.s64 	%rd8, %rd6, %rd7;
{}	ret;
}}
)",
                     target.version, target.name, 4 * f.all(), 4 * f.c, body);
}

Result<std::vector<std::uint32_t>> run_vectors(Gpu& gpu, const TcVectors& group) {
  const int capability = gpu.facts().compute_major * 10 + gpu.facts().compute_minor;
  const std::string during = fmt::format("mma of {}", group.source);
  codegen::CompiledPtx ptx;
  ptx.ptx = mma_ptx(group.format, group.accumulator, group.k, capability);
  ptx.compiler = "driftc";
  if (ptx.ptx.empty())
    return unavailable(
        fmt::format("{}: no such instruction for k = {} on {}", during, group.k, gpu.facts().name));
  const Fragments f = fragments(group.format, group.accumulator, group.k);
  const auto in_lane = static_cast<std::size_t>(f.all()), out_lane = static_cast<std::size_t>(f.c);
  std::vector<std::uint32_t> in(group.vectors.size() * kLanes * in_lane);
  std::vector<std::uint32_t> out(group.vectors.size() * kLanes * out_lane);
  for (std::size_t i = 0; i < group.vectors.size(); ++i)
    fill(group, group.vectors[i], in.data() + i * kLanes * in_lane);
  DRIFTC_CHECK(gpu.use());
  DRIFTC_TRY(function, gpu.function(ptx, "mma_vectors", during));
  DRIFTC_TRY(from, gpu.allocate(4 * in.size(), during));
  DRIFTC_TRY(to, gpu.allocate(4 * out.size(), during));
  DRIFTC_CHECK(gpu.upload(from.address(), in.data(), 4 * in.size(), during));
  DevicePointer pointers[2] = {from.address(), to.address()};
  void* parameters[2] = {&pointers[0], &pointers[1]};
  DRIFTC_CHECK(gpu.launch(function, {static_cast<std::uint32_t>(group.vectors.size()), 1, 1},
                          {kLanes, 1, 1}, 0, parameters, during));
  DRIFTC_CHECK(gpu.download(out.data(), to.address(), 4 * out.size(), during));
  std::vector<std::uint32_t> results;
  for (std::size_t i = 0; i < group.vectors.size(); ++i) {
    const std::uint32_t word = out[i * kLanes * out_lane];  // lane 0, register 0: row 0, column 0
    results.push_back(
        group.accumulator == TcAccumulator::kF32
            ? word
            : std::bit_cast<std::uint32_t>(f16_to_f32(static_cast<std::uint16_t>(word & 0xFFFF))));
  }
  return results;
}

}  // namespace driftc::runtime::cuda
