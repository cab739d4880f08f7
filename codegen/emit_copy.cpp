// Data movement: every op is one or two strided copies (concat: one per operand; pad: a fill and a
// copy), whatever the storage layouts. Reshape and flatten number the elements logically on both
// sides.
#include <fmt/format.h>

#include <algorithm>

#include "codegen/element_kernel.h"
#include "codegen/emitters.h"

namespace driftc::codegen {
namespace {

using ir::Op;

std::string element_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF32:
      return "float";
    case ir::DType::kF64:
      return "double";
    case ir::DType::kI64:
      return "long long";
    case ir::DType::kF16:
    case ir::DType::kBF16:
      return "unsigned short";  // copied as bits
  }
  return "float";
}

// A box of elements: position c in it is result[to + sum c * strides] = operand[from + sum c *
// strides].
struct Box {
  int operand = 0;
  std::int64_t to = 0, from = 0;
  std::vector<Axis> axes;  // view 0: result, view 1: operand
};

Launch box_copy(const KernelContext& context, Box box) {
  std::stable_sort(box.axes.begin(), box.axes.end(),
                   [](const Axis& a, const Axis& b) { return a.strides[0] > b.strides[0]; });
  std::int64_t elements = 1;
  for (const Axis& a : box.axes) elements *= a.extent;
  const std::string element = element_type(context.result.dtype);
  std::vector<Axis> axes = collapse(std::move(box.axes), UnitAxes::kDrop, 2);
  KernelBuilder builder(fmt::format("copy_{}d", axes.size()), context.wide());
  builder.describe(
      "Copies a box of elements between two strided arrays, one element per thread, in the order "
      "in which\n"
      "they lie in the result.\n");
  // The parameter's name must not tell which operand it is: one PTX copies them all.
  const std::string in = builder.operand(box.operand, element, "in"), out = builder.result(element);
  const std::string to = builder.integer("to", box.to), from = builder.integer("from", box.from);
  begin_elements(builder, elements);
  IndexCode code(builder, axes);
  CudaWriter& w = builder.body();
  const std::size_t views[] = {0, 1};
  code.declare_coordinates(w, "i", views);
  w.line(fmt::format("{}[{} + {}] = {}[{} + {}];", out, to, code.offset(0, "i"), in, from,
                     code.offset(1, "i")));
  return finish_elements(builder, elements);
}

Launch fill(const KernelContext& context, float value) {
  const std::int64_t elements = context.result.shape.elements();
  KernelBuilder builder("fill", context.wide());
  builder.describe("Sets every element of the result to one value.\n");
  const std::string out = builder.result(), v = builder.real("value", value);
  begin_elements(builder, elements);
  builder.body().line(fmt::format("{}[i] = {};", out, v));
  return finish_elements(builder, elements);
}

// Strides of a value's storage along its logical axes, merged where both numberings agree.
Launch renumber(const KernelContext& context, int operand) {
  auto side = [](const ir::TensorType& type) {
    std::vector<Axis> axes;
    const auto strides = ir::storage_strides(type.shape, type.layout);
    for (std::size_t a = 0; a < type.shape.rank(); ++a)
      axes.push_back({type.shape[a], {strides[a]}});
    return collapse(std::move(axes), UnitAxes::kDrop, 1);
  };
  const ir::TensorType& in_type = context.operands[static_cast<std::size_t>(operand)];
  const std::vector<Axis> in_axes = side(in_type), out_axes = side(context.result);
  const std::string element = element_type(context.result.dtype);
  const std::int64_t elements = context.result.shape.elements();
  KernelBuilder builder(fmt::format("reshape_{}d_{}d", in_axes.size(), out_axes.size()),
                        context.wide());
  builder.describe("Element i in row-major order of one shape becomes element i of the other.\n");
  const std::string in = builder.operand(operand, element, "in"), out = builder.result(element);
  begin_elements(builder, elements);
  IndexCode from(builder, in_axes, "in_"), to(builder, out_axes, "out_");
  CudaWriter& w = builder.body();
  const std::size_t views[] = {0};
  from.declare_coordinates(w, "i", views);
  to.declare_coordinates(w, "i", views);
  w.line(fmt::format("{}[{}] = {}[{}];", out, to.offset(0, "i"), in, from.offset(0, "i")));
  return finish_elements(builder, elements);
}

