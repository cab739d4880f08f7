#include "runtime/cuda/cudnn_graph.h"

#include <algorithm>
#include <utility>

namespace driftc::runtime::cuda {
namespace {

using Ints = std::vector<std::int64_t>;

int data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::kF64:
      return kCudnn_DATA_DOUBLE;
    case ir::DType::kF16:
      return kCudnn_DATA_HALF;
    case ir::DType::kBF16:
      return kCudnn_DATA_BFLOAT16;
    case ir::DType::kF32:
    case ir::DType::kI64:
      break;
  }
  return kCudnn_DATA_FLOAT;
}

Result<Descriptor> tensor(const std::shared_ptr<const CudnnApi>& api, const ConvProblem& problem,
                          const Ints& dims, std::int64_t id) {
  DRIFTC_TRY(out, Descriptor::create(api, kCudnn_BACKEND_TENSOR_DESCRIPTOR));
  const Ints strides = ir::storage_strides(ir::Shape(dims), problem.layout);
  const int type = data_type(problem.dtype);
  const std::int64_t alignment = 16;  // of what PyTorch allocates
  const auto rank = static_cast<std::int64_t>(dims.size());
  DRIFTC_CHECK(out.set(kCudnn_ATTR_TENSOR_DATA_TYPE, kCudnn_TYPE_DATA_TYPE, 1, &type));
  DRIFTC_CHECK(out.set(kCudnn_ATTR_TENSOR_DIMENSIONS, kCudnn_TYPE_INT64, rank, dims.data()));
  DRIFTC_CHECK(out.set(kCudnn_ATTR_TENSOR_STRIDES, kCudnn_TYPE_INT64, rank, strides.data()));
  DRIFTC_CHECK(out.set(kCudnn_ATTR_TENSOR_UNIQUE_ID, kCudnn_TYPE_INT64, 1, &id));
  DRIFTC_CHECK(out.set(kCudnn_ATTR_TENSOR_BYTE_ALIGNMENT, kCudnn_TYPE_INT64, 1, &alignment));
  DRIFTC_CHECK(out.finalize());
  return Result<Descriptor>(std::move(out));
}

}  // namespace

