#include "runtime/cuda/gpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "ir/support/hash.h"

namespace driftc::runtime::cuda {
namespace {

// Small requests in steps of 512 bytes, large ones of 2 MiB (the driver's own granularity).
std::size_t rounded(std::size_t bytes) {
  const std::size_t step = bytes < (std::size_t{1} << 20) ? 512 : std::size_t{2} << 20;
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

// What a compute_NN target asks for: 90 of "compute_90".
int target_number(const DeviceProfile& profile) {
  int number = 0;
  for (const char c : profile.ptx_target)
    if (c >= '0' && c <= '9') number = number * 10 + (c - '0');
  return number;
}

}  // namespace

DeviceBuffer::~DeviceBuffer() {
  if (gpu_) gpu_->give_back(address_, capacity_);
}
DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : gpu_(std::move(other.gpu_)), address_(other.address_), capacity_(other.capacity_) {}
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    if (gpu_) gpu_->give_back(address_, capacity_);
    gpu_ = std::move(other.gpu_);
    address_ = other.address_;
    capacity_ = other.capacity_;
  }
  return *this;
}

Result<std::shared_ptr<Gpu>> Gpu::open(const Settings& settings, LibraryReport* report) {
  DRIFTC_TRY(api, load_driver(settings, report));
  const std::string during = "opening the GPU";
  auto failed = [&](const char* call, int status) {
    Diagnostic d = driver_error(*api, call, status, during);
    d.kind = ErrorKind::kUnavailable;  // whatever it is, no kernel of ours has run yet
    return d;
  };
  if (const int status = api->init(0); status != kCu_SUCCESS) return failed("cuInit", status);
  int count = 0, device = 0;
  if (const int status = api->device_count(&count); status != kCu_SUCCESS)
    return failed("cuDeviceGetCount", status);
  if (count == 0)
    return unavailable("the CUDA driver finds no GPU",
                       "--executor ptx runs the same kernels, with the same bits, on this CPU");
  if (const int status = api->device(&device, 0); status != kCu_SUCCESS)
    return failed("cuDeviceGet", status);
  std::shared_ptr<Gpu> gpu(new Gpu(api, device));
  char name[256] = {};
  if (const int status = api->device_name(name, sizeof name - 1, device); status != kCu_SUCCESS)
    return failed("cuDeviceGetName", status);
  gpu->facts_.name = name;
  if (const int status = api->device_memory(&gpu->facts_.memory_bytes, device);
      status != kCu_SUCCESS)
    return failed("cuDeviceTotalMem", status);
  const std::array attributes = {
      std::pair{kCu_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &gpu->facts_.compute_major},
      std::pair{kCu_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &gpu->facts_.compute_minor},
      std::pair{kCu_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &gpu->facts_.sm_count}};
  for (const auto& [attribute, value] : attributes)
    if (const int status = api->device_attribute(value, attribute, device); status != kCu_SUCCESS)
      return failed("cuDeviceGetAttribute", status);
  if (const int status = api->retain_context(&gpu->context_, device); status != kCu_SUCCESS) {
    gpu->context_ = nullptr;
    return failed("cuDevicePrimaryCtxRetain", status);
  }
  DRIFTC_CHECK(gpu->use());
  if (const int status = api->create_stream(&gpu->stream_, kCu_STREAM_NON_BLOCKING);
      status != kCu_SUCCESS) {
    gpu->stream_ = nullptr;
    return failed("cuStreamCreate", status);
  }
  return gpu;
}

// Errors are of no use here: a context that a kernel broke refuses everything.
Gpu::~Gpu() {
  if (context_ == nullptr) return;
  api_->set_context(context_);
  if (stream_ != nullptr) api_->synchronize(stream_);
  for (const auto& [key, loaded] : functions_) api_->unload_module(loaded.first);
  trim();
  if (stream_ != nullptr) api_->destroy_stream(stream_);
  api_->release_context(device_);
}

Result<void> Gpu::check(const char* call, int status, const std::string& during) const {
  if (status == kCu_SUCCESS) return {};
  return driver_error(*api_, call, status, during);
}

Result<void> Gpu::use() { return check("cuCtxSetCurrent", api_->set_context(context_), ""); }

Result<DeviceBuffer> Gpu::allocate(std::size_t bytes, const std::string& during) {
  const std::size_t wanted = rounded(bytes);
  // The smallest that fits, unless most of it would be wasted.
  if (const auto found = unused_.lower_bound(wanted);
      found != unused_.end() && found->first <= 2 * wanted) {
    DeviceBuffer out(shared_from_this(), found->second, found->first);
    unused_.erase(found);
    return out;
  }
  DevicePointer address = 0;
  int status = api_->allocate(&address, wanted);
  if (status == kCu_ERROR_OUT_OF_MEMORY && !unused_.empty()) {
    trim();
    status = api_->allocate(&address, wanted);
  }
  if (status != kCu_SUCCESS) {
    Diagnostic d = driver_error(*api_, "cuMemAlloc", status, during);
    d.notes.push_back(fmt::format("{} bytes wanted on {}, which has {}", wanted, facts_.name,
                                  facts_.memory_bytes));
    return d;
  }
  return DeviceBuffer(shared_from_this(), address, wanted);
}

