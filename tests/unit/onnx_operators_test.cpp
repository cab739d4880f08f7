// The operators beyond convolution, arithmetic and shapes, at every operator set that changed them.
#include <cmath>
#include <limits>

#include "ir/verifier.h"
#include "tests/unit/onnx_writer.h"

using namespace driftc;
using namespace driftc::test;
using Floats = std::vector<float>;

namespace {

// One node from x = 0, 1, 2, ... to y.
OnnxWriter unary(int opset, const std::string& op, Ints x,
                 const std::vector<std::string>& attributes = {}) {
  return OnnxWriter(opset).input("x", x).node(op, {"x"}, {"y"}, attributes).output("y");
}
bool close(const Floats& got, const Floats& want, float tolerance = 2e-6f) {
  if (got.size() != want.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(got[i] - want[i]) <= tolerance * std::max(1.0f, std::abs(want[i]))))
      return false;
  return true;
}
bool says(const OnnxWriter& model, const std::string& text) {
  const std::string error = error_of(model);
  INFO(error);
  return error.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("onnx operators: parameters of activations and their defaults") {
  // The negative half comes from 0 - x.
  const auto of_negative = [](int opset, const std::string& op,
                              const std::vector<std::string>& attributes = {}) {
    return values_of(run(OnnxWriter(opset)
                             .input("x", {2})
                             .node("Neg", {"x"}, {"n"})
                             .node(op, {"n"}, {"y"}, attributes)
                             .output("y")))[1];
  };
  CHECK(of_negative(6, "LeakyRelu") == -0.01f);
  CHECK(of_negative(16, "LeakyRelu", {attr_f("alpha", 0.5f)}) == -0.5f);
  CHECK(of_negative(6, "Elu") == doctest::Approx(std::expm1(-1.0)));
  CHECK(of_negative(6, "Elu", {attr_f("alpha", 2.0f)}) == doctest::Approx(2 * std::expm1(-1.0)));
  CHECK(of_negative(6, "Selu") ==
        doctest::Approx(1.0507009873554805 * 1.6732632423543772 * std::expm1(-1.0)));
  CHECK(of_negative(6, "HardSigmoid") == 0.3f);
  CHECK(of_negative(6, "HardSigmoid", {attr_f("alpha", 0.25f), attr_f("beta", 1.0f)}) == 0.75f);
  CHECK(of_negative(14, "HardSwish") == doctest::Approx(-1.0 / 3));
  CHECK(of_negative(20, "Gelu") == doctest::Approx(-0.15865525));
  CHECK(of_negative(20, "Gelu", {attr_s("approximate", "tanh")}) == doctest::Approx(-0.15880801));
  CHECK(of_negative(7, "Softplus") == doctest::Approx(std::log1p(std::exp(-1.0))));
  CHECK(of_negative(7, "Softsign") == -0.5f);
  CHECK(of_negative(9, "Erf") == doctest::Approx(std::erf(-1.0)));
  CHECK(of_negative(7, "Reciprocal") == -1.0f);
  CHECK(says(unary(20, "Gelu", {2}, {attr_s("approximate", "fast")}),
             "attribute 'approximate' is 'fast'"));
  CHECK(says(unary(13, "HardSwish", {2}, {attr_f("alpha", 0.5f)}), "attribute 'alpha' is unknown"));
}

TEST_CASE("onnx operators: PRelu takes one slope per channel as a list in operator set 6 only") {
  const auto prelu = [](int opset, Ints slope_shape) {
    Floats slopes;
    for (std::int64_t i = 0; i < ir::Shape(slope_shape).elements(); ++i)
      slopes.push_back(static_cast<float>(i + 2));
    return OnnxWriter(opset)
        .input("x", {1, 2, 1, 3})
        .floats("s", slope_shape, slopes)
        .node("Neg", {"x"}, {"n"})
        .node("PRelu", {"n", "s"}, {"y"})
        .output("y");
  };
  CHECK(values_of(run(prelu(6, {2}))) == Floats{-0.0f, -2, -4, -9, -12, -15});
  CHECK(values_of(run(prelu(7, {2, 1, 1}))) == Floats{-0.0f, -2, -4, -9, -12, -15});
  CHECK(values_of(run(prelu(9, {3}))) == Floats{-0.0f, -3, -8, -6, -12, -20});
  CHECK(says(prelu(9, {2}), "does not broadcast to"));
}

TEST_CASE("onnx operators: Pow broadcasts by axis in 6, takes integer exponents from 12 on") {
  CHECK(close(
      values_of(run(OnnxWriter(6)
                        .input("x", {2, 2})
                        .floats("e", {2}, {2, 3})
                        .node("Pow", {"x", "e"}, {"y"}, {attr("broadcast", 1), attr("axis", 0)})
                        .output("y"))),
      {0, 1, 8, 27}));
  const auto integer = [](int opset) {
    return OnnxWriter(opset)
        .input("x", {4})
        .ints("e", {3})
        .node("Pow", {"x", "e"}, {"y"})
        .output("y");
  };
  CHECK(values_of(run(integer(13))) == Floats{0, 1, 8, 27});
  CHECK(says(integer(11), "is an integer exponent"));
}

TEST_CASE("onnx operators: Max, Min, Mean of several tensors; shapes differ from 8 on") {
  const auto of_three = [](int opset, const char* op, Ints other) {
    Floats values(static_cast<std::size_t>(ir::Shape(other).elements()), 1.5f);
    return OnnxWriter(opset)
        .input("x", {4})
        .floats("a", other, values)
        .floats("b", {4}, {5, -5, 2, -2})
        .node(op, {"x", "a", "b"}, {"y"})
        .output("y");
  };
  CHECK(values_of(run(of_three(13, "Max", {1}))) == Floats{5, 1.5f, 2, 3});
  CHECK(values_of(run(of_three(13, "Min", {1}))) == Floats{0, -5, 1.5f, -2});
  CHECK(values_of(run(of_three(6, "Max", {4}))) == Floats{5, 1.5f, 2, 3});
  CHECK(close(values_of(run(of_three(13, "Mean", {}))), {6.5f / 3, -2.5f / 3, 5.5f / 3, 2.5f / 3}));
  CHECK(says(of_three(6, "Max", {1}), "allows from operator set 8 on"));
  CHECK(values_of(run(unary(13, "Max", {2}))) == Floats{0, 1});
}

TEST_CASE(
    "onnx operators: reductions take axes as attribute, then as input; negative axes; keepdims") {
  CHECK(values_of(run(unary(11, "ReduceMean", {2, 3}, {attr("axes", Ints{1})}))) == Floats{1, 4});
  CHECK(
      to_string(run(unary(11, "ReduceMean", {2, 3}, {attr("axes", Ints{-1}), attr("keepdims", 0)}))
                    .shape()) == "[2]");
  CHECK(values_of(run(unary(11, "ReduceMax", {2, 3}))) == Floats{5});
  CHECK(to_string(run(unary(11, "ReduceMax", {2, 3})).shape()) == "[1,1]");
  const auto input_axes = [](int opset, const char* op, Ints axes,
                             const std::vector<std::string>& attributes = {}) {
    return OnnxWriter(opset)
        .input("x", {2, 3})
        .ints("axes", axes)
        .node(op, {"x", "axes"}, {"y"}, attributes)
        .output("y");
  };
  CHECK(values_of(run(input_axes(13, "ReduceSum", {0}))) == Floats{3, 5, 7});
  CHECK(values_of(run(input_axes(18, "ReduceMean", {0, -1}))) == Floats{2.5f});
  CHECK(values_of(run(input_axes(18, "ReduceMin", {1}))) == Floats{0, 3});
  CHECK(values_of(run(input_axes(13, "ReduceSum", {}, {attr("noop_with_empty_axes", 1)}))) ==
        Floats{0, 1, 2, 3, 4, 5});
  CHECK(values_of(run(input_axes(13, "ReduceSum", {}))) == Floats{15});
  CHECK(says(input_axes(13, "ReduceMean", {0}), "takes 1 input(s)"));
  CHECK(says(unary(18, "ReduceMean", {2, 3}, {attr("axes", Ints{1})}),
             "attribute 'axes' is unknown"));
  CHECK(says(unary(11, "ReduceMean", {2, 3}, {attr("axes", Ints{2})}), "out of range for rank 2"));
  CHECK(says(unary(11, "ReduceMean", {2, 3}, {attr("axes", Ints{1, -1})}), "names an axis twice"));
  CHECK(close(values_of(run(unary(11, "ReduceL2", {2, 3}, {attr("axes", Ints{1})}))),
              {std::sqrt(5.0f), std::sqrt(50.0f)}));
  CHECK(values_of(run(unary(11, "ReduceL1", {2, 3}, {attr("axes", Ints{1})}))) == Floats{3, 12});
  CHECK(close(values_of(run(unary(11, "ReduceLogSumExp", {3}))), {2.4076059f}));
  CHECK(values_of(run(unary(11, "ReduceSumSquare", {3}))) == Floats{5});
  CHECK(values_of(run(unary(11, "GlobalMaxPool", {1, 2, 2, 2}))) == Floats{3, 7});
}

TEST_CASE("onnx operators: ArgMax returns indices") {
  auto graph = import(OnnxWriter(13)
                          .input("x", {2, 3})
                          .node("ArgMax", {"x"}, {"y"}, {attr("axis", -1), attr("keepdims", 0)})
                          .output("y", kOnnxInt64));
  REQUIRE(graph.ok());
  CHECK(to_string(graph->value(graph->outputs()[0]).type) == "i64[2]");
  CHECK(says(OnnxWriter(13)
                 .input("x", {2, 3})
                 .node("ArgMax", {"x"}, {"i"})
                 .node("Relu", {"i"}, {"y"})
                 .output("y"),
             "is int64"));
  CHECK(says(unary(13, "ArgMax", {2, 3}, {attr("axis", 2)}), "out of range for rank 2"));
  CHECK(says(unary(11, "ArgMax", {2, 3}, {attr("select_last_index", 1)}),
             "is unknown at operator set 11"));
}

TEST_CASE("onnx operators: Upsample and Resize differ in coordinates between operator sets") {
  const Floats scales{1, 1, 1, 2};
  const auto resize = [&](int opset, const std::vector<std::string>& attributes) {
    OnnxWriter model(opset);
    model.input("x", {1, 1, 1, 3}).floats("s", {4}, scales);
    if (opset >= 11) return model.node("Resize", {"x", "", "s"}, {"y"}, attributes).output("y");
    return model.node(opset == 10 ? "Resize" : "Upsample", {"x", "s"}, {"y"}, attributes)
        .output("y");
  };
  const std::string linear = attr_s("mode", "linear");
  CHECK(values_of(run(resize(9, {}))) == Floats{0, 0, 1, 1, 2, 2});
  CHECK(values_of(run(resize(9, {linear}))) == Floats{0, 0.5f, 1, 1.5f, 2, 2});
  CHECK(values_of(run(resize(10, {linear}))) == Floats{0, 0.5f, 1, 1.5f, 2, 2});
  CHECK(values_of(run(resize(11, {linear}))) == Floats{0, 0.25f, 0.75f, 1.25f, 1.75f, 2});
  CHECK(values_of(
            run(resize(13, {linear, attr_s("coordinate_transformation_mode", "asymmetric")}))) ==
        Floats{0, 0.5f, 1, 1.5f, 2, 2});
  CHECK(close(values_of(run(
                  resize(13, {linear, attr_s("coordinate_transformation_mode", "align_corners")}))),
              {0, 0.4f, 0.8f, 1.2f, 1.6f, 2}));
  CHECK(values_of(run(resize(13, {attr_s("coordinate_transformation_mode", "asymmetric"),
                                  attr_s("nearest_mode", "ceil")}))) == Floats{0, 1, 1, 2, 2, 2});
  CHECK(values_of(run(OnnxWriter(7)
                          .input("x", {1, 1, 1, 2})
                          .node("Upsample", {"x"}, {"y"},
                                {attribute("scales", 6,
                                           [](auto& w) {
                                             for (float v : {1.0f, 1.0f, 1.0f, 2.0f})
                                               w.add_float(7, v);
                                           })})
                          .output("y"))) == Floats{0, 0, 1, 1});
  const auto sized = [](int opset, Ints sizes, const std::vector<std::string>& attributes) {
    return OnnxWriter(opset)
        .input("x", {1, 1, 2, 2})
        .ints("z", sizes)
        .node("Resize", {"x", "", "", "z"}, {"y"}, attributes)
        .output("y");
  };
  CHECK(to_string(run(sized(13, {1, 1, 3, 5}, {})).shape()) == "[1,1,3,5]");
  CHECK(to_string(run(sized(18, {3, 5}, {attr("axes", Ints{2, 3})})).shape()) == "[1,1,3,5]");
  CHECK(says(sized(13, {1, 2, 3, 5}, {}), "only height and width can be resized"));
  CHECK(says(sized(13, {1, 1, 3}, {}), "has 3 entries, needs 4"));
  CHECK(says(sized(18, {1, 1, 3, 5}, {attr("antialias", 1)}),
             "attribute 'antialias' = 1 is not supported"));
  CHECK(says(resize(13, {attr_s("mode", "cubic")}), "attribute 'mode' is 'cubic'"));
  CHECK(says(resize(13, {attr_s("coordinate_transformation_mode", "tf_crop_and_resize")}),
             "is 'tf_crop_and_resize'"));
  CHECK(says(OnnxWriter(13).input("x", {1, 1, 2, 2}).node("Resize", {"x"}, {"y"}).output("y"),
             "needs either scales or sizes"));
}

TEST_CASE(
    "onnx operators: Split takes sizes as attribute, then as input; equal parts; a smaller last "
    "part from 18 on") {
  const auto second = [](int opset, const std::vector<std::string>& attributes,
                         const Ints* parts = nullptr) {
    OnnxWriter model(opset);
    model.input("x", {5});
    std::vector<std::string> inputs{"x"};
    if (parts != nullptr) model.ints("p", *parts), inputs.push_back("p");
    return model.node("Split", inputs, {"a", "y"}, attributes).output("y");
  };
  const Ints parts{2, 3}, wrong{2, 2};
  CHECK(values_of(run(second(11, {attr("split", parts)}))) == Floats{2, 3, 4});
  CHECK(values_of(run(second(13, {}, &parts))) == Floats{2, 3, 4});
  CHECK(values_of(run(second(18, {attr("num_outputs", 2)}))) == Floats{3, 4});
  CHECK(says(second(13, {}), "has no 2 equal parts"));
  CHECK(says(second(13, {}, &wrong), "'split' is [2,2]"));
  CHECK(says(second(18, {attr("num_outputs", 3)}), "but the node has 2 outputs"));
}

TEST_CASE("onnx operators: ConvTranspose with pads, output_padding, output_shape and auto_pad") {
  const auto model = [](const std::vector<std::string>& attributes) {
    return OnnxWriter(11)
        .input("x", {1, 1, 1, 3})
        .floats("w", {1, 1, 1, 3}, {1, 10, 100})
        .node("ConvTranspose", {"x", "w"}, {"y"}, attributes)
        .output("y");
  };
  const std::string stride = attr("strides", Ints{1, 2});
  CHECK(values_of(run(model({stride}))) == Floats{0, 0, 1, 10, 102, 20, 200});
  CHECK(values_of(run(model({stride, attr("pads", Ints{0, 1, 0, 2})}))) == Floats{0, 1, 10, 102});
  CHECK(values_of(run(model({stride, attr("output_padding", Ints{0, 1})}))) ==
        Floats{0, 0, 1, 10, 102, 20, 200, 0});
  // One column too many: the end loses it for SAME_UPPER, the start otherwise.
  CHECK(values_of(run(model({stride, attr_s("auto_pad", "SAME_UPPER")}))) ==
        Floats{0, 0, 1, 10, 102, 20});
  CHECK(values_of(run(model({stride, attr_s("auto_pad", "SAME_LOWER")}))) ==
        Floats{0, 1, 10, 102, 20, 200});
  CHECK(values_of(run(model({stride, attr("output_shape", Ints{1, 8})}))) ==
        Floats{0, 0, 1, 10, 102, 20, 200, 0});
  CHECK(says(model({stride, attr("output_shape", Ints{1, 9})}),
             "output_pad 2 is not below stride 2"));
  CHECK(says(model({attr("kernel_shape", Ints{1, 2})}), "but the weight has [1,3]"));
  // One spatial axis.
  CHECK(values_of(run(OnnxWriter(11)
                          .input("x", {1, 1, 2})
                          .floats("w", {1, 1, 2}, {1, 10})
                          .node("ConvTranspose", {"x", "w"}, {"y"}, {attr("strides", Ints{2})})
                          .output("y"))) == Floats{0, 0, 1, 10});
}

TEST_CASE("onnx operators: one spatial axis") {
  const auto conv =
      OnnxWriter(13)
          .input("x", {1, 2, 4})
          .floats("w", {1, 2, 2}, {1, 1, 10, 10})
          .node("Conv", {"x", "w"}, {"y"}, {attr("pads", Ints{1, 0}), attr("strides", Ints{2})})
          .output("y");
  CHECK(values_of(run(conv)) == Floats{40, 113});
  CHECK(to_string(run(conv).shape()) == "[1,1,2]");
  CHECK(values_of(run(unary(13, "MaxPool", {1, 1, 5},
                            {attr("kernel_shape", Ints{3}), attr("strides", Ints{2})}))) ==
        Floats{2, 4});
  CHECK(values_of(run(unary(13, "AveragePool", {1, 1, 4}, {attr("kernel_shape", Ints{2})}))) ==
        Floats{0.5f, 1.5f, 2.5f});
  CHECK(values_of(run(unary(13, "GlobalAveragePool", {1, 2, 3}))) == Floats{1, 4});
}

TEST_CASE("onnx operators: normalisations are written out") {
  const auto norm =
      OnnxWriter(6)
          .input("x", {1, 2, 1, 2})
          .floats("s", {2}, {2, 1})
          .floats("b", {2}, {10, 20})
          .node("InstanceNormalization", {"x", "s", "b"}, {"y"}, {attr_f("epsilon", 0.75f)})
          .output("y");
  // d = -+1/2, variance 1/4, root 1.
  CHECK(values_of(run(norm)) == Floats{9, 11, 19.5f, 20.5f});
  CHECK(says(unary(13, "LRN", {1, 3, 1, 1}), "attribute 'size' is required"));
  // x = 0, 1, 2 over 3 channels; sums of squares of neighbours 1, 5, 5.
  CHECK(close(values_of(run(unary(13, "LRN", {1, 3, 1, 1},
                                  {attr("size", 3), attr_f("alpha", 3.0f), attr_f("beta", 1.0f),
                                   attr_f("bias", 1.0f)}))),
              {0, 1.0f / 6, 2.0f / 6}));
  // Even sizes reach one further up.
  CHECK(close(values_of(run(unary(13, "LRN", {1, 3, 1, 1},
                                  {attr("size", 2), attr_f("alpha", 2.0f), attr_f("beta", 1.0f),
                                   attr_f("bias", 1.0f)}))),
              {0, 1.0f / 6, 2.0f / 5}));
  // Before 13 over all axes from 1 on.
  CHECK(close(values_of(run(unary(11, "LogSoftmax", {1, 2, 1}))), {-1.3132616f, -0.31326166f}));
  CHECK(close(values_of(run(unary(13, "LogSoftmax", {1, 1, 2}))), {-1.3132616f, -0.31326166f}));
  CHECK(close(values_of(run(unary(11, "LpPool", {1, 1, 1, 4}, {attr("kernel_shape", Ints{1, 2})}))),
              {1, std::sqrt(5.0f), std::sqrt(13.0f)}));
  CHECK(close(values_of(run(unary(11, "GlobalLpPool", {1, 1, 1, 3}, {attr("p", 1)}))), {3}));
}

TEST_CASE("onnx operators: casts to narrower floats round, others keep the bits") {
  const auto cast = [](int to, int declared) {
    return OnnxWriter(13)
        .input("x", {2})
        .floats("third", {}, {1.0f / 3})
        .node("Mul", {"x", "third"}, {"t"})
        .node("Cast", {"t"}, {"y"}, {attr("to", to)})
        .output("y", declared);
  };
  constexpr int kBfloat16 = 16;
  CHECK(values_of(run(cast(kOnnxHalf, kOnnxHalf)))[1] == 0x1.554p-2f);
  CHECK(values_of(run(cast(kBfloat16, kBfloat16)))[1] == 0x1.56p-2f);
  CHECK(values_of(run(cast(kOnnxDouble, kOnnxDouble)))[1] == 1.0f / 3);
  auto graph = import(cast(kOnnxHalf, kOnnxHalf));
  REQUIRE(graph.ok());
  CHECK(count(*graph, ir::Op::kCast) == 1);
}

TEST_CASE("onnx operators: blocks of channels and of pixels") {
  const auto to_space = unary(13, "DepthToSpace", {1, 4, 1, 1}, {attr("blocksize", 2)});
  CHECK(values_of(run(to_space)) == Floats{0, 1, 2, 3});
  CHECK(values_of(run(unary(13, "DepthToSpace", {1, 8, 1, 1}, {attr("blocksize", 2)}))) ==
        Floats{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(values_of(run(unary(13, "DepthToSpace", {1, 8, 1, 1},
                            {attr("blocksize", 2), attr_s("mode", "CRD")}))) ==
        Floats{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(values_of(run(unary(13, "SpaceToDepth", {1, 1, 2, 2}, {attr("blocksize", 2)}))) ==
        Floats{0, 1, 2, 3});
  CHECK(says(unary(13, "DepthToSpace", {1, 6, 1, 1}, {attr("blocksize", 2)}), "does not divide"));
}
