// What each operator means at each operator set: one small model per trap, run in the interpreter.
#include <cmath>
#include <limits>

#include "tests/unit/onnx_writer.h"

using namespace driftc;
using namespace driftc::test;
using Floats = std::vector<float>;

TEST_CASE("onnx ops: Conv with auto_pad, asymmetric pads, groups and dilations") {
  const auto conv = [](const std::vector<std::string>& attributes, Ints x, Ints w) {
    Floats ones(1);
    std::int64_t n = 1;
    for (auto d : w) n *= d;
    ones.assign(static_cast<std::size_t>(n), 1.0f);
    return OnnxWriter(13)
        .input("x", x)
        .floats("w", w, ones)
        .node("Conv", {"x", "w"}, {"y"}, attributes)
        .output("y");
  };
  // x = 0..3 in a row; a 1x2 kernel of ones.
  CHECK(values_of(run(conv({attr_s("auto_pad", "SAME_UPPER")}, {1, 1, 1, 4}, {1, 1, 1, 2}))) ==
        Floats{1, 3, 5, 3});
  CHECK(values_of(run(conv({attr_s("auto_pad", "SAME_LOWER")}, {1, 1, 1, 4}, {1, 1, 1, 2}))) ==
        Floats{0, 1, 3, 5});
  CHECK(values_of(run(conv({attr_s("auto_pad", "VALID")}, {1, 1, 1, 4}, {1, 1, 1, 2}))) ==
        Floats{1, 3, 5});
  CHECK(values_of(run(conv({attr("pads", Ints{0, 2, 0, 1})}, {1, 1, 1, 4}, {1, 1, 1, 2}))) ==
        Floats{0, 0, 1, 3, 5, 3});
  CHECK(values_of(run(conv({attr("dilations", Ints{1, 2}), attr("kernel_shape", Ints{1, 2})},
                           {1, 1, 1, 4}, {1, 1, 1, 2}))) == Floats{2, 4});
  CHECK(values_of(run(conv({attr_s("auto_pad", "SAME_UPPER"), attr("strides", Ints{1, 3})},
                           {1, 1, 1, 4}, {1, 1, 1, 1}))) == Floats{0, 3});
  CHECK(values_of(run(conv({attr("group", 2)}, {1, 2, 1, 2}, {2, 1, 1, 1}))) == Floats{0, 1, 2, 3});

  CHECK(error_of(conv({attr("group", 3)}, {1, 2, 1, 2}, {2, 1, 1, 1})) ==
        "net.onnx: error: node 'Conv_0' (Conv): attribute 'group' = 3 does not fit input [1,2,1,2] "
        "and "
        "weight [2,1,1,1]\n  hint: group must divide both channel counts, and the weight's second "
        "extent "
        "is C/group\n");
  CHECK(error_of(conv({attr("kernel_shape", Ints{3, 3})}, {1, 1, 4, 4}, {1, 1, 2, 2}))
            .find("attribute 'kernel_shape' is [3,3], but the weight has [2,2]") !=
        std::string::npos);
  CHECK(error_of(conv({attr("strides", Ints{1, 0})}, {1, 1, 4, 4}, {1, 1, 2, 2}))
            .find("attribute 'strides' holds 0") != std::string::npos);
  CHECK(error_of(conv({attr("strides", Ints{1})}, {1, 1, 4, 4}, {1, 1, 2, 2}))
            .find("attribute 'strides' has 1 entries, needs 2") != std::string::npos);
  CHECK(error_of(conv({attr_s("auto_pad", "SAME")}, {1, 1, 4, 4}, {1, 1, 2, 2}))
            .find("attribute 'auto_pad' is 'SAME'") != std::string::npos);
  CHECK(error_of(conv({attr_s("auto_pad", "VALID"), attr("pads", Ints{1, 1, 1, 1})}, {1, 1, 4, 4},
                      {1, 1, 2, 2}))
            .find("attribute 'pads' contradicts 'auto_pad' = VALID") != std::string::npos);
  CHECK(error_of(conv({}, {1, 1, 4, 4, 4}, {1, 1, 2, 2, 2}))
            .find("only one or two spatial dimensions") != std::string::npos);
  CHECK(error_of(conv({}, {1, 1, 4}, {1, 1, 2, 2})).find("the input has 1 spatial axes") !=
        std::string::npos);
  CHECK(error_of(conv({}, {1, 1, 2, 2}, {1, 1, 3, 3})).find("does not fit input") !=
        std::string::npos);
  CHECK(error_of(conv({attr("groups", 1)}, {1, 1, 4, 4}, {1, 1, 2, 2}))
            .find("node 'Conv_0' (Conv): attribute 'groups' is unknown at operator set 13") !=
        std::string::npos);
  CHECK(error_of(conv({attr_s("group", "one")}, {1, 1, 4, 4}, {1, 1, 2, 2}))
            .find("attribute 'group' is a string, must be an integer") != std::string::npos);
}

