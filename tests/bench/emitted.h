// A kernel as driftc emits it, compiled and with operands, ready to be run again and again.
#pragma once

#include <benchmark/benchmark.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codegen/cache.h"
#include "codegen/lower.h"
#include "ir/builder.h"
#include "ir/kernel.h"
#include "runtime/kernel_runner.h"
#include "runtime/ptx/path.h"

namespace driftc::bench {

codegen::KernelCache& cache();

class EmittedKernel {
 public:
  EmittedKernel(ir::Algorithm algorithm, std::string_view order, ir::Layout layout);

  ir::ValueId input(const char* name, ir::Shape shape, ir::Layout layout);
  ir::ValueId add(ir::Op op, std::vector<ir::ValueId> operands,
                  const ir::AttributeList& attributes);
  // Lowers, compiles and uploads; no schedule: the default one. The error is reported to `state`.
  bool finish(benchmark::State& state, const std::optional<ir::Schedule>& schedule = {});
  // All iterations of `state`, on `threads` threads and the best path up to `path`; `check`: in
  // checked mode, where a report ends them.
  void run(benchmark::State& state, int threads, runtime::ptx::Path path, bool check = false);

  // Of the first launch.
  const std::string& ptx() const { return ptx_; }
  std::array<std::uint32_t, 3> block() const { return compiled_->lowered.launches[0].block; }

 private:
  ir::Kernel kernel_;
  ir::Layout layout_;
  ir::ValueId last_{};
  std::optional<runtime::CompiledKernel> compiled_;
  std::vector<runtime::DeviceTensor> operands_, prepared_;
  std::optional<runtime::DeviceTensor> result_;
  std::string ptx_;
};

}  // namespace driftc::bench
