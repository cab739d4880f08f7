#include "runtime/study/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "ir/builder.h"
#include "ir/kernel.h"
#include "ir/parser.h"
#include "ir/support/rng.h"
#include "passes/rewrite.h"
#include "runtime/numeric/hypothesis.h"

namespace driftc::runtime::study {
namespace {

using codegen::Argument;
using codegen::LoweredKernel;

// --- Editing CUDA text -----------------------------------------------------------------------

using TextEdit = std::function<bool(std::string& source)>;

TextEdit replaced(std::string from, std::string to) {
  return [=](std::string& source) {
    const std::size_t at = source.find(from);
    if (at == std::string::npos) return false;
    source.replace(at, from.size(), to);
    return true;
  };
}
TextEdit both(TextEdit a, TextEdit b) {
  return [=](std::string& source) {
    std::string copy = source;
    if (!a(copy) || !b(copy)) return false;
    source = std::move(copy);
    return true;
  };
}
TextEdit either(TextEdit a, TextEdit b) {
  return [=](std::string& source) { return a(source) || b(source); };
}
// Rewrites the initialiser of the variable called `name`: "const float NAME = OLD;" becomes
// edit(OLD).
TextEdit initialiser(std::string name, std::function<std::string(const std::string& old)> edit) {
  return [=](std::string& source) {
    const std::string head = "const float " + name + " = ";
    const std::size_t at = source.find(head);
    if (at == std::string::npos) return false;
    const std::size_t begin = at + head.size(), end = source.find(';', begin);
    const std::string made = edit(source.substr(begin, end - begin));
    if (made.empty()) return false;
    source.replace(begin, end - begin, made);
    return true;
  };
}
// The rectifier "x < 0.0f ? 0.0f : x"; `edit` gets x.
TextEdit rectifier(std::function<std::string(const std::string& x)> edit) {
  return [=](std::string& source) {
    const std::string middle = " < 0.0f ? 0.0f : ";
    const std::size_t at = source.find(middle);
    if (at == std::string::npos) return false;
    const std::size_t begin = source.rfind(' ', at - 1) + 1;
    const std::string x = source.substr(begin, at - begin);
    source.replace(begin, at - begin + middle.size() + x.size(), edit(x));
    return true;
  };
}
// The store "out[at] = VALUE;"
TextEdit store(std::function<std::string(const std::string& value)> edit) {
  return [=](std::string& source) {
    const std::string head = "out[at] = ";
    const std::size_t at = source.find(head);
    if (at == std::string::npos) return false;
    const std::size_t begin = at + head.size(), end = source.find(';', begin);
    const std::string old = source.substr(begin, end - begin), made = edit(old);
    if (made == old) return false;
    source.replace(begin, end - begin, made);
    return true;
  };
}

FaultKind text(std::string name, TextEdit edit) {
  FaultKind kind;
  kind.name = std::move(name);
  kind.level = "CUDA text";
  kind.plant = [edit](std::shared_ptr<bool> done) {
    Faults faults;
    faults.lowered = [edit, done](const ir::Node&, LoweredKernel& kernel) {
      for (codegen::Launch& launch : kernel.launches)
        if (!*done) *done = edit(launch.source);
    };
    return faults;
  };
  return kind;
}

// --- Other levels ----------------------------------------------------------------------------

FaultKind lowering(std::string name, std::string level,
                   std::function<bool(const ir::Node&, LoweredKernel&)> edit) {
  FaultKind kind;
  kind.name = std::move(name);
  kind.level = std::move(level);
  kind.plant = [edit](std::shared_ptr<bool> done) {
    Faults faults;
    faults.lowered = [edit, done](const ir::Node& node, LoweredKernel& kernel) {
      if (!*done) *done = edit(node, kernel);
    };
    return faults;
  };
  return kind;
}
// Sets integer arguments of that name where they have another value.
std::function<bool(const ir::Node&, LoweredKernel&)> arguments(std::vector<std::string> names,
                                                               std::int64_t value) {
  return [=](const ir::Node&, LoweredKernel& kernel) {
    bool changed = false;
    for (codegen::Launch& launch : kernel.launches)
      for (Argument& argument : launch.arguments)
        if (std::find(names.begin(), names.end(), argument.name) != names.end() &&
            argument.integer != value) {
          argument.integer = value;
          changed = true;
        }
    return changed;
  };
}

FaultKind graph_fault(std::string name, std::string level, std::function<void(ir::Graph&)> edit) {
  FaultKind kind;
  kind.name = std::move(name);
  kind.level = std::move(level);
  kind.plant = [edit](std::shared_ptr<bool> done) {
    Faults faults;
    faults.graph = [edit, done](ir::Graph& graph) {
      edit(graph);
      *done = true;
    };
    return faults;
  };
  return kind;
}

// Edits the first kernel whose body `edit` can change.
void edit_body(ir::Graph& graph, const std::function<bool(ir::Graph& body)>& edit) {
  bool done = false;
  graph = passes::edit_kernels(graph, [&](const ir::Node&, ir::Kernel& kernel) {
    if (done) return false;
    done = edit(kernel.body);
    return done;
  });
}

// relu(a + b) -> relu(a) + b, and the like: each node of `body` is copied or replaced by `make`.
bool rebuild(ir::Graph& body, const std::function<bool(ir::Rewriter&, ir::NodeId)>& make) {
  ir::Rewriter rewriter(body);
  bool changed = false;
  for (std::uint32_t i = 0; i < body.node_count(); ++i) {
    if (!changed && make(rewriter, {i})) {
      changed = true;
    } else {
      rewriter.copy({i});
    }
  }
  if (!changed) return false;
  body = rewriter.finish();
  return true;
}

bool relu_before_add(ir::Graph& body) {
  return rebuild(body, [&](ir::Rewriter& rewriter, ir::NodeId id) {
    const ir::Node& relu = body.node(id);
    if (relu.op != ir::Op::kRelu) return false;
    const ir::Node* add = body.producer(relu.operands[0]);
    if (add == nullptr || add->op != ir::Op::kAdd) return false;
    const ir::TensorType type = body.value(relu.result).type;
    ir::Node first = relu;
    first.operands = {rewriter.mapped(add->operands[0])};
    const std::string name = passes::fresh_in_both("moved", body, rewriter.graph());
    const ir::NodeId moved =
        rewriter.graph().add_node(first, name, body.value(add->operands[0]).type);
    ir::Node sum = *add;
    sum.operands = {rewriter.graph().node(moved).result, rewriter.mapped(add->operands[1])};
    const ir::NodeId made = rewriter.graph().add_node(sum, body.value(relu.result).name, type);
    rewriter.replace(relu.result, rewriter.graph().node(made).result);
    return true;
  });
}

bool pad_moved(ir::Graph& body) {
  for (std::uint32_t i = 0; i < body.node_count(); ++i) {
    ir::Node& node = body.mutable_node({i});
    if (node.op != ir::Op::kConv2d || node.ints("pad") != std::vector<std::int64_t>{1, 1, 1, 1})
      continue;
    node.set("pad", std::vector<std::int64_t>{2, 1, 0, 1});
    return true;
  }
  return false;
}

// Changes one element of the first constant of rank 4 (a weight).
void edit_weight(ir::Graph& graph, const std::function<float(float)>& edit) {
  for (std::uint32_t i = 0; i < graph.node_count(); ++i) {
    ir::Node& node = graph.mutable_node({i});
    if (node.op != ir::Op::kConstant || node.literal->type().shape.rank() != 4) continue;
    const ir::Tensor& old = node.literal->tensor();
    ir::Tensor made = ir::Tensor::of<float>(old.shape(), old.data<float>());
    auto data = made.data_mut<float>();
    data[data.size() / 2] = edit(data[data.size() / 2]);
    node.literal = std::make_shared<ir::Literal>(ir::Literal::dense(made));
    return;
  }
}

// Kernels with mma.sync, and what they store in 16 bits.
void add_tensor_core_faults(std::vector<FaultKind>& k) {
  k.push_back(
      text("fragment of the wrong lanes",
           replaced("[word + thread_of_warp / 16 * 4]", "[word + (1 - thread_of_warp / 16) * 4]")));
  k.push_back(
      text("column fragment read twice", replaced("f[j / 4][j % 4 + 1]);", "f[j / 4][j % 4]);")));
  k.push_back(text("accumulators of two columns exchanged",
                   replaced("multiply_block(acc[i][j].value, acc[i][j + 1].value,",
                            "multiply_block(acc[i][j + 1].value, acc[i][j].value,")));
  k.push_back(text("a block of k dropped", replaced("for (int word = 0; word < ",
                                                    "for (int word = k0 == 0 ? 8 : 0; word < ")));
  k.push_back(text("a block of k summed twice",
                   replaced("for (int word = 0; word < ",
                            "for (int twice = k0 == 0 ? 0 : 1; twice < 2; ++twice)\n"
                            "    for (int word = 0; word < ")));
  k.push_back(text("operands rounded otherwise",
                   either(replaced("cvt.rna.tf32.f32 %0, %1;", "and.b32 %0, %1, 0xFFFFE000;"),
                          either(replaced("{ return __float_as_uint(x); }",
                                          "{ return __float_as_uint(x) + 0x1000u; }"),
                                 either(replaced("cvt.rn.f16.f32", "cvt.rz.f16.f32"),
                                        replaced("cvt.rn.bf16.f32", "cvt.rz.bf16.f32"))))));
  k.push_back(text("operands rounded to bf16 before tf32",
                   replaced("\"f\"(x));\n  return word;",
                            "\"f\"(x));\n  return (word + 0x8000u) & 0xFFFF0000u;")));
  k.push_back(text("16-bit result not rounded", store([](const std::string& value) {
                     const bool rounds =
                         value.starts_with("to_f16(") || value.starts_with("to_bf16(");
                     return rounds ? value.substr(value.find('(')) : value;
                   })));
  k.push_back(text("16-bit result rounded toward zero", store([](const std::string& value) {
                     const bool f16 = value.starts_with("to_f16(");
                     if (!f16 && !value.starts_with("to_bf16(")) return value;
                     return "__uint_as_float(__float_as_uint" + value.substr(value.find('(')) +
                            (f16 ? " & 0xFFFFE000u)" : " & 0xFFFF0000u)");
                   })));
  k.push_back(text("sum rounded to 16 bits before the bias", [](std::string& source) {
    for (const std::string type : {"to_f16", "to_bf16"})
      if (source.find("float " + type + "(float x)") != std::string::npos)
        return initialiser("sum",
                           [&](const std::string& old) { return type + "(" + old + ")"; })(source);
    return false;
  }));
}

// Transforms: a row, a coefficient, a place, a tile.
void add_winograd_faults(std::vector<FaultKind>& k) {
  // Within the function `name`: the assignment to `row`.
  const auto transform_row = [](std::string name, int row, std::string value) -> TextEdit {
    return [=](std::string& source) {
      const std::size_t function = source.find(" " + name + "(");
      if (function == std::string::npos) return false;
      const std::string head = fmt::format("out[{} * out_step] = ", row);
      const std::size_t at = source.find(head, function);
      if (at == std::string::npos) return false;
      const std::size_t begin = at + head.size(), end = source.find(';', begin);
      source.replace(begin, end - begin, value);
      return true;
    };
  };
  k.push_back(
      text("a row of the data transform missing", transform_row("transform_data", 1, "0.0f")));
  k.push_back(
      text("a row of the output transform not summed", transform_row("transform_sums", 0, "v0")));
  k.push_back(text("a sign of the filter transform lost",
                   transform_row("transform_filter", 2, "out[1 * out_step]")));
  k.push_back(text("a transform coefficient of one ulp less",
                   either(replaced("0x1.555556p-3f", "0x1.555554p-3f"),
                          replaced("__fmul_rn(0.5f", "__fmul_rn(0x1.fffffep-2f"))));
  k.push_back(text("a place of the transformed tile dropped",
                   replaced("place[xi] = sums[xi * elements + i];",
                            "place[xi] = xi == 5 ? 0.0f : sums[xi * elements + i];")));
  k.push_back(text("tiles overlap by a pixel less",
                   replaced("const index_t y0 = out_y - pad_h, x0",
                            "const index_t y0 = out_y - pad_h + (out_y > 0), x0")));
  k.push_back(text("last column of tiles not written",
                   replaced("y < out_h && x < out_w", "y < out_h && x < out_w - 1")));
}

// Slices added as they end.
void add_atomic_faults(std::vector<FaultKind>& k) {
  k.push_back(text("an atomic update lost", replaced("atomicAdd(&part[at], acc[i][j].value)",
                                                     "part[at] = acc[i][j].value")));
  k.push_back(text("a slice added twice",
                   replaced("atomicAdd(&part[at], acc[i][j].value)",
                            "atomicAdd(&part[at], blockIdx.z == 1 ? 2.0f * acc[i][j].value : "
                            "acc[i][j].value)")));
  FaultKind dirty = lowering("sums start from what memory held", "memory plan",
                             [](const ir::Node&, LoweredKernel& kernel) {
                               for (codegen::Workspace& w : kernel.workspaces)
                                 if (w.zeroed) {
                                   w.zeroed = false;
                                   return true;
                                 }
                               return false;
                             });
  dirty.sanitizer = true;
  k.push_back(dirty);
  k.push_back(
      lowering("a slice short", "launch arguments", [](const ir::Node&, LoweredKernel& kernel) {
        for (codegen::Launch& launch : kernel.launches)
          for (Argument& argument : launch.arguments)
            if (argument.name == "slice_length" && argument.integer > 1) {
              --argument.integer;
              return true;
            }
        return false;
      }));
}

std::vector<FaultKind> make_kinds() {
  std::vector<FaultKind> k;
  // Rewritten graph.
  k.push_back(graph_fault("relu moved over the add", "rewritten graph",
                          [](ir::Graph& g) { edit_body(g, relu_before_add); }));
  k.push_back(graph_fault("padding moved from bottom to top", "rewritten graph",
                          [](ir::Graph& g) { edit_body(g, pad_moved); }));
  // Contract declaration: what runs is right, what is said about it is not.
  FaultKind declared;
  declared.name = "another order declared than emitted";
  declared.level = "contract declaration";
  declared.declaration = true;
  declared.plant = [](std::shared_ptr<bool> done) {
    Faults faults;
    faults.declaration = [done](ir::Graph& graph) {
      *done = true;
      graph = passes::edit_kernels(graph, [](const ir::Node&, ir::Kernel& kernel) {
        if (!kernel.contract.order) return false;
        kernel.contract.order->split = kernel.contract.order->split == 3 ? 7 : 3;
        return true;
      });
    };
    return faults;
  };
  k.push_back(declared);
  // Constant preparation.
  k.push_back(graph_fault("one weight stored in bf16", "constant preparation", [](ir::Graph& g) {
    edit_weight(g, [](float w) { return rounded(w, Hypothesis::kBf16); });
  }));
  k.push_back(graph_fault("one weight left at zero", "constant preparation",
                          [](ir::Graph& g) { edit_weight(g, [](float) { return 0.0f; }); }));
  k.push_back(lowering("weights packed in another walk", "constant preparation",
                       [](const ir::Node&, LoweredKernel& kernel) {
                         for (codegen::Preparation& p : kernel.preparations)
                           if (p.kind == codegen::Preparation::Kind::kWalkMajor) {
                             p.walk = p.walk == ir::Walk::kCrs ? ir::Walk::kRsc : ir::Walk::kCrs;
                             return true;
                           }
                         return false;
                       }));
  // Lowering and launch arguments.
  k.push_back(lowering("one block too few", "lowering", [](const ir::Node&, LoweredKernel& kernel) {
    auto& grid = kernel.launches.front().grid;
    if (grid[0] < 2) return false;
    --grid[0];
    return true;
  }));
  k.push_back(
      lowering("stride ignored", "launch arguments", arguments({"stride_h", "stride_w"}, 1)));
  k.push_back(lowering("padding ignored", "launch arguments", arguments({"pad_h", "pad_w"}, 0)));
  k.push_back(
      lowering("batch stride of another layout", "launch arguments", arguments({"xs_n"}, 0)));
  // Memory plan.
  FaultKind recycled;
  recycled.name = "the addend's buffer was recycled";
  recycled.level = "memory plan";
  recycled.plant = [](std::shared_ptr<bool> done) {
    Faults faults;
    faults.operands = [done](const ir::Node&, std::vector<DeviceTensor>& operands) {
      *done = true;
      for (std::size_t i = operands.size(); i-- > 1;)
        if (operands[i].type().shape == operands[0].type().shape &&
            operands[i].data() != operands[0].data()) {
          operands[i] = operands[0];
          return;
        }
    };
    return faults;
  };
  k.push_back(recycled);
  // CUDA text.
  k.push_back(text("last k dropped",
                   either(replaced("index_t end = positions;", "index_t end = positions - 1;"),
                          either(replaced("index_t end = channels;", "index_t end = channels - 1;"),
                                 replaced("? begin + slice_length : positions;",
                                          "? begin + slice_length : positions - 1;")))));
  k.push_back(
      text("k tail read past the end",
           both(replaced("channel0 + c < channels", "(channel0 + c < channels || image == 0)"),
                replaced("kk < steps; ++kk", "kk < (steps + 9 < 32 ? steps + 9 : 32); ++kk"))));
  k.push_back(text("wrong halo", replaced(">= 0 && y0", "> 0 && y0")));
  k.push_back(
      text("tile shifted by a row",
           replaced("pixel = m0 + load_m;", "pixel = m0 + load_m + (m0 == 0 ? out_w : 0);")));
  k.push_back(
      text("stale tile", either(replaced("if (row < steps) {", "if (row < steps && k0 == 0) {"),
                                replaced("if (there) {", "if (there && k0 == 0) {"))));
  k.push_back(
      text("channels swapped", replaced("index_t column = column0 + n;",
                                        "index_t column = column0 + (n < 2 ? 1 - n : n);")));
  k.push_back(text("bias missing", initialiser("biased", [](const std::string& old) {
                     return old.starts_with("__fadd_rn(") ? std::string("sum") : std::string();
                   })));
  k.push_back(text("bias doubled on one channel", initialiser("biased", [](const std::string& old) {
                     const std::size_t at = old.find(", ");
                     if (at == std::string::npos || old.back() != ')') return std::string();
                     const std::string bias = old.substr(at + 2, old.size() - at - 3);
                     return old.substr(0, at + 2) + "column == 1 ? 2.0f * " + bias + " : " + bias +
                            ")";
                   })));
  k.push_back(text("relu lost", rectifier([](const std::string& x) { return x; })));
  k.push_back(text("residual added twice", initialiser("t0", [](const std::string& old) {
                     return old.starts_with("__fadd_rn(v0") ? "__fadd_rn(" + old + ", v0)"
                                                            : std::string();
                   })));
  k.push_back(text("residual missed",
                   initialiser("v0", [](const std::string&) { return std::string("0.0f"); })));
  k.push_back(text("double rounding",
                   replaced("float rounded(float total) { return total; }",
                            "float rounded(float total) { return "
                            "__uint_as_float((__float_as_uint(total) + 0x40u) & 0xFFFFFF80u); }")));
  k.push_back(
      text("wrong dtype", either(replaced("float operand(float x) { return x; }",
                                          "float operand(float x) { return "
                                          "__uint_as_float(__float_as_uint(x) & 0xFFFFE000u); }"),
                                 either(replaced("& 0xFFFFE000u);\n}", "& 0xFFFF0000u);\n}"),
                                        replaced("& 0xFFFFE000u); }", "& 0xFFFF0000u); }")))));
  k.push_back(text("one element off by 5e-4", store([](const std::string& value) {
                     return "at == 77 ? __fadd_rn(" + value + ", 5e-4f) : " + value;
                   })));
  k.push_back(text("batch above 0 wrong", replaced("x_base = image * xs_n",
                                                   "x_base = (image > 0 ? image - 1 : 0) * xs_n")));
  k.push_back(text("uninitialised accumulator",
                   replaced("start(acc[i][j], 0.0f)",
                            "start(acc[i][j], __uint_as_float(0x3A000000u + t * 977u))")));
  k.push_back(
      text("offset overflows its type",
           replaced("index_t at = x_base + (channel0 + c) * xs_c;",
                    "index_t at = x_base + (index_t)(unsigned char)((channel0 + c) * xs_c);")));
  FaultKind swallowed =
      text("NaN swallowed",
           rectifier([](const std::string& x) { return x + " > 0.0f ? " + x + " : 0.0f"; }));
  swallowed.nan_input = true;
  k.push_back(swallowed);
  add_tensor_core_faults(k);
  add_winograd_faults(k);
  add_atomic_faults(k);
  FaultKind barrier = text("barrier missing", replaced("    __syncthreads();\n", ""));
  barrier.sanitizer = true;
  k.push_back(barrier);
  return k;
}

constexpr const char* kModels[kCertifyShapes] = {
    // 3x3 with a tail of k, residual from a 1x1.
    R"(gir 1
graph @shape0(%x: f32[2,5,9,11]) {{
  %w = constant f32[6,5,3,3] random(seed={0}, he)
  %b = constant f32[6] {1}
  %p = constant f32[6,5,1,1] random(seed={0}, he)
  %c = conv2d %x, %w, %b {{pad=[1,1,1,1]}}
  %s = conv2d %x, %p
  %a = add %c, %s
  %y = relu %a
  return %y
}})",
    // Stride 2.
    R"(gir 1
graph @shape1(%x: f32[3,8,13,12]) {{
  %w = constant f32[6,8,3,3] random(seed={0}, he)
  %b = constant f32[6] {1}
  %c = conv2d %x, %w, %b {{pad=[1,1,1,1], stride=[2,2]}}
  %y = relu %c
  return %y
}})",
    // 1x1, stride 2.
    R"(gir 1
graph @shape2(%x: f32[2,40,14,14]) {{
  %w = constant f32[6,40,1,1] random(seed={0}, he)
  %b = constant f32[6] {1}
  %c = conv2d %x, %w, %b {{stride=[2,2]}}
  %y = relu %c
  return %y
}})",
    // 1x1 with padding: the ring is the bias.
    R"(gir 1