TEST_CASE("onnx ops: pooling") {
  const auto pool = [](std::int64_t opset, const char* op, std::vector<std::string> attributes) {
    return OnnxWriter(opset)
        .input("x", {1, 1, 1, 5})
        .node(op, {"x"}, {"y"}, attributes)
        .output("y");
  };
  const std::string kernel = attr("kernel_shape", Ints{1, 2});
  CHECK(values_of(run(pool(8, "MaxPool", {kernel}))) == Floats{1, 2, 3, 4});
  CHECK(values_of(run(
            pool(10, "MaxPool", {kernel, attr("strides", Ints{1, 2}), attr("ceil_mode", 1)}))) ==
        Floats{1, 3, 4});
  CHECK(values_of(run(pool(10, "MaxPool", {kernel, attr("dilations", Ints{1, 3})}))) ==
        Floats{3, 4});
  // Padding does not count, unless asked for; before operator set 7 it could not be asked for.
  const std::string pads = attr("pads", Ints{0, 1, 0, 1});
  CHECK(values_of(run(pool(6, "AveragePool", {kernel, pads}))) == Floats{0, 0.5, 1.5, 2.5, 3.5, 4});
  CHECK(values_of(run(pool(7, "AveragePool", {kernel, pads, attr("count_include_pad", 1)}))) ==
        Floats{0, 0.5, 1.5, 2.5, 3.5, 2});
  CHECK(error_of(pool(6, "AveragePool", {kernel, attr("count_include_pad", 1)}))
            .find("'count_include_pad' is unknown at operator set 6") != std::string::npos);
  CHECK(values_of(run(pool(11, "AveragePool", {kernel, attr_s("auto_pad", "SAME_LOWER")}))) ==
        Floats{0, 0.5, 1.5, 2.5, 3.5});
  CHECK(values_of(run(pool(13, "GlobalAveragePool", {}))) == Floats{2});
  CHECK(error_of(pool(13, "MaxPool", {})).find("attribute 'kernel_shape' is required") !=
        std::string::npos);
  // The second output of MaxPool is not computed; naming it does no harm, reading it does.
  auto named =
      OnnxWriter(12).input("x", {1, 1, 1, 5}).node("MaxPool", {"x"}, {"y", "where"}, {kernel});
  CHECK(error_of(OnnxWriter(named).output("y")) == "(accepted)");
  CHECK(error_of(OnnxWriter(named).output("where", kOnnxInt64))
            .find("output 'where' is used, but driftc does not compute it") != std::string::npos);
}