void Gpu::give_back(DevicePointer address, std::size_t capacity) {
  if (address != 0) unused_.emplace(capacity, address);
}

void Gpu::trim() {
  for (const auto& [capacity, address] : unused_) api_->free(address);
  unused_.clear();
}

std::size_t Gpu::pooled_bytes() const {
  std::size_t total = 0;
  for (const auto& [capacity, address] : unused_) total += capacity;
  return total;
}

Result<void> Gpu::upload(DevicePointer to, const void* from, std::size_t bytes,
                         const std::string& during) {
  if (bytes == 0) return {};
  DRIFTC_CHECK(check("cuMemcpyHtoDAsync", api_->to_device(to, from, bytes, stream_), during));
  // Pageable memory is staged before the call returns only up to a size that no one promises.
  return synchronize(during);
}

Result<void> Gpu::download(void* to, DevicePointer from, std::size_t bytes,
                           const std::string& during) {
  if (bytes == 0) return {};
  DRIFTC_CHECK(check("cuMemcpyDtoHAsync", api_->to_host(to, from, bytes, stream_), during));
  return synchronize(during);
}

Result<void> Gpu::zero(DevicePointer to, std::size_t bytes, const std::string& during) {
  if (bytes == 0) return {};
  return check("cuMemsetD8Async", api_->fill(to, 0, bytes, stream_), during);
}

Result<void*> Gpu::function(const codegen::CompiledPtx& ptx, const std::string& entry,
                            const std::string& during) {
  const std::string key = hash128_hex(ptx.ptx) + entry;
  if (const auto found = functions_.find(key); found != functions_.end())
    return found->second.second;
  std::array<char, 8192> log{};
  std::array<int, 2> names = {kCu_JIT_ERROR_LOG_BUFFER, kCu_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  // The size travels as the value of a pointer.
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  void *module = nullptr, *function = nullptr;
  if (const int status =
          api_->load_module(&module, ptx.ptx.c_str(), names.size(), names.data(), values.data());
      status != kCu_SUCCESS) {
    Diagnostic d = driver_error(*api_, "cuModuleLoadDataEx", status, during);
    d.notes.push_back(fmt::format("{} of {} on {}, compute capability {}.{}", entry, ptx.compiler,
                                  facts_.name, facts_.compute_major, facts_.compute_minor));
    const std::string_view text(log.data());
    for (std::size_t begin = 0; begin < text.size() && d.notes.size() < 20;) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      if (end > begin) d.notes.emplace_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    return d;
  }
  if (const int status = api_->function(&function, module, entry.c_str()); status != kCu_SUCCESS) {
    api_->unload_module(module);
    return driver_error(*api_, "cuModuleGetFunction of " + entry, status, during);
  }
  functions_.emplace(key, std::pair{module, function});
  return function;
}

Result<void> Gpu::allow_shared(void* function, std::uint32_t dynamic_shared,
                               const std::string& during) {
  return check("cuFuncSetAttribute",
               api_->set_function(function, kCu_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(dynamic_shared)),
               during);
}

Result<void> Gpu::launch(void* function, const std::array<std::uint32_t, 3>& grid,
                         const std::array<std::uint32_t, 3>& block, std::uint32_t dynamic_shared,
                         std::span<void*> parameters, const std::string& during) {
  return check("cuLaunchKernel",
               api_->launch(function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                            dynamic_shared, stream_, parameters.data(), nullptr),
               during);
}

Result<void> Gpu::synchronize(const std::string& during) {
  return check("cuStreamSynchronize", api_->synchronize(stream_), during);
}

Result<DeviceProfile> profile_of(const GpuFacts& gpu) {
  const std::string name = lower(gpu.name);
  const int capability = gpu.compute_major * 10 + gpu.compute_minor;
  auto capability_of = [](const DeviceProfile& p) {
    return p.compute_major * 10 + p.compute_minor;
  };
  const DeviceProfile* best = nullptr;
  for (const DeviceProfile& p : device_profiles()) {
    // "h200" in "nvidia h200", "rtx4090" in "nvidia geforce rtx 4090".
    std::string squeezed = name;
    std::erase(squeezed, ' ');
    if (capability_of(p) == capability && squeezed.find(p.name) != std::string::npos) return p;
    if (capability_of(p) > capability) continue;
    if (best == nullptr || capability_of(p) > capability_of(*best)) best = &p;
  }
  if (best == nullptr || !runs_kernels_of(gpu, *best))
    return unavailable(
        fmt::format("{} has compute capability {}.{}: no profile's kernels run on it", gpu.name,
                    gpu.compute_major, gpu.compute_minor),
        "--executor ptx runs kernels of any profile on this CPU");
  return *best;
}

bool runs_kernels_of(const GpuFacts& gpu, const DeviceProfile& profile) {
  return gpu.compute_major * 10 + gpu.compute_minor >= target_number(profile);
}

}  // namespace driftc::runtime::cuda
