#include "runtime/kernel_runner.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "codegen/ptx_facts.h"
#include "ir/support/hash.h"
#include "ir/support/tensor_memory.h"
#include "runtime/first_runs.h"
#include "runtime/ptx/arguments.h"
#include "runtime/ptx/machine.h"
#include "runtime/ptx/parser.h"

namespace driftc::runtime {
namespace {

constexpr std::size_t kAlignment = 256;  // as cudaMalloc

// Moves elements between logical row-major order and storage order.
template <class T>
void permute(const T* from, T* to, const ir::Shape& shape, bool to_storage) {
  const std::int64_t images = shape[0], channels = shape[1], pixels = shape[2] * shape[3];
  for (std::int64_t n = 0; n < images; ++n) {
    const T* a = from + n * channels * pixels;
    T* b = to + n * channels * pixels;
    const std::int64_t rows = to_storage ? channels : pixels,
                       columns = to_storage ? pixels : channels;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) b[c * rows + r] = a[r * columns + c];
  }
}

void permute_bytes(const std::byte* from, std::byte* to, const ir::TensorType& type,
                   bool to_storage) {
  const auto elements = static_cast<std::size_t>(type.shape.elements());
  if (elements == 0) return;
  if (type.layout == ir::Layout::kNchw || type.shape.rank() != 4) {
    std::memcpy(to, from, elements * ir::byte_size(type.dtype));
    return;
  }
  switch (ir::byte_size(type.dtype)) {
    case 2:
      return permute(reinterpret_cast<const std::uint16_t*>(from),
                     reinterpret_cast<std::uint16_t*>(to), type.shape, to_storage);
    case 4:
      return permute(reinterpret_cast<const std::uint32_t*>(from),
                     reinterpret_cast<std::uint32_t*>(to), type.shape, to_storage);
    default:
      return permute(reinterpret_cast<const std::uint64_t*>(from),
                     reinterpret_cast<std::uint64_t*>(to), type.shape, to_storage);
  }
}

// Decoded programs by hash of their PTX, for the life of the process: the same kernel occurs many
// times.
Result<std::shared_ptr<const ptx::Program>> load_program(const codegen::CompiledPtx& compiled,
                                                         const std::string& entry) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const ptx::Program>> programs;
  const std::string key = hash128_hex(compiled.ptx) + entry;
  {
    const std::lock_guard lock(mutex);
    if (auto found = programs.find(key); found != programs.end()) return found->second;
  }
  DRIFTC_CHECK(codegen::check_ptx(compiled.ptx, entry));
  DRIFTC_TRY(module, ptx::parse_module(compiled.ptx, entry + ".ptx"));
  DRIFTC_TRY(program, ptx::decode(module, entry));
  const std::lock_guard lock(mutex);
  programs.emplace(key, program);
  return program;
}

// Programs that have run once since check_first_runs(). They live as long as the process
// (load_program), so a pointer names one.
struct FirstRuns {
  std::mutex mutex;
  bool enabled = false;
  std::set<const ptx::Program*> seen;

  // True once for each program.
  bool take(std::span<const std::shared_ptr<const ptx::Program>> programs) {
    const std::lock_guard lock(mutex);
    bool fresh = false;
    if (enabled)
      for (const auto& p : programs) fresh |= seen.insert(p.get()).second;
    return fresh;
  }
};
FirstRuns& first_runs() {
  static FirstRuns runs;
  return runs;
}

class Run {
 public:
  Run(const CompiledKernel& kernel, std::span<const DeviceTensor> operands, DeviceTensor& result)
      : kernel_(kernel), operands_(operands), result_(result) {}