TEST_CASE("onnx ops: binary operators before and after operator set 7") {
  const auto add = [](std::int64_t opset, Ints b, std::vector<std::string> attributes) {
    std::int64_t n = 1;
    for (auto d : b) n *= d;
    Floats values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 100.0f * static_cast<float>(i + 1);
    return OnnxWriter(opset)
        .input("a", {1, 2, 2})
        .floats("b", b, values)
        .node("Add", {"a", "b"}, {"y"}, attributes)
        .output("y");
  };
  CHECK(values_of(run(add(7, {2}, {}))) == Floats{100, 201, 102, 203});
  CHECK(values_of(run(add(7, {2, 1}, {}))) == Floats{100, 101, 202, 203});
  CHECK(values_of(run(add(6, {2}, {attr("broadcast", 1)}))) == Floats{100, 201, 102, 203});
  CHECK(values_of(run(add(6, {2}, {attr("broadcast", 1), attr("axis", 1)}))) ==
        Floats{100, 101, 202, 203});
  CHECK(error_of(add(6, {2}, {})).find("'broadcast' is 0") != std::string::npos);
  CHECK(error_of(add(6, {2}, {attr("broadcast", 1), attr("axis", 3)}))
            .find("attribute 'axis' = 3 does not place [2] in [1,2,2]") != std::string::npos);
  CHECK(error_of(add(7, {2}, {attr("broadcast", 1)})).find("unknown at operator set 7") !=
        std::string::npos);
  CHECK(error_of(add(7, {3}, {})).find("operands do not broadcast") != std::string::npos);

  // Sum of three, left to right: (2^24 + 1) + 1 stays 2^24 in f32.
  auto sum = OnnxWriter(8)
                 .floats("a", {1}, {0x1p24f})
                 .floats("b", {1}, {1})
                 .floats("c", {1}, {1})
                 .node("Sum", {"a", "b", "c"}, {"y"})
                 .output("y");
  CHECK(values_of(run(sum)) == Floats{0x1p24f});
  CHECK(values_of(run(OnnxWriter(8).input("x", {2}).node("Sum", {"x"}, {"y"}).output("y"))) ==
        Floats{0, 1});
}

TEST_CASE("onnx ops: Clip as attributes and as inputs") {
  const auto clip = [](OnnxWriter model, std::vector<std::string> in,
                       std::vector<std::string> attributes) {
    return model.input("x", {5}).node("Clip", in, {"y"}, attributes).output("y");
  };
  CHECK(values_of(run(clip(OnnxWriter(6), {"x"}, {attr_f("min", 1), attr_f("max", 3)}))) ==
        Floats{1, 1, 2, 3, 3});
  auto limits = OnnxWriter(11).floats("lo", {}, {1}).floats("hi", {}, {3});
  CHECK(values_of(run(clip(limits, {"x", "lo", "hi"}, {}))) == Floats{1, 1, 2, 3, 3});
  CHECK(values_of(run(clip(limits, {"x", "", "hi"}, {}))) == Floats{0, 1, 2, 3, 3});
  CHECK(values_of(run(clip(limits, {"x"}, {}))) == Floats{0, 1, 2, 3, 4});
  CHECK(error_of(clip(OnnxWriter(11), {"x"}, {attr_f("min", 1)}))
            .find("unknown at operator set 11") != std::string::npos);
  CHECK(error_of(OnnxWriter(11)
                     .input("x", {5})
                     .input("lo", {})
                     .node("Clip", {"x", "lo"}, {"y"})
                     .output("y"))
            .find("input 1 'lo' (min) must be a constant") != std::string::npos);
  // The default limits are finite.
  auto graph = import(clip(OnnxWriter(11), {"x"}, {}));
  REQUIRE(graph.ok());
  CHECK(graph->producer(graph->outputs()[0])->number("max") ==
        static_cast<double>(std::numeric_limits<float>::max()));
}

TEST_CASE("onnx ops: BatchNormalization is inference in every version") {
  const auto bn = [](std::int64_t opset, std::vector<std::string> attributes,
                     std::vector<std::string> outputs = {"y"}) {
    return OnnxWriter(opset)
        .input("x", {1, 2, 1, 1})
        .floats("s", {2}, {2, 3})
        .floats("b", {2}, {10, 20})
        .floats("m", {2}, {0, 1})
        .floats("v", {2}, {1, 4})
        .node("BatchNormalization", {"x", "s", "b", "m", "v"}, outputs, attributes)
        .output(outputs.back());
  };
  const std::string no_epsilon = attr_f("epsilon", 0);
  CHECK(values_of(run(bn(9, {no_epsilon}))) == Floats{10, 20});
  CHECK(values_of(run(bn(6, {no_epsilon, attr("is_test", 0)}))) == Floats{10, 20});
  CHECK(values_of(run(bn(7, {no_epsilon, attr("spatial", 1), attr_f("momentum", 0.9f)}))) ==
        Floats{10, 20});
  CHECK(error_of(bn(7, {attr("spatial", 0)})).find("attribute 'spatial' = 0") != std::string::npos);
  CHECK(error_of(bn(9, {attr("spatial", 1)})).find("unknown at operator set 9") !=
        std::string::npos);
  CHECK(error_of(bn(15, {attr("training_mode", 1)})).find("attribute 'training_mode' = 1") !=
        std::string::npos);
  CHECK(error_of(bn(9, {}, {"y", "mean"})).find("output 'mean' is used") != std::string::npos);
  auto graph = import(bn(9, {}));
  REQUIRE(graph.ok());
  CHECK(graph->producer(graph->outputs()[0])->number("epsilon") == 0x1.4f8b58p-17);
}

