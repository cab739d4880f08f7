#include "runtime/cuda/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/cuda/event.h"

namespace driftc::runtime::cuda {
namespace {

// Hands out buffers of the plan and takes them back when a value has had its last reader;
// everything is ordered on one stream, so that the next owner may write at once.
class Places {
 public:
  Places(Gpu& gpu, std::vector<DeviceBuffer>& all) : gpu_(gpu), all_(all) {}
  Result<std::size_t> take(std::size_t bytes, const std::string& what) {
    std::size_t best = all_.size();
    for (const std::size_t i : free_)
      if (all_[i].capacity() >= bytes &&
          (best == all_.size() || all_[i].capacity() < all_[best].capacity()))
        best = i;
    if (best != all_.size()) {
      std::erase(free_, best);
      return best;
    }
    DRIFTC_TRY(buffer, gpu_.allocate(bytes, what));
    all_.push_back(std::move(buffer));
    return all_.size() - 1;
  }
  void give_back(std::size_t index) { free_.push_back(index); }
  DevicePointer address(std::size_t index) const { return all_[index].address(); }

 private:
  Gpu& gpu_;
  std::vector<DeviceBuffer>& all_;
  std::vector<std::size_t> free_;
};

std::size_t bytes_of(const ir::TensorType& type) {
  return static_cast<std::size_t>(type.shape.elements()) * ir::byte_size(type.dtype);
}

}  // namespace

Result<DevicePointer> Network::constant(const DeviceTensor& tensor, const std::string& what) {
  DRIFTC_TRY(buffer, gpu_->allocate(tensor.byte_count(), what));
  DRIFTC_CHECK(gpu_->upload(buffer.address(), tensor.data(), tensor.byte_count(), what));
  buffers_.push_back(std::move(buffer));
  return buffers_.back().address();
}

Result<std::unique_ptr<Network>> Network::build(std::shared_ptr<Gpu> gpu, const ir::Graph& graph,
                                                std::span<const CompiledKernel* const> kernels,
                                                bool as_graph) {
  DRIFTC_CHECK(gpu->use());
  std::unique_ptr<Network> out(new Network(std::move(gpu)));
  DRIFTC_CHECK(out->place(graph, kernels));
  if (as_graph) DRIFTC_CHECK(out->capture());
  return out;
}

Network::~Network() {
  if (executable_ != nullptr) gpu_->api().destroy_executable(executable_);
  if (graph_ != nullptr) gpu_->api().destroy_graph(graph_);
}

Result<void> Network::place(const ir::Graph& graph,
                            std::span<const CompiledKernel* const> kernels) {
  constexpr std::size_t kNowhere = ~std::size_t{0};
  std::vector<std::size_t> last_use(graph.value_count(), 0);
  std::vector<std::size_t> at(graph.value_count(), kNowhere);  // index of its buffer
  for (std::size_t i = 0; i < graph.node_count(); ++i)
    for (const ir::ValueId v : graph.nodes()[i].operands) last_use[v.index] = i;
  // Constants have buffers of their own, before the shared places.
  std::vector<DevicePointer> constants(graph.value_count(), 0);
  for (const ir::Node& node : graph.nodes())
    if (node.op == ir::Op::kConstant) {
      DRIFTC_TRY(address, constant(upload(node.literal->tensor(), ir::Layout::kNchw),
                                   "constant " + graph.value(node.result).name));
      constants[node.result.index] = address;
    }
  Places places(*gpu_, buffers_);
  for (const ir::ValueId input : graph.inputs()) {
    const ir::Value& value = graph.value(input);
    DRIFTC_TRY(index, places.take(bytes_of(value.type), "input " + value.name));
    // Never given back: the inputs of the last run are timed again.
    at[input.index] = index;
    last_use[input.index] = kNowhere;
    inputs_.push_back({places.address(index), value.type, true});
  }
  for (const ir::ValueId output : graph.outputs()) last_use[output.index] = kNowhere;
  auto address = [&](ir::ValueId v) {
    return at[v.index] != kNowhere ? places.address(at[v.index]) : constants[v.index];
  };
  for (std::size_t i = 0; i < graph.node_count(); ++i) {
    const ir::Node& node = graph.nodes()[i];
    if (node.op == ir::Op::kConstant) continue;
    const CompiledKernel* kernel = kernels[i];
    DRIFTC_ASSERT(kernel != nullptr, "a plan of a node without kernel");
    const ir::Value& value = graph.value(node.result);
    const std::string during = "kernel of %" + value.name;
    Step step{value.name, kernel, {}, {}};
    KernelAddresses addresses;
    for (const ir::ValueId v : node.operands) addresses.operands.push_back(address(v));
    for (const codegen::Preparation& p : kernel->lowered.preparations) {
      const ir::ValueId source = node.operands[static_cast<std::size_t>(p.operand)];
      const ir::Node* producer = graph.producer(source);
      DRIFTC_ASSERT(producer != nullptr && producer->op == ir::Op::kConstant,
                    "a plan of a network whose prepared operands are not constant");
      DRIFTC_TRY(prepared,
                 constant(prepare_operand(p, producer->literal->tensor()), codegen::to_string(p)));
      addresses.prepared.push_back(prepared);
    }
    DRIFTC_TRY(result, places.take(bytes_of(value.type), during));
    at[node.result.index] = result;
    addresses.result = places.address(result);
    std::vector<std::size_t> scratch;
    for (const codegen::Workspace& w : kernel->lowered.workspaces) {
      DRIFTC_TRY(index, places.take(static_cast<std::size_t>(w.bytes), "workspace " + w.name));
      scratch.push_back(index);
      addresses.workspaces.push_back(places.address(index));
    }
    step.workspaces = addresses.workspaces;
    for (std::size_t l = 0; l < kernel->lowered.launches.size(); ++l) {
      auto launch = DeviceLaunch::make(*gpu_, *kernel, l, addresses);
      if (!launch) {
        launch.error().message = during + ": " + launch.error().message;
        return std::move(launch.error());
      }
      step.launches.push_back(std::move(*launch));
    }
    steps_.push_back(std::move(step));
    for (const std::size_t index : scratch) places.give_back(index);
    for (const ir::ValueId v : node.operands)
      if (last_use[v.index] == i && at[v.index] != kNowhere)
        places.give_back(std::exchange(at[v.index], kNowhere));
    if (last_use[node.result.index] == 0) places.give_back(result);  // nobody reads it
  }
  for (const ir::ValueId output : graph.outputs()) {
    const bool made = at[output.index] != kNowhere;
    outputs_.push_back(
        {made ? places.address(at[output.index]) : 0, graph.value(output).type, made});
  }
  return {};
}

Result<void> Network::queue(Step& step) {
  DRIFTC_CHECK(clear_workspaces(*gpu_, *step.kernel, step.workspaces));
  for (DeviceLaunch& launch : step.launches) {
    auto queued = launch.queue(*gpu_);
    if (!queued) {
      queued.error().message = "kernel of %" + step.value + ": " + queued.error().message;
      return std::move(queued.error());
    }
  }
  return {};
}

Result<void> Network::queue_all() {
  if (executable_ != nullptr)
    return gpu_->check("cuGraphLaunch", gpu_->api().launch_graph(executable_, gpu_->stream()),
                       "the network as one CUDA graph");
  for (Step& step : steps_) DRIFTC_CHECK(queue(step));
  return {};
}

Result<void> Network::capture() {
  const std::string during = "capturing the CUDA graph";
  DRIFTC_CHECK(gpu_->check(
      "cuStreamBeginCapture",
      gpu_->api().begin_capture(gpu_->stream(), kCu_STREAM_CAPTURE_MODE_THREAD_LOCAL), during));
  Result<void> queued = queue_all();
  // Ended in any case: a stream that still captures refuses everything.
  const int status = gpu_->api().end_capture(gpu_->stream(), &graph_);
  if (!queued) return queued;
  DRIFTC_CHECK(gpu_->check("cuStreamEndCapture", status, during));
  return gpu_->check("cuGraphInstantiate", gpu_->api().instantiate(&executable_, graph_, 0),
                     during);
}

Result<std::vector<ir::Tensor>> Network::run(std::span<const ir::Tensor> inputs) {
  DRIFTC_ASSERT(inputs.size() == inputs_.size(), "a tensor per input");
  DRIFTC_CHECK(gpu_->use());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DeviceTensor stored = upload(inputs[i], inputs_[i].type.layout);
    DRIFTC_CHECK(gpu_->upload(inputs_[i].address, std::as_const(stored).data(), stored.byte_count(),
                              fmt::format("input {}", i)));
  }
  DRIFTC_CHECK(queue_all());
  DRIFTC_CHECK(gpu_->synchronize(fmt::format(
      "one of {} launches of the network (`driftc compare --executor cuda` runs them one "
      "by one and names it)",
      launches())));
  std::vector<ir::Tensor> out;
  for (const Place& place : outputs_) {
    if (!place.made) {
      out.emplace_back();
      continue;
    }
    DeviceTensor stored(place.type);
    DRIFTC_CHECK(gpu_->download(stored.data(), place.address, stored.byte_count(), "an output"));
    out.push_back(download(stored));
  }
  return out;
}

Result<std::vector<double>> Network::time(int runs) {
  return timed(*gpu_, runs, [&] { return queue_all(); });
}

Result<std::vector<double>> Network::time_kernels(int runs) {
  std::vector<double> out;
  for (Step& step : steps_) {
    DRIFTC_TRY(times, timed(*gpu_, runs, [&] { return queue(step); }));
    std::sort(times.begin(), times.end());
    out.push_back(times[times.size() / 2]);
  }
  return out;
}

std::size_t Network::launches() const {
  std::size_t total = 0;
  for (const Step& step : steps_) total += step.launches.size();
  return total;
}

}  // namespace driftc::runtime::cuda
