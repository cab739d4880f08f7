// Runs lowered kernels through the PTX executor on host buffers. A buffer holds a value as a device
// would: dense, in its storage layout; upload and download convert from and to logical row-major
// tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/cache.h"
#include "codegen/lowered_kernel.h"
#include "ir/tensor.h"
#include "runtime/ptx/decode.h"
#include "runtime/thread_pool.h"

namespace driftc::runtime {

// What an executor with memory of its own keeps of a buffer there (runtime/cuda).
struct DeviceCopy {
  virtual ~DeviceCopy() = default;
};

// A value in (simulated) device memory. Copies share the buffer. New buffers are zero.
class DeviceTensor {
 public:
  DeviceTensor() = default;
  explicit DeviceTensor(ir::TensorType type);

  bool defined() const { return buffer_ != nullptr; }
  const ir::TensorType& type() const { return type_; }
  std::size_t byte_count() const;
  // Who may write forgets the copy.
  std::byte* data() {
    if (!defined()) return nullptr;
    buffer_->copy = nullptr;
    return buffer_->bytes;
  }
  const std::byte* data() const { return defined() ? buffer_->bytes : nullptr; }
  const std::shared_ptr<DeviceCopy>& copy() const { return buffer_->copy; }
  void set_copy(std::shared_ptr<DeviceCopy> copy) const { buffer_->copy = std::move(copy); }

 private:
  struct Buffer {
    explicit Buffer(std::size_t size);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    std::byte* bytes;
    std::shared_ptr<DeviceCopy> copy;
  };
  ir::TensorType type_;
  std::shared_ptr<Buffer> buffer_;
};

DeviceTensor upload(const ir::Tensor& tensor, ir::Layout layout);
ir::Tensor download(const DeviceTensor& tensor);
// A prepared operand as a kernel reads it; constants are prepared once by the caller.
DeviceTensor prepare_operand(const codegen::Preparation& preparation, const ir::Tensor& operand);

// A kernel ready to run: one program per launch (launches with the same source share it).
struct CompiledKernel {
  codegen::LoweredKernel lowered;
  std::vector<codegen::CompiledPtx> ptx;                      // per launch
  std::vector<std::shared_ptr<const ptx::Program>> programs;  // per launch
};

// What to compile for a kernel, one request per launch, in order; pass them to
// KernelCache::compile_all, for many kernels at once, then `assemble` each.
std::vector<codegen::CompileRequest> compile_requests(const codegen::LoweredKernel& lowered,
                                                      const std::string& target);
// Checks the PTX (codegen/ptx_facts.h), parses and decodes it. `ptx` is per launch. Programs of
// equal PTX are decoded once per process.
Result<CompiledKernel> assemble(codegen::LoweredKernel lowered,
                                std::span<const codegen::CompiledPtx> ptx);
// Both for one kernel.
Result<CompiledKernel> compile(codegen::LoweredKernel lowered, codegen::KernelCache& cache,
                               const std::string& target);

struct RunOptions {
  std::uint64_t schedule_seed = 0;  // order of blocks, warps and atomics
  bool check = false;               // sanitizer mode of the executor
};

// Operands in the order of the kernel node, in the layouts the kernel was lowered for. `prepared`
// is parallel to lowered.preparations; an undefined or missing entry is prepared here from its
// operand. `result` is defined, of the kernel node's type, and shares no buffer with an operand.
Result<void> run(const CompiledKernel& kernel, std::span<const DeviceTensor> operands,
                 std::span<const DeviceTensor> prepared, DeviceTensor& result, ThreadPool& pool,
                 const RunOptions& options = {});

}  // namespace driftc::runtime