TEST_CASE("onnx ops: MatMul and Gemm") {
  const auto matmul = [](Ints a, Ints b) {
    return OnnxWriter(13).input("a", a).input("b", b).node("MatMul", {"a", "b"}, {"y"}).output("y");
  };
  CHECK(run(matmul({2, 3}, {3, 4})).shape() == ir::Shape{2, 4});
  CHECK(run(matmul({3}, {3, 4})).shape() == ir::Shape{4});
  CHECK(run(matmul({2, 3}, {3})).shape() == ir::Shape{2});
  const auto dot = run(matmul({3}, {3}));
  CHECK(dot.shape() == ir::Shape{});
  CHECK(values_of(dot) == Floats{5});
  CHECK(run(matmul({5, 2, 3}, {3})).shape() == ir::Shape{5, 2});
  CHECK(run(matmul({3}, {5, 3, 2})).shape() == ir::Shape{5, 2});
  CHECK(error_of(matmul({2, 3}, {4, 2}))
            .find("node 'MatMul_0' (MatMul): 'matmul' inner extents differ") != std::string::npos);

  const auto gemm = [](std::int64_t opset, bool with_c, std::vector<std::string> attributes) {
    OnnxWriter model(opset);
    model.input("a", {1, 2}).floats("b", {2, 2}, {1, 2, 3, 4}).floats("c", {2}, {10, 20});
    return model
        .node("Gemm",
              with_c ? std::vector<std::string>{"a", "b", "c"} : std::vector<std::string>{"a", "b"},
              {"y"}, attributes)
        .output("y");
  };
  CHECK(values_of(run(gemm(11, false, {}))) == Floats{3, 4});
  CHECK(values_of(run(gemm(7, true, {attr("transB", 1)}))) == Floats{12, 24});
  CHECK(values_of(run(gemm(13, true, {attr_f("alpha", 2), attr_f("beta", 0.5f)}))) ==
        Floats{11, 18});
  CHECK(values_of(run(gemm(6, true, {attr("broadcast", 1)}))) == Floats{13, 24});
  CHECK(error_of(gemm(6, true, {})).find("input 2 'c' has shape [2] and 'broadcast' is 0") !=
        std::string::npos);
  CHECK(error_of(gemm(9, false, {})).find("takes 3 input(s), 2 given") != std::string::npos);
}

TEST_CASE("onnx ops: Softmax flattens before operator set 13") {
  const auto softmax = [](std::int64_t opset, std::vector<std::string> attributes) {
    return OnnxWriter(opset)
        .input("x", {1, 2, 2})
        .node("Softmax", {"x"}, {"y"}, attributes)
        .output("y");
  };
  // exp within 1 ulp, so 2 u of its value (ir/exp_steps.h), above and below the line; a sum of at
  // most four positive terms, 3 u; a division, u: 8 u of the result (u = 2^-24), and a little for
  // the second order. The differences in exp's argument are exact, `wanted` is made in f64.
  const auto near = [](const ir::Tensor& t, const std::vector<double>& wanted) {
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (std::abs(t.data<float>()[i] - wanted[i]) > 8 * 0x1p-24 * (1 + 0x1p-20) * wanted[i])
        return false;
    return t.shape() == ir::Shape{1, 2, 2};
  };
  const double e = std::exp(1.0), all = 1 + e + e * e + e * e * e;
  CHECK(near(run(softmax(9, {})), {1 / all, e / all, e * e / all, e * e * e / all}));
  CHECK(near(run(softmax(9, {attr("axis", 2)})),
             {1 / (1 + e), e / (1 + e), 1 / (1 + e), e / (1 + e)}));
  CHECK(near(run(softmax(13, {})), {1 / (1 + e), e / (1 + e), 1 / (1 + e), e / (1 + e)}));
  const double f = e * e;
  CHECK(near(run(softmax(13, {attr("axis", 1)})),
             {1 / (1 + f), 1 / (1 + f), f / (1 + f), f / (1 + f)}));
  CHECK(near(run(softmax(9, {attr("axis", 3)})), {1, 1, 1, 1}));
  CHECK(error_of(softmax(13, {attr("axis", 3)})).find("attribute 'axis' is out of range") !=
        std::string::npos);
  // Where the axes behind are 1 no reshape is needed.
  auto graph =
      import(OnnxWriter(9).input("x", {1, 4, 1, 1}).node("Softmax", {"x"}, {"y"}).output("y"));
  REQUIRE(graph.ok());
  CHECK(graph->node_count() == 1);
}

