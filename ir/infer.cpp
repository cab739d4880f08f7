#include <fmt/format.h>

#include <algorithm>

#include "ir/builder.h"

namespace driftc::ir {

std::int64_t window_extent(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                           std::int64_t pad_before, std::int64_t pad_after, std::int64_t dilation,
                           bool ceil_mode) {
  const std::int64_t span = dilation * (kernel - 1) + 1;
  const std::int64_t room = in + pad_before + pad_after - span;
  if (room < 0) return 0;
  std::int64_t out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= in + pad_before) --out;
  return out;
}

namespace {

using Types = std::span<const TensorType>;
// Bound on kernel sizes, strides, pads and dilations: keeps every product below in int64.
constexpr std::int64_t kMaxWindow = std::int64_t{1} << 24;

class Inference {
 public:
  Inference(Op op, const std::vector<AttributeValue>& attributes, Types operands)
      : row_(info(op)), operands_(operands) {
    node_.op = op;
    node_.attributes = attributes;
  }

  Result<TensorType> run() {
    const auto count = static_cast<int>(operands_.size());
    if (count < row_.min_operands || (row_.max_operands >= 0 && count > row_.max_operands))
      return fail(fmt::format("takes {} operand(s), {} given", operand_range(), count));
    if (row_.op == Op::kConstant || row_.op == Op::kKernel) return fail("has no inferred type");
    for (const TensorType& t : operands_)
      if (t.dtype != operands_[0].dtype)
        return fail(fmt::format("operands differ in type: {} and {}", to_string(operands_[0]),
                                to_string(t)));
    DRIFTC_TRY(shape, infer());
    if (!shape.checked_elements()) return fail("result of more than 2^40 elements");
    const DType dtype = row_.op == Op::kArgmax ? DType::kI64 : operands_[0].dtype;
    return TensorType{dtype, shape, Layout::kNchw};
  }

 private:
  std::string operand_range() const {
    if (row_.max_operands < 0) return fmt::format("at least {}", row_.min_operands);
    if (row_.min_operands == row_.max_operands) return std::to_string(row_.min_operands);
    return fmt::format("{} to {}", row_.min_operands, row_.max_operands);
  }
  Diagnostic fail(std::string what, std::string hint = {}) const {
    return input_error(fmt::format("'{}' {}", row_.name, what), std::move(hint));
  }
  const Shape& shape(std::size_t i) const { return operands_[i].shape; }

  // `windows`: kernel, stride, dilation >= 1 and pads >= 0 of two dimensions.
  Result<void> check_window(std::string_view name, std::size_t size, std::int64_t least) const {
    const auto& values = node_.ints(name);
    if (values.size() != size)
      return fail(
          fmt::format("attribute '{}' has {} entries, needs {}", name, values.size(), size));
    for (std::int64_t v : values)
      if (v < least || v > kMaxWindow)
        return fail(fmt::format("attribute '{}' holds {}, allowed are {} to {}", name, v, least,
                                kMaxWindow));
    return {};
  }
  Result<void> check_word(std::string_view name,
                          std::initializer_list<std::string_view> known) const {
    const std::string& word = node_.word(name);
    std::string list;
    for (std::string_view k : known) {
      if (word == k) return {};
      list += (list.empty() ? "" : ", ") + std::string(k);
    }
    return fail(fmt::format("attribute '{}' is '{}', known are {}", name, word, list));
  }
  Result<Shape> window(std::int64_t channels, std::int64_t kh, std::int64_t kw, bool has_dilation,
                       bool ceil_mode) const {
    DRIFTC_CHECK(check_window("stride", 2, 1));
    DRIFTC_CHECK(check_window("pad", 4, 0));
    if (has_dilation) DRIFTC_CHECK(check_window("dilation", 2, 1));
    const auto& stride = node_.ints("stride");
    const auto& pad = node_.ints("pad");
    const std::int64_t dh = has_dilation ? node_.ints("dilation")[0] : 1;
    const std::int64_t dw = has_dilation ? node_.ints("dilation")[1] : 1;
    const Shape& x = shape(0);
    const std::int64_t oh = window_extent(x[2], kh, stride[0], pad[0], pad[2], dh, ceil_mode);
    const std::int64_t ow = window_extent(x[3], kw, stride[1], pad[1], pad[3], dw, ceil_mode);
    if (oh < 1 || ow < 1)
      return fail(fmt::format("window {}x{} does not fit input {} with pad [{},{},{},{}]", kh, kw,
                              to_string(x), pad[0], pad[1], pad[2], pad[3]));
    return Shape{x[0], channels, oh, ow};
  }

