// One GPU: its primary context, one stream, a memory pool, loaded modules, events. Everything of
// one Gpu is ordered on its one stream, so that memory given back may be handed out again while
// work on it is still queued. Not thread-safe. Errors as driver_error: `during` of a call says what
// it was for.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen/nvrtc.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/devices/profile.h"

namespace driftc::runtime::cuda {

struct GpuFacts {
  std::string name;  // "NVIDIA H200"
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  std::size_t memory_bytes = 0;
};

class Gpu;

// Device memory of the pool; back to it at the end. Owns a share of the Gpu.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::shared_ptr<Gpu> gpu, DevicePointer address, std::size_t capacity)
      : gpu_(std::move(gpu)), address_(address), capacity_(capacity) {}
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DevicePointer address() const { return address_; }
  std::size_t capacity() const { return capacity_; }

 private:
  std::shared_ptr<Gpu> gpu_;
  DevicePointer address_ = 0;
  std::size_t capacity_ = 0;
};

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  // The first GPU. kUnavailable: no driver, too old, incomplete, no GPU.
  static Result<std::shared_ptr<Gpu>> open(const Settings& settings,
                                           LibraryReport* report = nullptr);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const DriverApi& api() const { return *api_; }
  const GpuFacts& facts() const { return facts_; }
  void* stream() const { return stream_; }
  // Makes the context current on the calling thread; before anything else is called from it.
  Result<void> use();

  Result<DeviceBuffer> allocate(std::size_t bytes, const std::string& during);
  // Gives what the pool holds unused back to the driver.
  void trim();
  std::size_t pooled_bytes() const;

  // Host memory may be freed or changed when these return.
  Result<void> upload(DevicePointer to, const void* from, std::size_t bytes,
                      const std::string& during);
  Result<void> download(void* to, DevicePointer from, std::size_t bytes, const std::string& during);
  Result<void> zero(DevicePointer to, std::size_t bytes, const std::string& during);
  // The entry of a PTX text, loaded once per process and Gpu; what the driver's compiler says of a
  // PTX that it refuses is in the notes.
  Result<void*> function(const codegen::CompiledPtx& ptx, const std::string& entry,
                         const std::string& during);
  // Before a function is launched with more dynamic shared memory than needs no opting in (48 KiB
  // together with its static).
  Result<void> allow_shared(void* function, std::uint32_t dynamic_shared,
                            const std::string& during);
  // `parameters` holds the address of each argument. Returns when it is queued.
  Result<void> launch(void* function, const std::array<std::uint32_t, 3>& grid,
                      const std::array<std::uint32_t, 3>& block, std::uint32_t dynamic_shared,
                      std::span<void*> parameters, const std::string& during);
  // Waits for everything queued; an error of a kernel shows here.
  Result<void> synchronize(const std::string& during);

  Result<void> check(const char* call, int status, const std::string& during) const;

 private:
  friend class DeviceBuffer;
  Gpu(std::shared_ptr<const DriverApi> api, int device) : api_(std::move(api)), device_(device) {}
  void give_back(DevicePointer address, std::size_t capacity);

  std::shared_ptr<const DriverApi> api_;
  int device_ = 0;
  GpuFacts facts_;
  void *context_ = nullptr, *stream_ = nullptr;
  std::multimap<std::size_t, DevicePointer> unused_;  // by capacity
  std::map<std::string, std::pair<void*, void*>>
      functions_;  // by hash of PTX and entry: module, function
};

// The profile whose kernels suit a GPU: by product name, else the first of its compute capability,
// else the newest that is older. kUnavailable when the GPU is older than every profile.
Result<DeviceProfile> profile_of(const GpuFacts& gpu);
// Whether the GPU runs PTX made for the profile's target: any as new or newer does.
bool runs_kernels_of(const GpuFacts& gpu, const DeviceProfile& profile);

}  // namespace driftc::runtime::cuda