TEST_CASE("onnx ops: Reshape, Flatten, Squeeze, Unsqueeze, Transpose") {
  const auto reshape = [](std::int64_t opset, Ints shape,
                          std::vector<std::string> attributes = {}) {
    return OnnxWriter(opset)
        .input("x", {2, 3, 4})
        .ints("s", shape)
        .node("Reshape", {"x", "s"}, {"y"}, attributes)
        .output("y");
  };
  CHECK(run(reshape(5 + 1, {0, -1})).shape() == ir::Shape{2, 12});
  CHECK(run(reshape(13, {-1})).shape() == ir::Shape{24});
  CHECK(run(reshape(14, {4, 6}, {attr("allowzero", 1)})).shape() == ir::Shape{4, 6});
  CHECK(error_of(reshape(14, {0, 24}, {attr("allowzero", 1)})).find("cannot turn") !=
        std::string::npos);
  CHECK(
      error_of(reshape(13, {-1, -1})).find("input 1 's' (shape) is [-1,-1]: two entries are -1") !=
      std::string::npos);
  CHECK(error_of(reshape(13, {5, -1})).find("has no whole extent for -1") != std::string::npos);
  CHECK(error_of(reshape(13, {1, 1, 1, 0})).find("copies an axis that [2,3,4] lacks") !=
        std::string::npos);
  CHECK(error_of(reshape(13, {-2, 12})).find("negative or too large") != std::string::npos);
  CHECK(error_of(reshape(13, {INT64_MAX, INT64_MAX})).find("negative or too large") !=
        std::string::npos);
  CHECK(error_of(OnnxWriter(13)
                     .input("x", {4})
                     .input("s", {1}, kOnnxInt64)
                     .node("Reshape", {"x", "s"}, {"y"})
                     .output("y"))
            .find("input 's' is int64") != std::string::npos);

  const auto one = [](std::int64_t opset, const char* op, Ints x,
                      std::vector<std::string> attributes) {
    return OnnxWriter(opset).input("x", x).node(op, {"x"}, {"y"}, attributes).output("y");
  };
  CHECK(run(one(9, "Flatten", {2, 3, 4}, {})).shape() == ir::Shape{2, 12});
  CHECK(run(one(11, "Flatten", {2, 3, 4}, {attr("axis", -1)})).shape() == ir::Shape{6, 4});
  CHECK(run(one(9, "Flatten", {2, 3, 4}, {attr("axis", 0)})).shape() == ir::Shape{1, 24});
  CHECK(run(one(9, "Squeeze", {1, 3, 1}, {})).shape() == ir::Shape{3});
  CHECK(run(one(9, "Squeeze", {1, 3, 1}, {attr("axes", Ints{-1})})).shape() == ir::Shape{1, 3});
  CHECK(error_of(one(9, "Squeeze", {1, 3, 1}, {attr("axes", Ints{1})})).find("which is not 1") !=
        std::string::npos);
  CHECK(run(one(9, "Unsqueeze", {3}, {attr("axes", Ints{0, 2})})).shape() == ir::Shape{1, 3, 1});
  CHECK(error_of(one(9, "Unsqueeze", {3}, {attr("axes", Ints{0, 0})})).find("names axis 0 twice") !=
        std::string::npos);
  CHECK(error_of(one(9, "Unsqueeze", {3}, {})).find("attribute 'axes' is required") !=
        std::string::npos);
  CHECK(values_of(run(one(9, "Transpose", {2, 3}, {}))) == Floats{0, 3, 1, 4, 2, 5});
  CHECK(run(one(9, "Transpose", {2, 3, 4}, {attr("perm", Ints{1, 0, 2})})).shape() ==
        ir::Shape{3, 2, 4});
  CHECK(
      error_of(one(9, "Transpose", {2, 3}, {attr("perm", Ints{0, 0})})).find("attribute 'perm'") !=
      std::string::npos);
  const auto with_axes = [](const char* op, Ints x, Ints axes) {
    return OnnxWriter(13).input("x", x).ints("a", axes).node(op, {"x", "a"}, {"y"}).output("y");
  };
  CHECK(run(with_axes("Squeeze", {1, 3, 1}, {0})).shape() == ir::Shape{3, 1});
  CHECK(run(with_axes("Unsqueeze", {3}, {-1})).shape() == ir::Shape{3, 1});
}

