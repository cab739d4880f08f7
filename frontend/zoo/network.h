// Layers with seeded parameters on top of ir::Builder: what the topologies of the zoo are written
// in. A zoo topology is fixed text of this program, so a shape that does not fit is a bug, not a
// user error. Internal to this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/builder.h"

namespace driftc::frontend::zoo {

struct ConvOptions {
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t pad = -1;  // on all four sides; -1: kernel / 2 ("same" for odd kernels)
  std::int64_t groups = 1;
  bool bias = false;
};

class Network {
 public:
  explicit Network(std::string name) : graph_(std::move(name)) {}

  ir::ValueId input(std::string name, ir::Shape shape);
  // `name` is the value's name; parameters are `name`.weight, `name`.bias, ... as PyTorch calls
  // them.
  ir::ValueId conv(std::string_view name, ir::ValueId x, std::int64_t channels,
                   ConvOptions options);
  ir::ValueId batch_norm(std::string_view name, ir::ValueId x);
  ir::ValueId relu(std::string_view name, ir::ValueId x);
  ir::ValueId relu6(std::string_view name, ir::ValueId x);
  ir::ValueId add(std::string_view name, ir::ValueId a, ir::ValueId b);
  ir::ValueId max_pool(std::string_view name, ir::ValueId x, std::int64_t kernel,
                       std::int64_t stride, std::int64_t pad);
  ir::ValueId avg_pool(std::string_view name, ir::ValueId x, std::int64_t kernel,
                       std::int64_t stride);
  ir::ValueId global_avg_pool(std::string_view name, ir::ValueId x);
  ir::ValueId flatten(std::string_view name, ir::ValueId x);
  ir::ValueId linear(std::string_view name, ir::ValueId x, std::int64_t features);
  ir::ValueId softmax(std::string_view name, ir::ValueId x);

  const ir::Shape& shape(ir::ValueId v) const { return graph_.value(v).type.shape; }
  ir::Graph finish(ir::ValueId output);

 private:
  ir::ValueId op(ir::Op op, std::vector<ir::ValueId> operands, const ir::AttributeList& attributes,
                 std::string_view name);
  ir::ValueId weight(std::string name, ir::Shape shape);
  ir::ValueId shift(std::string name, std::int64_t count);
  ir::ValueId scale(std::string name, std::int64_t count);

  ir::Graph graph_;
};

}  // namespace driftc::frontend::zoo
