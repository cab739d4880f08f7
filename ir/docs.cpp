#include "ir/docs.h"

#include <fmt/format.h>

#include "ir/op.h"
#include "ir/support/rng.h"
#include "ir/text.h"

namespace driftc::ir {
namespace {

std::string attribute_text(const AttributeSpec& spec) {
  static constexpr const char* kTypes[] = {"int", "float", "ints", "word"};
  std::string out = fmt::format("{}: {}", spec.name, kTypes[static_cast<std::size_t>(spec.type)]);
  if (!spec.fallback) return out + ", required";
  out += " = ";
  if (const auto* i = std::get_if<std::int64_t>(&*spec.fallback)) return out + std::to_string(*i);
  if (const auto* d = std::get_if<double>(&*spec.fallback)) return out + fmt::format("{}", *d);
  if (const auto* w = std::get_if<std::string>(&*spec.fallback)) return out + *w;
  std::string list;
  for (std::int64_t v : std::get<std::vector<std::int64_t>>(*spec.fallback))
    list += (list.empty() ? "" : ",") + std::to_string(v);
  return out + "[" + list + "]";
}

std::string vectors(Distribution distribution, std::string_view name) {
  std::vector<float> values(4);
  fill(distribution, 1, "x", values);
  std::string out = fmt::format("| {} |", name);
  for (float v : values) out += " " + hex_float(v) + " |";
  return out + "\n";
}

}  // namespace

std::string render_ir_docs() {
  std::string out =
      R"(<!-- Generated from ir/ops.def by ir/docs.cpp; `DRIFTC_BLESS=1 ./dev test -tc="docs*"` rewrites it. -->
# The IR

A graph is a list of nodes in topological order. Each node is one operator with operands, attributes and one
typed result. Shapes are logical (NCHW activations, OIHW weights); `@nhwc` on a type says how a value is stored,
never what an index means.

```
gir 1
graph @net(%x: f32[1,64,56,56]) {
  %w = constant f32[64,64,3,3] random(seed=1, he)
  %c = conv2d %x, %w {pad=[1,1,1,1]} : f32[1,64,56,56]
  %s = add %c, %x : f32[1,64,56,56]
  %r = relu %s : f32[1,64,56,56]
  return %r
}
```

- Names outside `[A-Za-z0-9_.]` are quoted: `%"gpu_0/data_0"`, with the escapes `\" \\ \n \xHH`.
- Floats print as hex so that no bit is lost; decimal input is rounded once. `parse(print(g)) == g`.
- The value of a constant: `{1, 0x1p-3, inf, nan(0x7fc00001)}`, `splat(0x1p0)`, `random(seed=1, he)` or
  `file("net.onnx", offset=1234, xxh3=0x...)`.
- Attributes equal to their default are not printed. A type after `:` may be left out; it is then inferred.
- `from=[%a, %b]` lists the source nodes whose work a node does, when that is not just itself.
- `loc("net.onnx", "Conv_0")` tells where a node came from.

After the passes every computation is a `kernel`: a region of nodes, an algorithm, a schedule and a contract.

```
  %r : f32[1,64,56,56]@nhwc = kernel implicit_gemm(%x, %w) from=[%c, %s, %r]
      schedule={block=[64,64,18], thread=[4,4], vector=1}
      contract={order=rsc.fma, in=f32, acc=f32, inner=f32, contract=off, ftz=off, fold=none} {
    %c = conv2d %x, %w {pad=[1,1,1,1]} : f32[1,64,56,56]@nhwc
    %s = add %c, %x : f32[1,64,56,56]@nhwc
    %r = relu %s : f32[1,64,56,56]@nhwc
    yield %r
  }
```

## Reduction orders

```
ORDER := WALK [.kpadN] [.skip] [.splitS[p|a]] [.lanesL] [.accA] [.tileN] . ARITH [BIAS]
WALK  := k | hw | crs | rsc | cNrs
ARITH := fma | muladd | add | kahan | f64 | mma(ARCH,DTYPE,SHAPE[,rna|,trunc])
BIAS  := +bias.first | +bias.last | +bias.stored
```

An order denotes one binary tree over the positions of a sum, outermost part first: walk the positions (`crs`:
channel slowest; `rsc`: channel fastest; `cNrs`: channel tiles of N outermost), pad or skip, cut into `split`
slices, deal each slice to `lanes`, each lane to `acc` accumulators, each of those in `tile`s, and sum every chain
from +0 with ARITH. Lanes combine by xor L/2..1, accumulators in adjacent pairs, slices left to right (`p`:
adjacent pairs; `a`: atomics from +0). Padding positions read +0 and are multiplied unless `.skip` removes them.
A contract with `transform=winograd2:f32` (or `winograd4`, or filters in `f64`) is not that sum but Winograd's F(2,3):
its order then describes the sums over channels between the transforms ([numerics.md](numerics.md#winograd)).
`driftc show MODEL --stage tree --at NODE` prints the tree of one element, or what Winograd makes of it.

## Operators

Evaluation lists the roundings: every named operation is one IEEE rounding to nearest, ties to even; `sum` is
the op's reduction under its order; `store` rounds to the result's type.

)";
  for (const OpInfo& row : all_ops()) {
    if (row.op == Op::kKernel) continue;
    out += fmt::format("### {}\n{}.\n\n", row.name, row.doc);
    std::string operands = std::to_string(row.min_operands);
    if (row.max_operands < 0) operands += " or more";
    if (row.max_operands > row.min_operands) operands += " to " + std::to_string(row.max_operands);
    out += "- operands: " + operands + "\n";
    std::string attributes;
    for (const AttributeSpec& spec : row.attributes)
      attributes += (attributes.empty() ? "`" : ", `") + attribute_text(spec) + "`";
    if (!attributes.empty()) out += "- attributes: " + attributes + "\n";
    if (row.default_order)
      out += "- order: eager's default `" + to_string(*row.default_order) + "`\n";
    out += fmt::format("- evaluation: {}\n\n", row.evaluation);
  }
  out += R"(## Generated inputs and weights

Element i of the tensor called NAME under SEED depends on these three only:
`key = XXH3_64(NAME, seed SEED)`, `u(n) = XXH3_64(n as 8 little-endian bytes, seed key) >> 40`, a 24-bit integer.

- `uniform` = u(i) * 2^-24
- `random` = (u(12 i) + ... + u(12 i + 11) - 6 * 2^24) * 2^-24, one rounding (Irwin-Hall: mean 0, variance 1)
- `relu` = max(random, 0); `integers` = (u(i) * 17 >> 24) - 8; `ones` = 1
- weights `he` = mul_rn((2 u(i) - 2^24) * 2^-24, sqrt_rn(div_rn(6, fan_in))), fan_in = product of the extents after
  the first

Test vectors, seed 1, name "x":

| generator | 0 | 1 | 2 | 3 |
|---|---|---|---|---|
)";
  out += vectors(Distribution::kUniform, "uniform");
  out += vectors(Distribution::kRandom, "random");
  out += vectors(Distribution::kRelu, "relu");
  out += vectors(Distribution::kIntegers, "integers");
  return out;
}

}  // namespace driftc::ir