  Result<void> execute(std::span<const DeviceTensor> given, ThreadPool& pool,
                       const RunOptions& options) {
    prepare(given);
    map_memory(options.check);
    for (std::size_t i = 0; i < kernel_.lowered.launches.size(); ++i) {
      const codegen::Launch& launch = kernel_.lowered.launches[i];
      if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.grid[2] == 0) continue;
      ptx::LaunchConfig config{launch.grid, launch.block, launch.dynamic_shared_bytes};
      ptx::LaunchOptions how;
      how.schedule_seed = options.schedule_seed;
      how.check = options.check;
      const ptx::ArgumentPacker arguments = pack(launch);
      DRIFTC_CHECK(
          ptx::launch(*kernel_.programs[i], config, arguments.bytes(), memory_, pool, how));
    }
    return {};
  }

 private:
  void prepare(std::span<const DeviceTensor> given) {
    for (std::size_t i = 0; i < kernel_.lowered.preparations.size(); ++i) {
      const codegen::Preparation& p = kernel_.lowered.preparations[i];
      if (i < given.size() && given[i].defined()) {
        prepared_.push_back(given[i]);
      } else {
        prepared_.push_back(
            prepare_operand(p, download(operands_[static_cast<std::size_t>(p.operand)])));
      }
    }
  }

  // One tensor may be several operands; buffers are registered once.
  std::uint64_t read_only(const DeviceTensor& tensor, const std::string& name) {
    const auto [at, fresh] = addresses_.emplace(tensor.data(), 0);
    if (fresh) at->second = memory_.add_readonly(tensor.data(), tensor.byte_count(), name);
    return at->second;
  }
  void map_memory(bool check) {
    for (std::size_t i = 0; i < operands_.size(); ++i)
      operand_at_.push_back(read_only(operands_[i], fmt::format("operand {}", i)));
    for (std::size_t i = 0; i < prepared_.size(); ++i)
      prepared_at_.push_back(
          read_only(prepared_[i], codegen::to_string(kernel_.lowered.preparations[i])));
    result_at_ = memory_.add(result_.data(), result_.byte_count(), "result");
    if (check) memory_.track_writes(result_at_);
    for (const codegen::Workspace& w : kernel_.lowered.workspaces) {  // allocate() zeroes
      workspace_at_.push_back(memory_.allocate(static_cast<std::size_t>(w.bytes), w.name));
      if (check && !w.zeroed) memory_.track_writes(workspace_at_.back());
    }
  }
  ptx::ArgumentPacker pack(const codegen::Launch& launch) const {
    using Kind = codegen::Argument::Kind;
    ptx::ArgumentPacker packer;
    for (const codegen::Argument& a : launch.arguments) {
      const auto index = static_cast<std::size_t>(a.index);
      switch (a.kind) {
        case Kind::kOperand:
          packer.add(operand_at_[index]);
          break;
        case Kind::kPrepared:
          packer.add(prepared_at_[index]);
          break;
        case Kind::kResult:
          packer.add(result_at_);
          break;
        case Kind::kWorkspace:
          packer.add(workspace_at_[index]);
          break;
        case Kind::kInt32:
          packer.add(static_cast<std::int32_t>(a.integer));
          break;
        case Kind::kInt64:
          packer.add(a.integer);
          break;
        case Kind::kFloat32:
          packer.add(a.real);
          break;
      }
    }
    return packer;
  }

  const CompiledKernel& kernel_;
  std::span<const DeviceTensor> operands_;
  DeviceTensor& result_;
  std::vector<DeviceTensor> prepared_;
  ptx::DeviceMemory memory_;
  std::map<const std::byte*, std::uint64_t> addresses_;
  std::vector<std::uint64_t> operand_at_, prepared_at_, workspace_at_;
  std::uint64_t result_at_ = 0;
};

}  // namespace

DeviceTensor::Buffer::Buffer(std::size_t size) {
  bytes = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  DRIFTC_ASSERT(bytes != nullptr, "out of memory");
  std::memset(bytes, 0, size);
}
DeviceTensor::Buffer::~Buffer() { std::free(bytes); }

DeviceTensor::DeviceTensor(ir::TensorType type) : type_(std::move(type)) {
  const std::size_t size =
      (std::max<std::size_t>(byte_count(), 1) + kAlignment - 1) / kAlignment * kAlignment;
  buffer_ = std::shared_ptr<Buffer>(new Buffer(size), [size](Buffer* buffer) {
    delete buffer;
    TensorMemory::remove(size);
  });
  TensorMemory::add(size);
}

std::size_t DeviceTensor::byte_count() const {
  return static_cast<std::size_t>(type_.shape.elements()) * ir::byte_size(type_.dtype);
}

DeviceTensor upload(const ir::Tensor& tensor, ir::Layout layout) {
  DeviceTensor out({tensor.dtype(), tensor.shape(), layout});
  permute_bytes(tensor.bytes().data(), out.data(), out.type(), true);
  return out;
}

ir::Tensor download(const DeviceTensor& tensor) {
  ir::Tensor out(tensor.type().dtype, tensor.type().shape);
  permute_bytes(tensor.data(), out.bytes_mut().data(), tensor.type(), false);
  return out;
}

DeviceTensor prepare_operand(const codegen::Preparation& preparation, const ir::Tensor& operand) {
  return upload(codegen::prepare(preparation, operand), ir::Layout::kNchw);
}

std::vector<codegen::CompileRequest> compile_requests(const codegen::LoweredKernel& lowered,
                                                      const std::string& target) {
  std::vector<codegen::CompileRequest> out;
  for (const codegen::Launch& launch : lowered.launches)
    out.push_back({launch.entry, launch.source, target, {}});
  return out;
}

Result<CompiledKernel> assemble(codegen::LoweredKernel lowered,
                                std::span<const codegen::CompiledPtx> ptx) {
  DRIFTC_ASSERT(ptx.size() == lowered.launches.size(), "one PTX per launch");
  CompiledKernel out;
  for (std::size_t i = 0; i < ptx.size(); ++i) {
    DRIFTC_TRY(program, load_program(ptx[i], lowered.launches[i].entry));
    out.programs.push_back(program);
    out.ptx.push_back(ptx[i]);
  }
  out.lowered = std::move(lowered);
  return out;
}

Result<CompiledKernel> compile(codegen::LoweredKernel lowered, codegen::KernelCache& cache,
                               const std::string& target) {
  const auto requests = compile_requests(lowered, target);
  DRIFTC_TRY(ptx, cache.compile_all(requests, 1));
  return assemble(std::move(lowered), ptx);
}

Result<void> run(const CompiledKernel& kernel, std::span<const DeviceTensor> operands,
                 std::span<const DeviceTensor> prepared, DeviceTensor& result, ThreadPool& pool,
                 const RunOptions& options) {
  DRIFTC_ASSERT(kernel.programs.size() == kernel.lowered.launches.size(), "a program per launch");
  RunOptions how = options;
  how.check |= first_runs().take(kernel.programs);
  return Run(kernel, operands, result).execute(prepared, pool, how);
}

void check_first_runs() {
  const std::lock_guard lock(first_runs().mutex);
  first_runs().enabled = true;
}
std::size_t first_runs_checked() {
  const std::lock_guard lock(first_runs().mutex);
  return first_runs().seen.size();
}

}  // namespace driftc::runtime
