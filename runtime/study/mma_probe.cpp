#include "runtime/study/mma_probe.h"

#include <fmt/format.h>

#include <bit>

#include "ir/support/half.h"
#include "runtime/ptx/arguments.h"
#include "runtime/ptx/machine.h"
#include "runtime/ptx/parser.h"

namespace driftc::runtime::study {
namespace {

bool words(const MmaInstruction& i) { return i.format == TcFormat::kTf32; }
// m8n8k4: four products of 8 rows. Rows 0 to 7 go to the first and third, the others to the second
// and fourth, whose results have to agree.
bool quad_pairs(const MmaInstruction& i) { return i.format == TcFormat::kF16 && i.k == 4; }
int a_registers(const MmaInstruction& i) {
  if (quad_pairs(i)) return 2;
  return words(i) ? i.k / 2 : i.k / 4;
}
int b_registers(const MmaInstruction& i) {
  if (quad_pairs(i)) return 2;
  return words(i) ? i.k / 4 : i.k / 8;
}
int c_registers(const MmaInstruction& i) {
  const int of_16_rows = i.accumulator == TcAccumulator::kF16 ? 2 : 4;
  return quad_pairs(i) ? 2 * of_16_rows : of_16_rows;
}
const char* name_of(TcFormat format) {
  switch (format) {
    case TcFormat::kF16:
      return "f16";
    case TcFormat::kBf16:
      return "bf16";
    case TcFormat::kTf32:
      return "tf32";
  }
  return "";
}

std::uint32_t encoded(TcFormat format, float v) {
  switch (format) {
    case TcFormat::kF16:
      return f32_to_f16_rne(v);
    case TcFormat::kBf16:
      return f32_to_bf16_rne(v);
    case TcFormat::kTf32:
      break;
  }
  return std::bit_cast<std::uint32_t>(v);
}

// Element i of a thread's fragment (PTX ISA, "Matrix fragments for mma.m16n8k8", "... k16", "...
// mma.m8n8k4 with .f16").
struct At {
  int row, column;
};
At in_quad_pair(int lane, int row, int column) {
  return {row + (lane < 16 ? 0 : 4) + 8 * (lane / 4 % 2), column};
}
At a_element(const MmaInstruction& in, int lane, int i) {
  const int g = lane / 4, t = lane % 4;
  if (quad_pairs(in)) return in_quad_pair(lane, t, i);
  if (words(in)) return {g + 8 * (i & 1), t + 4 * (i >> 1)};
  return {g + 8 * (i >> 1 & 1), 2 * t + (i & 1) + 8 * (i >> 2)};
}
At b_element(const MmaInstruction& in, int lane, int i) {  // row: k
  const int g = lane / 4, t = lane % 4;
  if (quad_pairs(in)) return {i, t + (lane < 16 ? 0 : 4)};
  if (words(in)) return {t + 4 * i, g};
  return {2 * t + (i & 1) + 8 * (i >> 1), g};
}
At c_element(const MmaInstruction& in, int lane, int i) {
  if (!quad_pairs(in)) return {lane / 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)};
  if (in.accumulator == TcAccumulator::kF16) return in_quad_pair(lane, lane % 4, i);
  return in_quad_pair(lane, (lane & 1) + (i & 2), (i & 4) + (lane & 2) + (i & 1));
}

std::string list(const char* prefix, int from, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += fmt::format("{}{}{}", i ? ", " : "", prefix, from + i);
  return "{" + out + "}";
}

}  // namespace