TEST_CASE("onnx ops: Slice in both forms") {
  const auto form1 = [](std::vector<std::string> attributes) {
    return OnnxWriter(9).input("x", {2, 4}).node("Slice", {"x"}, {"y"}, attributes).output("y");
  };
  const auto form10 = [](Ints starts, Ints ends, Ints axes, Ints steps) {
    return OnnxWriter(11)
        .input("x", {2, 4})
        .ints("s", starts)
        .ints("e", ends)
        .ints("a", axes)
        .ints("t", steps)
        .node("Slice", {"x", "s", "e", "a", "t"}, {"y"})
        .output("y");
  };
  CHECK(values_of(run(form1({attr("axes", Ints{1}), attr("starts", Ints{1}),
                             attr("ends", Ints{INT64_MAX})}))) == Floats{1, 2, 3, 5, 6, 7});
  CHECK(values_of(run(form1({attr("starts", Ints{0, -2}), attr("ends", Ints{1, -1})}))) ==
        Floats{2});
  CHECK(values_of(run(form10({0}, {INT64_MAX}, {-1}, {2}))) == Floats{0, 2, 4, 6});
  CHECK(values_of(run(form10({-1}, {INT64_MIN}, {1}, {-1}))) == Floats{3, 2, 1, 0, 7, 6, 5, 4});
  CHECK(values_of(run(form10({INT64_MAX}, {0}, {1}, {-2}))) == Floats{3, 1, 7, 5});
  CHECK(values_of(run(form10({0}, {100}, {1}, {INT64_MAX}))) == Floats{0, 4});
  CHECK(run(form10({3}, {1}, {1}, {1})).shape() == ir::Shape{2, 0});
  CHECK(error_of(form10({0}, {1}, {1}, {0})).find("a step is 0") != std::string::npos);
  CHECK(error_of(form10({0}, {1}, {2}, {1})).find("holds 2, out of range for [2,4]") !=
        std::string::npos);
  CHECK(error_of(form10({0, 0}, {1, 1}, {1, -1}, {1, 1})).find("names axis -1 twice") !=
        std::string::npos);
  CHECK(error_of(form10({0}, {1, 2}, {1}, {1})).find("have 1, 2, 1 and 1 entries") !=
        std::string::npos);
}

TEST_CASE("onnx ops: Pad in all forms") {
  CHECK(values_of(
            run(OnnxWriter(2 + 4)
                    .input("x", {1, 2})
                    .node("Pad", {"x"}, {"y"}, {attr("pads", Ints{0, 1, 0, 2}), attr_f("value", 9)})
                    .output("y"))) == Floats{9, 0, 1, 9, 9});
  auto form11 = OnnxWriter(13).input("x", {1, 2}).ints("p", {0, 1, 1, 0}).floats("v", {}, {7});
  CHECK(values_of(run(OnnxWriter(form11).node("Pad", {"x", "p", "v"}, {"y"}).output("y"))) ==
        Floats{7, 0, 1, 7, 7, 7});
  CHECK(values_of(run(OnnxWriter(18)
                          .input("x", {1, 2})
                          .ints("p", {1, 0})
                          .ints("a", {-1})
                          .node("Pad", {"x", "p", "", "a"}, {"y"})
                          .output("y"))) == Floats{0, 0, 1});
  CHECK(values_of(run(OnnxWriter(13)
                          .input("x", {1, 3})
                          .ints("p", {0, -1, 0, 0})
                          .node("Pad", {"x", "p"}, {"y"})
                          .output("y"))) == Floats{1, 2});
  CHECK(error_of(OnnxWriter(form11)
                     .node("Pad", {"x", "p"}, {"y"}, {attr_s("mode", "reflect")})
                     .output("y"))
            .find("attribute 'mode' is 'reflect'") != std::string::npos);
  CHECK(error_of(OnnxWriter(13)
                     .input("x", {1, 2})
                     .ints("p", {1, 1})
                     .node("Pad", {"x", "p"}, {"y"})
                     .output("y"))
            .find("'pads' has 2 entries, needs 4") != std::string::npos);
}