  Result<Shape> infer() {
    switch (row_.op) {
      case Op::kConstant:
      case Op::kKernel:
        break;
      case Op::kConv2d:
        return conv(node_.integer("groups"), /*one_by_one=*/false);
      case Op::kConv1x1Matmul:
        return conv(1, /*one_by_one=*/true);
      case Op::kMatmul:
        return matmul();
      case Op::kGemm:
        return gemm();
      case Op::kAdd:
      case Op::kSub:
      case Op::kMul:
      case Op::kDiv:
      case Op::kMax:
      case Op::kMin:
      case Op::kPow: {
        auto s = broadcast(shape(0), shape(1));
        if (!s)
          return fail(fmt::format("operands do not broadcast: {} and {}", to_string(operands_[0]),
                                  to_string(operands_[1])));
        return *s;
      }
      case Op::kPrelu:
        if (broadcast(shape(0), shape(1)) != shape(0))
          return fail(fmt::format("slope {} does not broadcast to {}", to_string(operands_[1]),
                                  to_string(operands_[0])));
        return shape(0);
      case Op::kGelu:
        DRIFTC_CHECK(check_word("form", {"erf", "tanh"}));
        return shape(0);
      case Op::kCast:
        DRIFTC_CHECK(check_word("to", {"f16", "bf16", "f32"}));
        return shape(0);
      case Op::kRelu:
      case Op::kClip:
      case Op::kIdentity:
      case Op::kSqrt:
      case Op::kExp:
      case Op::kLog:
      case Op::kErf:
      case Op::kAbs:
      case Op::kNeg:
      case Op::kSigmoid:
      case Op::kTanh:
      case Op::kSoftplus:
      case Op::kElu:
      case Op::kLeakyRelu:
      case Op::kHardSigmoid:
      case Op::kHardSwish:
        return shape(0);
      case Op::kBatchNorm: {
        if (shape(0).rank() < 2) return fail("needs an input of at least two dimensions");
        for (std::size_t i = 1; i < 5; ++i)
          if (shape(i) != Shape{shape(0)[1]})
            return fail(fmt::format("operand {} has shape {}, needs [{}]", i, to_string(shape(i)),
                                    shape(0)[1]));
        return shape(0);
      }
      case Op::kMaxPool:
      case Op::kAvgPool: {
        if (shape(0).rank() != 4) return fail("needs an input [N,C,H,W]");
        DRIFTC_CHECK(check_window("kernel", 2, 1));
        const auto& kernel = node_.ints("kernel");
        DRIFTC_TRY(s, window(shape(0)[1], kernel[0], kernel[1], row_.op == Op::kMaxPool,
                             node_.integer("ceil_mode") != 0));
        const auto& pad = node_.ints("pad");
        if (pad[0] >= kernel[0] || pad[2] >= kernel[0] || pad[1] >= kernel[1] ||
            pad[3] >= kernel[1])
          if (row_.op == Op::kMaxPool && node_.ints("dilation") == std::vector<std::int64_t>{1, 1})
            return fail("pad must be smaller than the kernel, else a window sees only padding");
        return s;
      }
      case Op::kGlobalAvgPool:
        if (shape(0).rank() != 4) return fail("needs an input [N,C,H,W]");
        if (shape(0)[2] < 1 || shape(0)[3] < 1) return fail("needs at least one position");
        return Shape{shape(0)[0], shape(0)[1], 1, 1};
      case Op::kReduceMean:
      case Op::kReduceSum:
      case Op::kReduceMax:
      case Op::kReduceMin:
        return reduce(node_.ints("axes"));
      case Op::kArgmax:
        return reduce({node_.integer("axis")});
      case Op::kConvTranspose:
        return conv_transpose();
      case Op::kResize:
        return resize();
      case Op::kConcat:
        return concat();
      case Op::kFlatten: {
        const std::int64_t axis = node_.integer("axis");
        if (axis < 0 || axis > static_cast<std::int64_t>(shape(0).rank()))
          return fail("axis out of range");
        std::int64_t rows = 1, columns = 1;
        for (std::size_t i = 0; i < shape(0).rank(); ++i)
          (static_cast<std::int64_t>(i) < axis ? rows : columns) *= shape(0)[i];
        return Shape{rows, columns};
      }
      case Op::kReshape: {
        const Shape s(node_.ints("shape"));
        if (!s.checked_elements()) return fail("shape is negative or too large");
        if (s.elements() != shape(0).elements())
          return fail(fmt::format("cannot turn {} ({} elements) into {} ({} elements)",
                                  to_string(shape(0)), shape(0).elements(), to_string(s),
                                  s.elements()));
        return s;
      }
      case Op::kTranspose: {
        const auto& perm = node_.ints("perm");
        std::vector<bool> seen(shape(0).rank());
        if (perm.size() != shape(0).rank()) return fail("perm needs one entry per axis");
        std::vector<std::int64_t> dims;
        for (std::int64_t p : perm) {
          if (p < 0 || p >= static_cast<std::int64_t>(seen.size()) ||
              seen[static_cast<std::size_t>(p)])
            return fail("perm is not a permutation of the axes");
          seen[static_cast<std::size_t>(p)] = true;
          dims.push_back(shape(0)[static_cast<std::size_t>(p)]);
        }
        return Shape(std::move(dims));
      }
      case Op::kSlice:
        return slice();
      case Op::kPad:
        return pad();
      case Op::kSoftmax: {
        const auto rank = static_cast<std::int64_t>(shape(0).rank());
        const std::int64_t axis = node_.integer("axis");
        if (axis < -rank || axis >= rank) return fail("axis out of range");
        return shape(0);
      }
    }
    return fail("has no inferred type");
  }