std::string mma_probe_ptx(const MmaInstruction& in) {
  const int a = a_registers(in), b = b_registers(in), c = c_registers(in);
  const char* type = name_of(in.format);
  const char* acc = in.accumulator == TcAccumulator::kF16 ? "f16" : "f32";
  std::string out = fmt::format(R"(.version 9.0
.target {}
.address_size 64
.visible .entry probe(.param .u64 in, .param .u64 out)
{{
  .reg .b32 %r<32>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r28, %tid.x;
  mov.u32 %r29, %ctaid.x;
)",
                                in.target);
  // Registers of a thread are 32 words apart: [problem][register][thread].
  const auto base = [&](const char* address, int registers) {
    out += fmt::format(
        "  mad.lo.s32 %r30, %r29, {}, %r28;\n  mul.wide.u32 %rd3, %r30, 4;\n"
        "  add.s64 {}, {}, %rd3;\n",
        32 * registers, address, address);
  };
  base("%rd1", a + b + c);
  base("%rd2", c);
  for (int i = 0; i < a + b + c; ++i)
    out += fmt::format("  ld.global.u32 %r{}, [%rd1+{}];\n", i, 128 * i);
  out += fmt::format("  mma.sync.aligned.{}k{}.row.col.{}.{}.{}.{} {}, {}, {}, {};\n",
                     quad_pairs(in) ? "m8n8" : "m16n8", in.k, acc, type, type, acc,
                     list("%r", 16, c), list("%r", 0, a), list("%r", a, b), list("%r", a + b, c));
  for (int i = 0; i < c; ++i)
    out += fmt::format("  st.global.u32 [%rd2+{}], %r{};\n", 128 * i, 16 + i);
  return out + "  ret;\n}\n";
}

Result<std::vector<std::vector<float>>> run_mma(const MmaInstruction& in,
                                                std::span<const MmaProblem> problems,
                                                ThreadPool& pool, bool check) {
  DRIFTC_TRY(module, ptx::parse_module(mma_probe_ptx(in), "mma_probe.ptx"));
  DRIFTC_TRY(program, ptx::decode(module, "probe"));
  const int a = a_registers(in), b = b_registers(in), c = c_registers(in);
  const int per_word = words(in) ? 1 : 2, per_c = in.accumulator == TcAccumulator::kF16 ? 2 : 1;
  std::vector<std::uint32_t> input, output(problems.size() * static_cast<std::size_t>(32 * c));
  input.reserve(problems.size() * static_cast<std::size_t>(32 * (a + b + c)));
  for (const MmaProblem& p : problems) {
    const auto put = [&](int registers, int per, auto element) {
      for (int r = 0; r < registers; ++r)
        for (int lane = 0; lane < 32; ++lane) {
          std::uint32_t word = 0;
          for (int e = 0; e < per; ++e) word |= element(lane, per * r + e) << (16 * e);
          input.push_back(word);
        }
    };
    put(a, per_word, [&](int lane, int i) {
      const At at = a_element(in, lane, i);
      return encoded(in.format, p.a[static_cast<std::size_t>(at.row * in.k + at.column)]);
    });
    put(b, per_word, [&](int lane, int i) {
      const At at = b_element(in, lane, i);
      return encoded(in.format, p.b[static_cast<std::size_t>(at.row * 8 + at.column)]);
    });
    put(c, per_c, [&](int lane, int i) {
      const At at = c_element(in, lane, i);
      const float v = p.c[static_cast<std::size_t>(at.row * 8 + at.column)];
      return per_c == 2 ? encoded(TcFormat::kF16, v) : std::bit_cast<std::uint32_t>(v);
    });
  }
  ptx::DeviceMemory memory;
  ptx::ArgumentPacker arguments;
  arguments.add(memory.add_readonly(input.data(), input.size() * 4, "fragments"));
  arguments.add(memory.add(output.data(), output.size() * 4, "results"));
  ptx::LaunchConfig config;
  config.grid[0] = static_cast<std::uint32_t>(problems.size());
  config.block[0] = 32;
  ptx::LaunchOptions options;
  options.check = check;
  if (!problems.empty())
    DRIFTC_CHECK(ptx::launch(*program, config, arguments.bytes(), memory, pool, options));

  std::vector<std::vector<float>> out;
  for (std::size_t n = 0; n < problems.size(); ++n) {
    std::vector<float> d(16 * 8);
    std::vector<bool> there(d.size());
    for (int r = 0; r < c; ++r)
      for (int lane = 0; lane < 32; ++lane) {
        const std::uint32_t word =
            output[(n * static_cast<std::size_t>(c) + static_cast<std::size_t>(r)) * 32 +
                   static_cast<std::size_t>(lane)];
        for (int e = 0; e < per_c; ++e) {
          const At at = c_element(in, lane, per_c * r + e);
          const auto index = static_cast<std::size_t>(at.row * 8 + at.column);
          const float v = per_c == 2 ? f16_to_f32(static_cast<std::uint16_t>(word >> (16 * e)))
                                     : std::bit_cast<float>(word);
          if (there[index] &&
              std::bit_cast<std::uint32_t>(v) != std::bit_cast<std::uint32_t>(d[index]))
            return internal_error("two pairs of quads made different results of the same operands");
          there[index] = true;
          d[index] = v;
        }
      }
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace driftc::runtime::study
