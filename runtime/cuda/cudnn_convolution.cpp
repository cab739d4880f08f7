#include "runtime/cuda/cudnn_convolution.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "runtime/cuda/cudnn_graph.h"
#include "runtime/cuda/event.h"
#include "runtime/kernel_runner.h"

namespace driftc::runtime::cuda {
namespace {

std::string during(const EngineChoice& choice) {
  return fmt::format("cuDNN engine {}", choice.engine);
}

}  // namespace

Result<std::shared_ptr<CudnnExecutor>> CudnnExecutor::open(const Settings& environment,
                                                           std::shared_ptr<Gpu> gpu) {
  DRIFTC_TRY(api, load_cudnn(environment));
  if (!api->can_execute())
    return unavailable(
        fmt::format("{} is no usable cuDNN: it cannot execute a plan", api->library.path()));
  DRIFTC_CHECK(gpu->use());
  std::shared_ptr<CudnnExecutor> out(new CudnnExecutor(api, std::move(gpu)));
  if (const int status = api->create_handle(&out->handle_); status != kCudnn_STATUS_SUCCESS) {
    out->handle_ = nullptr;
    return cudnn_error(*api, "cudnnCreate", status);
  }
  if (const int status = api->set_stream(out->handle_, out->gpu_->stream());
      status != kCudnn_STATUS_SUCCESS)
    return cudnn_error(*api, "cudnnSetStream", status);
  return out;
}

CudnnExecutor::~CudnnExecutor() {
  if (handle_ == nullptr) return;
  (void)gpu_->use();
  api_->destroy_handle(handle_);
}

Result<CudnnConvolution> CudnnExecutor::convolution(const ConvProblem& problem,
                                                    const PytorchFlags& flags) {
  DRIFTC_CHECK(gpu_->use());
  DRIFTC_TRY(built, build(api_, problem, handle_));
  auto graph = std::make_unique<ConvGraph>(std::move(built));
  for (const int mode : {kCudnn_HEUR_MODE_INSTANT, kCudnn_HEUR_MODE_FALLBACK}) {
    DRIFTC_TRY(configs, configurations(api_, *graph, nullptr, mode));
    for (Descriptor& config : configs) {
      DRIFTC_TRY(choice, describe(api_, config, problem.dtype));
      choice.fallback = mode == kCudnn_HEUR_MODE_FALLBACK;
      if (!pytorch_choice({choice}, problem.dtype, flags)) continue;
      DRIFTC_TRY(plan, Descriptor::create(api_, kCudnn_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
      DRIFTC_CHECK(plan.set(kCudnn_ATTR_EXECUTION_PLAN_HANDLE, kCudnn_TYPE_HANDLE, 1, &handle_));
      DRIFTC_CHECK(plan.set_descriptor(kCudnn_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
      if (plan.try_finalize() != kCudnn_STATUS_SUCCESS) continue;
      return CudnnConvolution(shared_from_this(), problem, std::move(graph), std::move(config),
                              std::move(plan), std::move(choice));
    }
  }
  return unavailable("cuDNN has no engine on this GPU that PyTorch would take");
}

CudnnConvolution::CudnnConvolution(std::shared_ptr<CudnnExecutor> executor, ConvProblem problem,
                                   std::unique_ptr<ConvGraph> graph, Descriptor config,
                                   Descriptor plan, EngineChoice choice)
    : executor_(std::move(executor)),
      problem_(std::move(problem)),
      graph_(std::move(graph)),
      config_(std::move(config)),
      plan_(std::move(plan)),
      choice_(std::move(choice)) {}
CudnnConvolution::CudnnConvolution(CudnnConvolution&&) noexcept = default;
CudnnConvolution::~CudnnConvolution() = default;

Result<ir::Tensor> CudnnConvolution::run(const ir::Tensor& x, const ir::Tensor& w) {
  DRIFTC_ASSERT(x.shape().dims() == problem_.x && w.shape().dims() == problem_.w &&
                    problem_.dtype == ir::DType::kF32,
                "operands of another convolution");
  Gpu& gpu = *executor_->gpu_;
  DRIFTC_CHECK(gpu.use());
  const std::string what = during(choice_);
  auto place = [&](DeviceBuffer& buffer, const ir::Tensor& tensor) -> Result<void> {
    const DeviceTensor stored = upload(tensor, problem_.layout);
    DRIFTC_TRY(taken, gpu.allocate(stored.byte_count(), what));
    buffer = std::move(taken);
    return gpu.upload(buffer.address(), std::as_const(stored).data(), stored.byte_count(), what);
  };
  DRIFTC_CHECK(place(x_, x));
  DRIFTC_CHECK(place(w_, w));
  DeviceTensor result({ir::DType::kF32, ir::Shape(problem_.y), problem_.layout});
  DRIFTC_TRY(y, gpu.allocate(result.byte_count(), what));
  y_ = std::move(y);
  std::int64_t bytes = 0;
  DRIFTC_CHECK(plan_.read(kCudnn_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, kCudnn_TYPE_INT64, 1, &bytes));
  if (bytes > 0) {
    DRIFTC_TRY(workspace, gpu.allocate(static_cast<std::size_t>(bytes), what + ", workspace"));
    workspace_ = std::move(workspace);
  }
  DRIFTC_CHECK(queue());
  DRIFTC_CHECK(gpu.download(result.data(), y_.address(), result.byte_count(), what));
  return download(result);
}

Result<void> CudnnConvolution::queue() {
  const auto& api = executor_->api_;
  DRIFTC_TRY(pack, Descriptor::create(api, kCudnn_BACKEND_VARIANT_PACK_DESCRIPTOR));
  const std::array<std::int64_t, 3> ids = {'x', 'w', 'y'};
  const std::array<DevicePointer, 3> pointers = {x_.address(), w_.address(), y_.address()};
  const DevicePointer workspace = workspace_.address();
  DRIFTC_CHECK(pack.set(kCudnn_ATTR_VARIANT_PACK_UNIQUE_IDS, kCudnn_TYPE_INT64, 3, ids.data()));
  DRIFTC_CHECK(
      pack.set(kCudnn_ATTR_VARIANT_PACK_DATA_POINTERS, kCudnn_TYPE_VOID_PTR, 3, pointers.data()));
  DRIFTC_CHECK(pack.set(kCudnn_ATTR_VARIANT_PACK_WORKSPACE, kCudnn_TYPE_VOID_PTR, 1, &workspace));
  DRIFTC_CHECK(pack.finalize());
  if (const int status = api->execute(executor_->handle_, plan_.get(), pack.get());
      status != kCudnn_STATUS_SUCCESS)
    return cudnn_error(*api, "cudnnBackendExecute of engine " + std::to_string(choice_.engine),
                       status);
  return {};
}

Result<std::vector<double>> CudnnConvolution::time(int runs) {
  return timed(*executor_->gpu_, runs, [&] { return queue(); });
}

}  // namespace driftc::runtime::cuda
