// The topologies. The ResNets are torchvision's: BasicBlock for 18 and 34, Bottleneck for 50 in its
// v1.5 form (the stride of a stage sits in the 3x3 convolution; v1 had it in the first 1x1).
#include "frontend/zoo/zoo.h"

#include <fmt/format.h>

#include <array>

#include "frontend/zoo/network.h"
#include "ir/support/diagnostic.h"

namespace driftc::frontend::zoo {
namespace {

using ir::Graph;
using ir::Shape;
using ir::ValueId;

struct Site {
  Network& net;
  std::string prefix;  // "layer1.0." or ""
  std::string at(const char* name) const { return prefix + name; }
};

ValueId conv_bn(const Site& s, const char* conv, const char* bn, ValueId x, std::int64_t channels,
                ConvOptions options) {
  const ValueId c = s.net.conv(s.at(conv), x, channels, options);
  return s.net.batch_norm(s.at(bn), c);
}

// The shortcut of a ResNet block: identity, or a strided 1x1 where shape or channels change.
ValueId shortcut(const Site& s, ValueId x, std::int64_t channels, std::int64_t stride) {
  if (stride == 1 && s.net.shape(x)[1] == channels) return x;
  return conv_bn(s, "downsample.0", "downsample.1", x, channels, {.kernel = 1, .stride = stride});
}

ValueId basic_block(const Site& s, ValueId x, std::int64_t channels, std::int64_t stride) {
  ValueId y = conv_bn(s, "conv1", "bn1", x, channels, {.stride = stride});
  y = s.net.relu(s.at("relu1"), y);
  y = conv_bn(s, "conv2", "bn2", y, channels, {});
  return s.net.relu(s.at("relu2"), s.net.add(s.at("add"), y, shortcut(s, x, channels, stride)));
}

ValueId bottleneck(const Site& s, ValueId x, std::int64_t width, std::int64_t stride) {
  ValueId y = conv_bn(s, "conv1", "bn1", x, width, {.kernel = 1});
  y = s.net.relu(s.at("relu1"), y);
  y = conv_bn(s, "conv2", "bn2", y, width, {.stride = stride});
  y = s.net.relu(s.at("relu2"), y);
  y = conv_bn(s, "conv3", "bn3", y, 4 * width, {.kernel = 1});
  return s.net.relu(s.at("relu3"), s.net.add(s.at("add"), y, shortcut(s, x, 4 * width, stride)));
}

Graph resnet(const char* name, std::int64_t batch, std::array<int, 4> depths, bool bottlenecks) {
  Network net(name);
  const Site top{net, ""};
  ValueId x = net.input("input", Shape{batch, 3, 224, 224});
  x = conv_bn(top, "conv1", "bn1", x, 64, {.kernel = 7, .stride = 2});
  x = net.max_pool("maxpool", net.relu("relu", x), 3, 2, 1);
  for (int stage = 0; stage < 4; ++stage)
    for (int block = 0; block < depths[static_cast<std::size_t>(stage)]; ++block) {
      const Site s{net, fmt::format("layer{}.{}.", stage + 1, block)};
      const std::int64_t width = std::int64_t{64} << stage,
                         stride = stage > 0 && block == 0 ? 2 : 1;
      x = bottlenecks ? bottleneck(s, x, width, stride) : basic_block(s, x, width, stride);
    }
  x = net.flatten("flatten", net.global_avg_pool("avgpool", x));
  return net.finish(net.linear("fc", x, 1000));
}

Graph resnet18(std::int64_t n) { return resnet("resnet18", n, {2, 2, 2, 2}, false); }
Graph resnet34(std::int64_t n) { return resnet("resnet34", n, {3, 4, 6, 3}, false); }
Graph resnet50(std::int64_t n) { return resnet("resnet50", n, {3, 4, 6, 3}, true); }

Graph conv3x3(std::int64_t n) {
  Network net("conv3x3");
  return net.finish(net.conv("conv", net.input("input", Shape{n, 64, 56, 56}), 64, {}));
}
Graph conv1x1(std::int64_t n) {
  Network net("conv1x1");
  return net.finish(net.conv("conv", net.input("input", Shape{n, 64, 56, 56}), 256, {.kernel = 1}));
}
Graph residual_block(std::int64_t n) {
  Network net("residual-block");
  return net.finish(
      basic_block({net, ""}, net.input("input", Shape{n, 32, 28, 28}), 32, /*stride=*/1));
}
Graph bottleneck_block(std::int64_t n) {
  Network net("bottleneck-block");
  return net.finish(
      bottleneck({net, ""}, net.input("input", Shape{n, 128, 14, 14}), 32, /*stride=*/1));
}
Graph downsample_block(std::int64_t n) {
  Network net("downsample-block");
  return net.finish(
      basic_block({net, ""}, net.input("input", Shape{n, 32, 28, 28}), 64, /*stride=*/2));
}
Graph depthwise_block(std::int64_t n) {
  Network net("depthwise-block");
  const Site s{net, ""};
  const ValueId x = net.input("input", Shape{n, 32, 28, 28});
  ValueId y =
      net.relu6("expand.relu6", conv_bn(s, "expand.conv", "expand.bn", x, 96, {.kernel = 1}));
  y = net.relu6("depthwise.relu6",
                conv_bn(s, "depthwise.conv", "depthwise.bn", y, 96, {.groups = 96}));
  y = conv_bn(s, "project.conv", "project.bn", y, 32, {.kernel = 1});
  return net.finish(net.add("add", x, y));
}
Graph vgg_block(std::int64_t n) {
  Network net("vgg-block");
  ValueId x = net.input("input", Shape{n, 32, 28, 28});
  x = net.relu("relu1", net.conv("conv1", x, 64, {.bias = true}));
  x = net.relu("relu2", net.conv("conv2", x, 64, {.bias = true}));
  return net.finish(net.max_pool("maxpool", x, 2, 2, 0));
}
Graph lenet(std::int64_t n) {
  Network net("lenet");
  ValueId x = net.input("input", Shape{n, 1, 28, 28});
  x = net.relu("relu1", net.conv("conv1", x, 6, {.kernel = 5, .bias = true}));
  x = net.avg_pool("pool1", x, 2, 2);
  x = net.relu("relu2", net.conv("conv2", x, 16, {.kernel = 5, .pad = 0, .bias = true}));
  x = net.flatten("flatten", net.avg_pool("pool2", x, 2, 2));
  x = net.relu("relu3", net.linear("fc1", x, 120));
  x = net.relu("relu4", net.linear("fc2", x, 84));
  return net.finish(net.softmax("softmax", net.linear("fc3", x, 10)));
}
Graph mlp(std::int64_t n) {
  Network net("mlp");
  ValueId x = net.input("input", Shape{n, 256});
  x = net.relu("relu1", net.linear("fc1", x, 128));
  x = net.relu("relu2", net.linear("fc2", x, 128));
  return net.finish(net.linear("fc3", x, 10));
}

struct Row {
  const char* name;
  const char* description;
  Graph (*make)(std::int64_t batch);
};
constexpr std::array kZoo = {
    Row{"residual-block", "conv-bn-relu-conv-bn-add-relu, 32 channels, 28x28", residual_block},
    Row{"downsample-block", "residual block with stride 2 and a 1x1 shortcut, 32->64, 28x28",
        downsample_block},
    Row{"bottleneck-block", "1x1-3x3-1x1 residual block, 128-32-128, 14x14", bottleneck_block},
    Row{"depthwise-block",
        "inverted residual (MobileNet v2): 1x1, depthwise 3x3, 1x1, relu6; 28x28", depthwise_block},
    Row{"vgg-block", "two biased 3x3 convolutions, relu, max pool, 32->64, 28x28", vgg_block},
    Row{"conv3x3", "one 3x3 convolution 64->64, 56x56", conv3x3},
    Row{"conv1x1", "one 1x1 convolution 64->256, 56x56", conv1x1},
    Row{"lenet", "LeNet-5 on 28x28, average pooling, softmax", lenet},
    Row{"mlp", "three linear layers, 256-128-128-10", mlp},
    Row{"resnet18", "ResNet-18, 3x224x224, batch norm unfolded", resnet18},
    Row{"resnet34", "ResNet-34, 3x224x224, batch norm unfolded", resnet34},
    Row{"resnet50", "ResNet-50 v1.5 (stride in the 3x3), 3x224x224, batch norm unfolded",
        resnet50}};

}  // namespace

std::vector<ZooEntry> zoo_names() {
  std::vector<ZooEntry> out;
  for (const Row& row : kZoo) out.push_back({row.name, row.description});
  return out;
}

Result<ir::Graph> zoo_graph(std::string_view name, std::int64_t batch) {
  if (batch < 1 || batch > 65536)
    return input_error(fmt::format("batch {} is out of range", batch), "1 to 65536");
  std::vector<std::string> names;
  for (const Row& row : kZoo) {
    if (name == row.name) return row.make(batch);
    names.emplace_back(row.name);
  }
  return input_error(fmt::format("unknown zoo model '{}'", name), name_hint(name, names));
}

}  // namespace driftc::frontend::zoo