TEST_CASE("onnx ops: Concat, Dropout, Identity, Cast") {
  auto two = OnnxWriter(13).input("a", {1, 2}).input("b", {1, 1});
  CHECK(values_of(run(
            OnnxWriter(two).node("Concat", {"a", "b"}, {"y"}, {attr("axis", -1)}).output("y"))) ==
        Floats{0, 1, 0});
  CHECK(error_of(OnnxWriter(two).node("Concat", {"a", "b"}, {"y"}).output("y"))
            .find("attribute 'axis' is required") != std::string::npos);
  CHECK(error_of(OnnxWriter(two).node("Concat", {"a", "b"}, {"y"}, {attr("axis", 0)}).output("y"))
            .find("does not join") != std::string::npos);
  CHECK(values_of(run(OnnxWriter(9)
                          .input("x", {2})
                          .node("Dropout", {"x"}, {"y", "mask"}, {attr_f("ratio", 0.5f)})
                          .output("y"))) == Floats{0, 1});
  auto training = OnnxWriter(13)
                      .input("x", {2})
                      .floats("r", {}, {0.5f})
                      .initializer(raw_tensor<std::uint8_t>("t", {}, kOnnxBool, {1}))
                      .node("Dropout", {"x", "r", "t"}, {"y"})
                      .output("y");
  CHECK(error_of(training).find("only inference is supported") != std::string::npos);
  auto cast = OnnxWriter(13).input("x", {2}, kOnnxHalf);
  CHECK(values_of(run(
            OnnxWriter(cast).node("Cast", {"x"}, {"y"}, {attr("to", kOnnxFloat)}).output("y"))) ==
        Floats{0, 1});
  CHECK(error_of(OnnxWriter(13)
                     .input("x", {2})
                     .node("Cast", {"x"}, {"y"}, {attr("to", kOnnxInt64)})
                     .output("y"))
            .find("attribute 'to' = int64 of a float32 value is not supported") !=
        std::string::npos);
}