class CopyEmitter {
 public:
  explicit CopyEmitter(const KernelContext& context)
      : context_(context), out_(ir::storage_strides(context.result.shape, context.result.layout)) {}

  Result<LoweredKernel> run() {
    const ir::Node* node = nullptr;
    for (const ir::Node& n : context_.body().nodes()) {
      if (n.op == Op::kIdentity && context_.body().node_count() > 1) continue;
      if (node != nullptr) return internal_error("a copy kernel has one op");
      node = &n;
    }
    if (node == nullptr) {  // identities only
      node = &context_.body().nodes()[0];
    }
    LoweredKernel lowered;
    for (std::size_t i = 0; i < node->operands.size(); ++i) {
      const int operand = operand_of(node->operands[i]);
      if (operand < 0) return internal_error("a copy kernel copies its operands");
      const ir::TensorType& type = context_.operands[static_cast<std::size_t>(operand)];
      const std::vector<std::int64_t> in = ir::storage_strides(type.shape, type.layout);
      Box box;
      box.operand = operand;
      switch (node->op) {
        case Op::kIdentity:
          for (std::size_t a = 0; a < in.size(); ++a)
            box.axes.push_back({type.shape[a], {out_[a], in[a]}});
          break;
        case Op::kConcat: {
          const auto axis = static_cast<std::size_t>(node->integer("axis"));
          box.to = concat_at_ * out_[axis];
          concat_at_ += type.shape[axis];
          for (std::size_t a = 0; a < in.size(); ++a)
            box.axes.push_back({type.shape[a], {out_[a], in[a]}});
          break;
        }
        case Op::kTranspose:
          for (std::size_t a = 0; a < in.size(); ++a) {
            const auto from = static_cast<std::size_t>(node->ints("perm")[a]);
            box.axes.push_back({type.shape[from], {out_[a], in[from]}});
          }
          break;
        case Op::kSlice:
          for (std::size_t a = 0; a < in.size(); ++a) {
            box.from += node->ints("starts")[a] * in[a];
            box.axes.push_back({node->ints("sizes")[a], {out_[a], in[a] * node->ints("steps")[a]}});
          }
          break;
        case Op::kPad:
          if (type.dtype != ir::DType::kF32) return internal_error("pad kernels are f32");
          lowered.launches.push_back(fill(context_, static_cast<float>(node->number("value"))));
          for (std::size_t a = 0; a < in.size(); ++a) {
            const std::int64_t before = node->ints("before")[a], after = node->ints("after")[a];
            const std::int64_t skip = std::max<std::int64_t>(0, -before);
            const std::int64_t extent =
                std::max<std::int64_t>(0, type.shape[a] - skip - std::max<std::int64_t>(0, -after));
            box.from += skip * in[a];
            box.to += std::max<std::int64_t>(0, before) * out_[a];
            box.axes.push_back({extent, {out_[a], in[a]}});
          }
          break;
        case Op::kReshape:
        case Op::kFlatten:
          lowered.launches.push_back(renumber(context_, operand));
          continue;
        default:
          return internal_error(fmt::format("'{}' is no copy", ir::info(node->op).name));
      }
      lowered.launches.push_back(box_copy(context_, std::move(box)));
    }
    return lowered;
  }

 private:
  // The kernel operand behind a body value, identities looked through.
  int operand_of(ir::ValueId value) const {
    const ir::Node* from = context_.body().producer(value);
    while (from != nullptr && from->op == Op::kIdentity) {
      value = from->operands[0];
      from = context_.body().producer(value);
    }
    return context_.operand_index(value);
  }

  const KernelContext& context_;
  std::vector<std::int64_t> out_;
  std::int64_t concat_at_ = 0;
};

}  // namespace

Result<LoweredKernel> emit_copy(const KernelContext& context) {
  if (context.body().node_count() == 0) return internal_error("an empty body");
  return CopyEmitter(context).run();
}

}  // namespace driftc::codegen
