#include "emitted.h"

#include <memory>

#include "ir/schedule.h"
#include "ir/support/rng.h"

namespace driftc::bench {

codegen::KernelCache& cache() {
  static codegen::KernelCache instance = [] {
    const Settings settings = Settings::from_env();
    auto nvrtc = codegen::Nvrtc::load(settings);
    return codegen::KernelCache({settings.cache_dir, {}},
                                nvrtc.ok() ? std::optional(*nvrtc) : std::nullopt);
  }();
  return instance;
}

EmittedKernel::EmittedKernel(ir::Algorithm algorithm, std::string_view order, ir::Layout layout)
    : layout_(layout) {
  kernel_.algorithm = algorithm;
  kernel_.body = ir::Graph("body");
  if (order.empty()) return;
  kernel_.contract.order = ir::parse_order(order).value();
  if (kernel_.contract.order->arith == ir::Arith::kMma)
    kernel_.contract.in = ir::operand_precision(kernel_.contract.order->mma);
}

ir::ValueId EmittedKernel::input(const char* name, ir::Shape shape, ir::Layout layout) {
  return kernel_.body.add_input(name, {ir::DType::kF32, std::move(shape), layout});
}

ir::ValueId EmittedKernel::add(ir::Op op, std::vector<ir::ValueId> operands,
                               const ir::AttributeList& attributes) {
  ir::Builder builder(kernel_.body);
  last_ = builder.add(op, operands, attributes, "y").value();
  return last_;
}

bool EmittedKernel::finish(benchmark::State& state, const std::optional<ir::Schedule>& schedule) {
  kernel_.body.set_outputs({last_});
  kernel_.body.set_layout(last_, layout_);
  if (schedule)
    kernel_.schedule = *schedule;
  else if (kernel_.contract.order)
    kernel_.schedule = ir::default_schedule(kernel_.algorithm, kernel_.body,
                                            *kernel_.contract.order, layout_, 132);
  ir::Graph graph("bench");
  ir::Node node;
  node.op = ir::Op::kKernel;
  std::vector<ir::TensorType> types;
  for (ir::ValueId v : kernel_.body.inputs()) {
    types.push_back(kernel_.body.value(v).type);
    node.operands.push_back(graph.add_input(kernel_.body.value(v).name, types.back()));
  }
  const ir::TensorType type = kernel_.body.value(last_).type;
  node.kernel = std::make_shared<const ir::Kernel>(kernel_);
  const auto lowered = codegen::lower(graph, graph.add_node(std::move(node), "y", type));
  if (!lowered.ok()) return state.SkipWithError(lowered.error().message.c_str()), false;
  auto compiled = runtime::compile(*lowered, cache(), "compute_90");
  if (!compiled.ok()) return state.SkipWithError(compiled.error().message.c_str()), false;
  compiled_ = *std::move(compiled);
  ptx_ = compiled_->ptx[0].ptx;

  std::vector<ir::Tensor> tensors;
  for (std::size_t i = 0; i < types.size(); ++i) {
    tensors.emplace_back(ir::DType::kF32, types[i].shape);
    fill(Distribution::kRandom, 1, i == 0 ? "x" : "w", tensors.back().data_mut<float>());
    operands_.push_back(runtime::upload(tensors.back(), types[i].layout));
  }
  for (const auto& p : lowered->preparations)
    prepared_.push_back(runtime::prepare_operand(p, tensors[static_cast<std::size_t>(p.operand)]));
  result_.emplace(type);
  return true;
}

void EmittedKernel::run(benchmark::State& state, int threads, runtime::ptx::Path path, bool check) {
  runtime::ptx::limit_path(path);
  runtime::ThreadPool pool(threads);
  for (auto _ : state) {
    const auto ran =
        runtime::run(*compiled_, operands_, prepared_, *result_, pool, {.check = check});
    if (!ran.ok()) {
      state.SkipWithError(ran.error().message.c_str());
      break;
    }
  }
  runtime::ptx::limit_path(runtime::ptx::Path::kAvx512);
}

}  // namespace driftc::bench
