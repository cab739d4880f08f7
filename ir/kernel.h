// A kernel: a region of nodes that is computed by one launch (or a short sequence, see codegen),
// with the decisions that fix it. Here passes and code generation meet: passes decide, codegen
// obeys.
#pragma once

#include "ir/graph.h"

namespace driftc::ir {

// How the region's main op is computed. Everything but kWinograd* denotes the sum of its contract's
// order; kWinograd* what the contract's transform says.
enum class Algorithm : std::uint8_t {
  kElementwise,  // pointwise chains with broadcasting
  kCopy,         // data movement: concat, reshape, slice, pad, transpose ...
  kPool,         // window reductions
  kReduce,       // global means
  kSoftmax,
  kDirect,        // one thread per output, taps and channels in a loop (depthwise, grouped, small)
  kImplicitGemm,  // tiles over pixels x output channels, im2col indices formed on the fly
  kIm2col,        // the im2col matrix is written first, then a tiled product
  kMatmul,        // tiles over rows x columns
  kWinograd2,     // F(2,3) in phases: filters, data, products, output, a kernel each
  kWinograd4,     // F(4,3), likewise
  kWinograd2Fused,  // F(2,3), data, products and output in one kernel; the same bits
  kWinograd4Fused,
  kInterpreter,  // not compiled: the region runs in the eager interpreter (`reason` says why)
};
std::string_view name_of(Algorithm algorithm);
std::optional<Algorithm> parse_algorithm(std::string_view name);

// Tile and thread decisions. Extents of 0 mean "not used by this algorithm". m: output pixels (or
// rows), n: output channels (or columns), k: positions of the reduction staged in shared memory per
// step.
struct Schedule {
  int block_m = 0, block_n = 0, block_k = 0;
  int thread_m = 0, thread_n = 0;  // outputs per thread
  int vector = 1;                  // elements per load where contiguous
  friend bool operator==(const Schedule&, const Schedule&) = default;
};
std::string to_string(const Schedule& schedule);  // "{block=[64,64,8], thread=[4,4], vector=1}"

struct Kernel {
  Algorithm algorithm = Algorithm::kElementwise;
  Schedule schedule;
  NumericContract contract;
  // kInterpreter: why there is no kernel. Else, where not empty: why it is not the algorithm that
  // was asked for.
  std::string reason;
  // Nodes of the region. Inputs are named as the operands of the kernel node, in their order; the
  // one output is named as the kernel node's result.
  Graph body;
};

// The node whose reduction `contract.order` describes: the body's conv, matmul, pool or softmax
// node, at most one per kernel. Null for pointwise and copy kernels.
const Node* reduction_node(const Graph& body);
// Extents of the reduction of `node` in `graph` (per output element, the group's own channels).
ReductionExtent reduction_extent(const Graph& graph, const Node& node);
// Whether an emitter of the algorithm can compute the order (choose-tiling, split-k and match-order
// ask before they decide; codegen asserts it).
bool supports_order(Algorithm algorithm, const ReductionOrder& order);

// Outputs of a Winograd algorithm's tile along one axis; 0 for the others.
int winograd_tile(Algorithm algorithm);
// What a Winograd algorithm keeps of a convolution's order: sums over channels only, in its
// arithmetic, and the bias added to the result.
ReductionOrder channel_sums(const ReductionOrder& order);
// Why the algorithm cannot compute `node` of `graph`, whatever its order: preconditions on the op,
// its kernel, stride, dilation. Empty where it can. For the algorithms of a conv2d.
std::string why_not(Algorithm algorithm, const Graph& graph, const Node& node);

// Contraction (contract=on): the add or sub `node` becomes one fma when an operand is a `mul` that
// only it uses, both in the same region. Returns the operand position (0 first), or empty.
// `in_region(NodeId)` tells membership. Identity nodes between the two are looked through.
std::optional<int> contraction_site(const Graph& graph, NodeId node, const std::vector<int>& uses,
                                    const std::function<bool(NodeId)>& in_region);

}  // namespace driftc::ir