TEST_CASE("onnx ops: shape arithmetic is folded") {
  // The batch of x, read from its shape, in front of -1: the way exporters write "flatten all but
  // the batch".
  auto flatten =
      OnnxWriter(9)
          .input("x", {3, 2, 2})
          .node("Shape", {"x"}, {"shape"})
          .node("Constant", {}, {"zero"}, {attr_tensor("value", int_tensor("", {}, {0}))})
          .node("Gather", {"shape", "zero"}, {"n"}, {attr("axis", 0)})
          .node("Constant", {}, {"rest"}, {attr_tensor("value", int_tensor("", {}, {-1}))})
          .node("Unsqueeze", {"n"}, {"n1"}, {attr("axes", Ints{0})})
          .node("Unsqueeze", {"rest"}, {"rest1"}, {attr("axes", Ints{0})})
          .node("Concat", {"n1", "rest1"}, {"target"}, {attr("axis", 0)})
          .node("Reshape", {"x", "target"}, {"y"})
          .output("y");
  auto graph = import(flatten);
  REQUIRE(graph.ok());
  CHECK(graph->node_count() == 1);
  CHECK(run(flatten).shape() == ir::Shape{3, 4});

  // Halving an extent through floats, as resize code does; ConstantOfShape, Slice, Mul, Range,
  // Expand, Where.
  auto through_floats = OnnxWriter(13)
                            .input("x", {1, 10})
                            .floats("half", {}, {0.5f})
                            .ints("one", {1})
                            .ints("two", {2})
                            .node("Shape", {"x"}, {"shape"})
                            .node("Slice", {"shape", "one", "two"}, {"w"})
                            .node("Cast", {"w"}, {"wf"}, {attr("to", kOnnxFloat)})
                            .node("Mul", {"wf", "half"}, {"hf"})
                            .node("Floor", {"hf"}, {"hff"})
                            .node("Cast", {"hff"}, {"h"}, {attr("to", kOnnxInt64)})
                            .node("Div", {"w", "h"}, {"q"})
                            .node("Concat", {"q", "h"}, {"target"}, {attr("axis", 0)})
                            .node("Reshape", {"x", "target"}, {"y"})
                            .output("y");
  CHECK(run(through_floats).shape() == ir::Shape{2, 5});
  auto expand = OnnxWriter(13)
                    .input("x", {2, 3})
                    .ints("one", {1})
                    .ints("six", {6})
                    .node("Expand", {"one", "one"}, {"a"})
                    .node("Equal", {"a", "one"}, {"same"})
                    .node("Where", {"same", "six", "a"}, {"target"})
                    .node("Reshape", {"x", "target"}, {"y"})
                    .output("y");
  CHECK(run(expand).shape() == ir::Shape{6});

  auto fill = OnnxWriter(9)
                  .ints("s", {2, 2})
                  .node("ConstantOfShape", {"s"}, {"y"},
                        {attr_tensor("value", float_tensor("", {1}, {0.02f}))})
                  .output("y");
  CHECK(values_of(run(fill)) == Floats{0.02f, 0.02f, 0.02f, 0.02f});
  auto filled = import(fill);
  REQUIRE(filled.ok());
  CHECK(filled->producer(filled->outputs()[0])->literal->origin() == ir::Literal::Origin::kSplat);

  auto overflow = OnnxWriter(13)
                      .input("x", {4})
                      .ints("big", {INT64_MAX})
                      .node("Add", {"big", "big"}, {"s"})
                      .node("Reshape", {"x", "s"}, {"y"})
                      .output("y");
  CHECK(error_of(overflow).find("shape arithmetic overflows or divides by zero") !=
        std::string::npos);
  auto divide = OnnxWriter(13)
                    .input("x", {4})
                    .ints("a", {4})
                    .ints("z", {0})
                    .node("Div", {"a", "z"}, {"s"})
                    .node("Reshape", {"x", "s"}, {"y"})
                    .output("y");
  CHECK(error_of(divide).find("divides by zero") != std::string::npos);
  auto huge =
      OnnxWriter(13)
          .input("x", {4})
          .ints("n", {1 << 30})
          .node("ConstantOfShape", {"n"}, {"s"}, {attr_tensor("value", int_tensor("", {1}, {1}))})
          .node("Reshape", {"x", "s"}, {"y"})
          .output("y");
  CHECK(error_of(huge).find("allowed are 2^20 elements") != std::string::npos);
}

TEST_CASE("onnx ops: Constant in all forms") {
  const auto constant = [](const std::string& attribute) {
    return OnnxWriter(13).node("Constant", {}, {"y"}, {attribute}).output("y");
  };
  CHECK(values_of(run(constant(attr_f("value_float", 1.5f)))) == Floats{1.5f});
  CHECK(values_of(run(constant(attr_tensor("value", float_tensor("", {2}, {1, 2}))))) ==
        Floats{1, 2});
  CHECK(values_of(run(constant(attribute("value_floats", 6, [](auto& w) {
          w.add_float(7, 3);
          w.add_float(7, 4);
        })))) == Floats{3, 4});
  auto shaped = OnnxWriter(13)
                    .input("x", {2, 2})
                    .node("Constant", {}, {"s"}, {attr("value_ints", Ints{4})})
                    .node("Reshape", {"x", "s"}, {"y"})
                    .output("y");
  CHECK(run(shaped).shape() == ir::Shape{4});
  CHECK(error_of(constant(attr_s("value_string", "no"))).find("holds no value that driftc reads") !=
        std::string::npos);
}