  Result<Shape> conv(std::int64_t groups, bool one_by_one) {
    const Shape& x = shape(0);
    const Shape& w = shape(1);
    if (x.rank() != 4) return fail(fmt::format("input is {}, needs [N,C,H,W]", to_string(x)));
    if (w.rank() != 4)
      return fail(fmt::format("weight is {}, needs [K,C/groups,R,S]", to_string(w)));
    if (groups < 1) return fail("groups must be at least 1");
    if (x[1] % groups != 0 || w[0] % groups != 0 || x[1] / groups != w[1])
      return fail(fmt::format("channels do not fit: input {}, weight {}, groups {}", to_string(x),
                              to_string(w), groups),
                  fmt::format("the weight's second extent must be {}/{}", x[1], groups));
    if (w[2] < 1 || w[3] < 1) return fail("empty kernel");
    if (operands_.size() == 3 && shape(2) != Shape{w[0]})
      return fail(fmt::format("bias is {}, needs [{}]", to_string(shape(2)), w[0]));
    if (one_by_one) {
      if (w[2] != 1 || w[3] != 1) return fail("needs a 1x1 weight");
      return Shape{x[0], w[0], x[2], x[3]};
    }
    return window(w[0], w[2], w[3], true, false);
  }
  Result<Shape> conv_transpose() {
    const Shape& x = shape(0);
    const Shape& w = shape(1);
    const std::int64_t groups = node_.integer("groups");
    if (x.rank() != 4) return fail(fmt::format("input is {}, needs [N,C,H,W]", to_string(x)));
    if (w.rank() != 4)
      return fail(fmt::format("weight is {}, needs [C,K/groups,R,S]", to_string(w)));
    if (groups < 1 || groups > kMaxWindow) return fail("groups must be at least 1");
    if (x[1] != w[0])
      return fail(
          fmt::format("channels do not fit: input {}, weight {}", to_string(x), to_string(w)),
          fmt::format("the weight's first extent must be {}", x[1]));
    if (x[1] % groups != 0)
      return fail(fmt::format("groups {} does not divide the {} channels", groups, x[1]));
    if (w[2] < 1 || w[3] < 1 || w[2] > kMaxWindow || w[3] > kMaxWindow)
      return fail("empty or huge kernel");
    const Shape channels{w[1], groups};
    if (!channels.checked_elements()) return fail("more than 2^40 output channels");
    if (operands_.size() == 3 && shape(2) != Shape{w[1] * groups})
      return fail(fmt::format("bias is {}, needs [{}]", to_string(shape(2)), w[1] * groups));
    DRIFTC_CHECK(check_window("stride", 2, 1));
    DRIFTC_CHECK(check_window("pad", 4, 0));
    DRIFTC_CHECK(check_window("output_pad", 2, 0));
    DRIFTC_CHECK(check_window("dilation", 2, 1));
    Shape out{x[0], w[1] * groups, 0, 0};
    for (std::size_t a = 0; a < 2; ++a) {
      const std::int64_t stride = node_.ints("stride")[a], extra = node_.ints("output_pad")[a];
      if (extra >= stride && extra >= node_.ints("dilation")[a])
        return fail(
            fmt::format("output_pad {} is not below stride {} or the dilation", extra, stride));
      if (x[2 + a] < 1 || x[2 + a] > kMaxWindow)
        return fail("needs an input of 1 to 2^24 rows and columns");
      out[2 + a] = stride * (x[2 + a] - 1) + extra + (w[2 + a] - 1) * node_.ints("dilation")[a] +
                   1 - node_.ints("pad")[a] - node_.ints("pad")[2 + a];
      if (out[2 + a] < 1) return fail("pad removes the whole result");
    }
    return out;
  }
  Result<Shape> resize() {
    const Shape& x = shape(0);
    if (x.rank() != 4) return fail("needs an input [N,C,H,W]");
    DRIFTC_CHECK(check_word("mode", {"nearest", "linear"}));
    DRIFTC_CHECK(check_word("coordinates", {"half_pixel", "pytorch_half_pixel", "asymmetric",
                                            "align_corners", "tf_half_pixel_for_nn"}));
    DRIFTC_CHECK(
        check_word("rounding", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
    DRIFTC_CHECK(check_window("sizes", 2, 1));
    for (const char* scale : {"scale_h", "scale_w"}) {
      const double value = node_.number(scale);
      if (!(value >= 0x1p-24 && value <= 0x1p24))
        return fail(fmt::format("attribute '{}' is {}, allowed are 2^-24 to 2^24", scale, value));
    }
    if (x[2] < 1 || x[3] < 1) return fail("needs at least one position");
    return Shape{x[0], x[1], node_.ints("sizes")[0], node_.ints("sizes")[1]};
  }
  Result<Shape> reduce(const std::vector<std::int64_t>& axes) {
    const Shape& x = shape(0);
    if (axes.empty()) return fail("needs at least one axis");
    std::vector<bool> reduced(x.rank());
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i] < 0 || axes[i] >= static_cast<std::int64_t>(x.rank()))
        return fail(fmt::format("axis {} is out of range for {}", axes[i], to_string(x)));
      if (i > 0 && axes[i] <= axes[i - 1]) return fail("axes must be ascending");
      reduced[static_cast<std::size_t>(axes[i])] = true;
    }
    std::vector<std::int64_t> dims;
    for (std::size_t a = 0; a < x.rank(); ++a) {
      if (reduced[a] && x[a] < 1) return fail(fmt::format("axis {} has no positions", a));
      if (!reduced[a] || node_.integer("keepdims") != 0) dims.push_back(reduced[a] ? 1 : x[a]);
    }
    return Shape(std::move(dims));
  }
  Result<Shape> matmul() {
    const Shape& a = shape(0);
    const Shape& b = shape(1);
    if (a.rank() < 2 || b.rank() < 2) return fail("needs operands of at least two dimensions");
    const std::size_t ra = a.rank(), rb = b.rank();
    if (a[ra - 1] != b[rb - 2])
      return fail(fmt::format("inner extents differ: {} x {}", to_string(a), to_string(b)));
    const Shape lead_a(std::vector<std::int64_t>(a.dims().begin(), a.dims().end() - 2));
    const Shape lead_b(std::vector<std::int64_t>(b.dims().begin(), b.dims().end() - 2));
    auto lead = broadcast(lead_a, lead_b);
    if (!lead) return fail(fmt::format("leading axes differ: {} x {}", to_string(a), to_string(b)));
    std::vector<std::int64_t> dims = lead->dims();
    dims.push_back(a[ra - 2]);
    dims.push_back(b[rb - 1]);
    return Shape(std::move(dims));
  }
  Result<Shape> gemm() {
    const Shape& a = shape(0);
    const Shape& b = shape(1);
    if (a.rank() != 2 || b.rank() != 2) return fail("needs operands of two dimensions");
    const bool ta = node_.integer("trans_a") != 0, tb = node_.integer("trans_b") != 0;
    const std::int64_t m = a[ta ? 1 : 0], ka = a[ta ? 0 : 1], kb = b[tb ? 1 : 0], n = b[tb ? 0 : 1];
    if (ka != kb)
      return fail(fmt::format("inner extents differ: {} x {}", to_string(a), to_string(b)));
    const Shape out{m, n};
    if (operands_.size() == 3 && broadcast(out, shape(2)) != out)
      return fail(
          fmt::format("c is {}, does not broadcast to {}", to_string(shape(2)), to_string(out)));
    return out;
  }
  Result<Shape> concat() {
    const auto axis = static_cast<std::size_t>(node_.integer("axis"));
    Shape out = shape(0);
    if (node_.integer("axis") < 0 || axis >= out.rank()) return fail("axis out of range");
    for (std::size_t i = 1; i < operands_.size(); ++i) {
      Shape other = shape(i);
      if (other.rank() == out.rank()) {
        const std::int64_t extent = other[axis];
        other[axis] = out[axis];
        if (other == out) {
          out[axis] += extent;
          continue;
        }
      }
      return fail(fmt::format("operand {} is {}, does not join {} along axis {}", i,
                              to_string(shape(i)), to_string(shape(0)), axis));
    }
    return out;
  }
  Result<Shape> slice() {
    const auto &starts = node_.ints("starts"), &steps = node_.ints("steps"),
               &sizes = node_.ints("sizes");
    const Shape& x = shape(0);
    if (starts.size() != x.rank() || steps.size() != x.rank() || sizes.size() != x.rank())
      return fail("starts, steps and sizes need one entry per axis");
    for (std::size_t i = 0; i < x.rank(); ++i) {
      if (sizes[i] < 0 || sizes[i] > x[i] || steps[i] == 0 || steps[i] > kMaxWindow ||
          steps[i] < -kMaxWindow)
        return fail("size or step out of range");
      const std::int64_t last = sizes[i] == 0 ? starts[i] : starts[i] + (sizes[i] - 1) * steps[i];
      if (sizes[i] > 0 && (starts[i] < 0 || starts[i] >= x[i] || last < 0 || last >= x[i]))
        return fail(fmt::format("axis {} reads {} to {} of {}", i, starts[i], last, x[i]));
    }
    return Shape(sizes);
  }
  Result<Shape> pad() {
    const auto &before = node_.ints("before"), &after = node_.ints("after");
    Shape out = shape(0);
    if (before.size() != out.rank() || after.size() != out.rank())
      return fail("before and after need one entry per axis");
    for (std::size_t i = 0; i < out.rank(); ++i) {
      if (std::max(std::abs(before[i]), std::abs(after[i])) > kMaxWindow)
        return fail("pad out of range");
      out[i] += before[i] + after[i];
      if (out[i] < 0) return fail(fmt::format("crops more than axis {} has", i));
    }
    return out;
  }

  const OpInfo& row_;
  Types operands_;
  Node node_;
};

}  // namespace

Result<TensorType> infer_type(Op op, const std::vector<AttributeValue>& attributes,
                              std::span<const TensorType> operands) {
  return Inference(op, attributes, operands).run();
}

Result<ValueId> Builder::add(Op op, std::vector<ValueId> operands, const AttributeList& attributes,
                             std::string_view name, Location location) {
  Node node;
  node.op = op;
  DRIFTC_TRY(completed, complete_attributes(op, attributes));
  node.attributes = std::move(completed);
  std::vector<TensorType> types;
  for (ValueId v : operands) types.push_back(graph_.value(v).type);
  DRIFTC_TRY(type, infer_type(op, node.attributes, types));
  node.operands = std::move(operands);
  node.location = std::move(location);
  std::string unique = graph_.fresh_name(name);
  node.from = {unique};
  return graph_.node(graph_.add_node(std::move(node), std::move(unique), type)).result;
}

}  // namespace driftc::ir