Result<ConvGraph> build(const std::shared_ptr<const CudnnApi>& api, const ConvProblem& problem,
                        CudnnHandle handle) {
  DRIFTC_TRY(x, tensor(api, problem, problem.x, 'x'));
  DRIFTC_TRY(w, tensor(api, problem, problem.w, 'w'));
  DRIFTC_TRY(y, tensor(api, problem, problem.y, 'y'));
  DRIFTC_TRY(conv, Descriptor::create(api, kCudnn_BACKEND_CONVOLUTION_DESCRIPTOR));
  const std::int64_t spatial = 2;
  const bool f64 = problem.dtype == ir::DType::kF64;
  const int compute = f64 ? kCudnn_DATA_DOUBLE : kCudnn_DATA_FLOAT;  // f16, bf16 too, as PyTorch
  const int mode = kCudnn_CROSS_CORRELATION;
  DRIFTC_CHECK(conv.set(kCudnn_ATTR_CONVOLUTION_COMP_TYPE, kCudnn_TYPE_DATA_TYPE, 1, &compute));
  DRIFTC_CHECK(conv.set(kCudnn_ATTR_CONVOLUTION_CONV_MODE, kCudnn_TYPE_CONVOLUTION_MODE, 1, &mode));
  DRIFTC_CHECK(conv.set(kCudnn_ATTR_CONVOLUTION_SPATIAL_DIMS, kCudnn_TYPE_INT64, 1, &spatial));
  const std::pair<int, const Ints*> lists[] = {
      {kCudnn_ATTR_CONVOLUTION_DILATIONS, &problem.dilation},
      {kCudnn_ATTR_CONVOLUTION_FILTER_STRIDES, &problem.stride},
      {kCudnn_ATTR_CONVOLUTION_PRE_PADDINGS, &problem.pad},
      {kCudnn_ATTR_CONVOLUTION_POST_PADDINGS, &problem.pad}};
  for (const auto& [attribute, values] : lists)
    DRIFTC_CHECK(conv.set(attribute, kCudnn_TYPE_INT64, spatial, values->data()));
  DRIFTC_CHECK(conv.finalize());

  DRIFTC_TRY(op, Descriptor::create(api, kCudnn_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR));
  DRIFTC_CHECK(op.set_descriptor(kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, conv));
  DRIFTC_CHECK(op.set_descriptor(kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x));
  DRIFTC_CHECK(op.set_descriptor(kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w));
  DRIFTC_CHECK(op.set_descriptor(kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y));
  const float alpha = 1, beta = 0;
  const double alpha64 = 1, beta64 = 0;
  const int scale = f64 ? kCudnn_TYPE_DOUBLE : kCudnn_TYPE_FLOAT;
  DRIFTC_CHECK(op.set(kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, scale, 1,
                      f64 ? static_cast<const void*>(&alpha64) : &alpha));
  DRIFTC_CHECK(op.set(kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, scale, 1,
                      f64 ? static_cast<const void*>(&beta64) : &beta));
  DRIFTC_CHECK(op.finalize());

  DRIFTC_TRY(graph, Descriptor::create(api, kCudnn_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  DRIFTC_CHECK(graph.set_descriptor(kCudnn_ATTR_OPERATIONGRAPH_OPS, op));
  if (handle != nullptr)
    DRIFTC_CHECK(graph.set(kCudnn_ATTR_OPERATIONGRAPH_HANDLE, kCudnn_TYPE_HANDLE, 1, &handle));
  DRIFTC_CHECK(graph.finalize());
  return ConvGraph{std::move(x),    std::move(w),  std::move(y),
                   std::move(conv), std::move(op), std::move(graph)};
}

// Engine configurations in cuDNN's order; empty when this list has none for the problem.
Result<std::vector<Descriptor>> configurations(const std::shared_ptr<const CudnnApi>& api,
                                               const ConvGraph& conv, const Descriptor* device,
                                               int mode) {
  DRIFTC_TRY(heuristics, Descriptor::create(api, kCudnn_BACKEND_ENGINEHEUR_DESCRIPTOR));
  DRIFTC_CHECK(heuristics.set_descriptor(kCudnn_ATTR_ENGINEHEUR_OPERATION_GRAPH, conv.graph));
  DRIFTC_CHECK(heuristics.set(kCudnn_ATTR_ENGINEHEUR_MODE, kCudnn_TYPE_HEUR_MODE, 1, &mode));
  if (device != nullptr)
    DRIFTC_CHECK(heuristics.set_descriptor(kCudnn_ATTR_ENGINEHEUR_DEVICEPROP, *device));
  const int status = heuristics.try_finalize();
  if (status >= 3000 && status < 4000) return std::vector<Descriptor>();  // "not supported"
  if (status != kCudnn_STATUS_SUCCESS)
    return cudnn_error(*api, "cudnnBackendFinalize of the heuristics", status);
  DRIFTC_TRY(count,
             heuristics.count(kCudnn_ATTR_ENGINEHEUR_RESULTS, kCudnn_TYPE_BACKEND_DESCRIPTOR));
  std::vector<Descriptor> out;
  std::vector<CudnnDescriptor> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    DRIFTC_TRY(config, Descriptor::create(api, kCudnn_BACKEND_ENGINECFG_DESCRIPTOR));
    handles.push_back(config.get());
    out.push_back(std::move(config));
  }
  if (count == 0) return out;
  DRIFTC_TRY(got, heuristics.read(kCudnn_ATTR_ENGINEHEUR_RESULTS, kCudnn_TYPE_BACKEND_DESCRIPTOR,
                                  count, handles.data()));
  out.erase(out.begin() + std::clamp<std::int64_t>(got, 0, count), out.end());
  return out;
}

}  // namespace driftc::runtime::cuda