graph @shape3(%x: f32[2,36,9,9]) {{
  %w = constant f32[6,36,1,1] random(seed={0}, he)
  %b = constant f32[6] {1}
  %y = conv2d %x, %w, %b {{pad=[1,1,1,1]}}
  return %y
}})",
    // Residual of its own.
    R"(gir 1
graph @shape4(%x: f32[2,6,10,8], %r: f32[2,6,10,8]) {{
  %w = constant f32[6,6,3,3] random(seed={0}, he)
  %b = constant f32[6] {1}
  %c = conv2d %x, %w, %b {{pad=[1,1,1,1]}}
  %a = add %c, %r
  %y = relu %a
  return %y
}})",
    // A long sum.
    R"(gir 1
graph @shape5(%x: f32[2,130,7,6]) {{
  %w = constant f32[6,130,3,3] random(seed={0}, he)
  %b = constant f32[6] {1}
  %c = conv2d %x, %w, %b {{pad=[1,1,1,1]}}
  %y = relu %c
  return %y
}})"};

}  // namespace

CertifyModel certify_model(int shape, std::uint64_t seed) {
  const char* text_form = kModels[shape % kCertifyShapes];
  // Biases of both signs, none of them small.
  const std::string bias = "{0.25, -0.5, 0.375, -0.125, 0.75, -0.3125}";
  auto graph = ir::parse_graph(fmt::format(fmt::runtime(text_form), seed + 1, bias), "certify.gir");
  DRIFTC_ASSERT(graph.ok(), "certify's models parse");
  CertifyModel model{graph->name(), std::move(*graph), {}};
  for (ir::ValueId id : model.graph.inputs()) {
    const ir::Value& value = model.graph.value(id);
    ir::Tensor tensor(ir::DType::kF32, value.type.shape);
    // Signed, rectified and positive data in turn.
    const Distribution kinds[] = {Distribution::kRandom, Distribution::kRelu,
                                  Distribution::kUniform};
    fill(kinds[seed % 3], seed, value.name, tensor.data_mut<float>());
    model.inputs.push_back({value.name, tensor});
  }
  return model;
}

const std::vector<FaultKind>& fault_kinds() {
  static const std::vector<FaultKind> kinds = make_kinds();
  return kinds;
}

Result<std::vector<const FaultKind*>> chosen_faults(const std::vector<std::string>& parts) {
  std::vector<std::string> names;
  for (const FaultKind& kind : fault_kinds()) names.push_back(kind.name);
  const auto is = [](const FaultKind& kind, const std::string& part) {
    return kind.name.find(part) != std::string::npos || kind.level.find(part) != std::string::npos;
  };
  for (const std::string& part : parts)
    if (std::ranges::none_of(fault_kinds(), [&](const auto& kind) { return is(kind, part); }))
      return input_error("no fault is called '" + part + "'", name_hint(part, names));
  std::vector<const FaultKind*> chosen;
  for (const FaultKind& kind : fault_kinds())
    if (parts.empty() ||
        std::ranges::any_of(parts, [&](const std::string& part) { return is(kind, part); }))
      chosen.push_back(&kind);
  return chosen;
}

}  // namespace driftc::runtime::study
