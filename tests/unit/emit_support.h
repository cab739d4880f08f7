// Test kernels: a body built op by op, random operands, the run through NVRTC and the PTX executor,
// and the comparison with the oracle of emit_reference.h.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/lower.h"
#include "ir/builder.h"
#include "ir/kernel.h"
#include "ir/support/rng.h"

namespace driftc::test {

// Builds the body of a kernel and, in step, the graph with the kernel node.
class KernelCase {
 public:
  KernelCase(ir::Algorithm algorithm, std::string_view order, ir::Schedule schedule = {});

  ir::ValueId input(ir::Shape shape, ir::Layout layout = ir::Layout::kNchw);
  ir::ValueId constant(float value);
  ir::ValueId add(ir::Op op, std::vector<ir::ValueId> operands,
                  const ir::AttributeList& attributes = {});
  // Ends the body; the last added value is the result, stored in `layout`.
  KernelCase& finish(ir::Layout layout = ir::Layout::kNchw);

  ir::Kernel kernel;  // contract may be edited before the run
  std::vector<ir::Layout> layouts;
  ir::Layout result_layout = ir::Layout::kNchw;
  codegen::LowerOptions options;

  // Random operands of a distribution; `specials` sprinkles -0, subnormals, Inf and NaN.
  std::vector<ir::Tensor> operands(std::uint64_t seed, Distribution distribution,
                                   bool specials) const;
  Result<codegen::LoweredKernel> lower() const;

 private:
  ir::ValueId last_;
};

// Runs the case and compares with the oracle: "" when equal bit for bit, else what differs. Also
// checks the facts about the PTX. Empty optional: there is no NVRTC and no recorded PTX (the caller
// reports a skip).
std::optional<std::string> check_case(const KernelCase& test, std::uint64_t seed,
                                      Distribution distribution = Distribution::kRandom,
                                      bool specials = false, std::uint64_t schedule_seed = 0);

// The same against the interpreter's evaluation of the kernel under its contract (source replay),
// for the PTX of `target`. `schedule_seed` also orders the atomics of the replay; with `checked`
// the executor is its own sanitizer, without it runs machine code where it has any.
std::optional<std::string> check_replay(const KernelCase& test, std::uint64_t seed,
                                        Distribution distribution, bool specials,
                                        const std::string& target, std::uint64_t schedule_seed = 0,
                                        bool checked = true);

// Those of `targets` that NVRTC makes different PTX for, the first of each kind: what a kernel does
// on the others is the same text. Empty: no NVRTC, or it refuses the kernel.
std::vector<std::string> distinct_targets(const KernelCase& test,
                                          std::span<const char* const> targets);

// Whether kernels can be compiled here; prints the counted skip line otherwise.
bool kernels_available(const char* test_case);
// Distinct kernels asked for so far, and how many of them NVRTC compiled (not in the cache).
std::pair<std::size_t, std::size_t> kernel_counts();

}  // namespace driftc::test
