// What a GPU is checked for against what this CPU computes: kernels bit for bit, the network as one
// CUDA graph, tensor cores against captured vectors and their model. Pure comparison: which
// networks and vectors, and what a finding means, the caller says.
#pragma once

#include <string>
#include <vector>

#include "runtime/compare/verdict.h"
#include "runtime/cuda/cuda_executor.h"
#include "runtime/cuda/cudnn_convolution.h"
#include "runtime/numeric/fprev.h"
#include "runtime/numeric/tensor_core_vectors.h"
#include "runtime/study/pair_run.h"

namespace driftc::runtime::study {

struct NetworkCheck {
  std::size_t kernels = 0, launches = 0;  // run on both sides
  std::int64_t elements = 0, mismatched = 0;
  std::string first_wrong;  // the first value whose bits differ, with its kernel; "" for none
  bool planned = false;     // the whole network ran as a plan, too
  std::size_t plan_outputs_wrong = 0;     // of the plan, and of the plan as a CUDA graph
  std::vector<double> plan_ms, graph_ms;  // device time of a run
};
// Every kernel on the GPU and on the PTX executor from the same operands (each node gets the PTX
// executor's values, so that one wrong kernel is one finding), then the plan with and without
// graph. Kernels whose sums meet in atomics must not be among them.
Result<NetworkCheck> check_network(const ir::Graph& source, const std::vector<NamedTensor>& inputs,
                                   const PairSettings& settings,
                                   std::shared_ptr<cuda::CudaExecutor> gpu,
                                   const Services& services, int timed_runs);

struct VectorCheck {
  std::string what;  // "h200_fp16.bin, f32 accumulator, k = 16"
  std::size_t vectors = 0, mismatched = 0;
  std::string first_wrong;
  std::vector<std::string> recorded;  // open questions: "T7: 0x33800000, the model says 0x33800000"
};
Result<VectorCheck> check_vectors(const TcVectors& group, cuda::Gpu& gpu);

// One convolution by cuDNN and by driftc on the same operands (seeded), judged as the results of
// two systems.
struct ConvolutionCheck {
  cuda::EngineChoice choice;  // the engine that PyTorch eager takes on this GPU
  compare::Verdict verdict = compare::Verdict::kIdentical;
  compare::Evidence evidence = compare::Evidence::kBits;
  std::string precision;  // that explains cuDNN's result
  std::string words;      // of the judge
  std::string order;      // of cuDNN's sums as revealed (runtime/numeric/fprev.h), or why not
  std::vector<double> cudnn_ms, ours_ms;
};
// The convolution of `problem` (f32) as a graph: input %x, seeded constant %w, output %y.
Result<ir::Graph> convolution_graph(const cuda::ConvProblem& problem);
Result<ConvolutionCheck> check_convolution(const cuda::ConvProblem& problem,
                                           cuda::CudnnExecutor& cudnn, const PairSettings& settings,
                                           std::shared_ptr<cuda::CudaExecutor> gpu,
                                           const Services& services, int timed_runs);
// The order in which an engine adds the products of one output element.
Result<SumTree> reveal_convolution(const cuda::ConvProblem& problem,
                                   cuda::CudnnConvolution& convolution);

}  // namespace driftc::runtime::study
