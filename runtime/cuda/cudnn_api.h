// cuDNN 9, found at run time (ir/support/dynlib.h): the few entry points of its backend interface
// that are used, as our own prototypes. No CUDA header is needed and nothing is linked. Absent, too
// old or incomplete is ErrorKind::kUnavailable; so is a call that fails, with the name of the call
// and what cuDNN says about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "ir/support/dynlib.h"
#include "ir/support/result.h"

namespace driftc::runtime::cuda {

// CUDNN_<name> of the header is kCudnn_<name> here; enums of the interface are int.
enum CudnnValue : int {
#define CUDNN_VALUE(name, value) kCudnn_##name = value,
#include "runtime/cuda/cudnn_values.def"
};

using CudnnDescriptor = void*;
using CudnnHandle = void*;

struct CudnnApi {
  SharedLibrary library;
  std::size_t (*version)() = nullptr;
  const char* (*error_text)(int status) = nullptr;
  void (*last_error)(char* message, std::size_t size) = nullptr;  // may be null: newer than 9.0
  int (*create)(int type, CudnnDescriptor*) = nullptr;
  int (*destroy)(CudnnDescriptor) = nullptr;
  int (*finalize)(CudnnDescriptor) = nullptr;
  int (*set)(CudnnDescriptor, int attribute, int type, std::int64_t count,
             const void* elements) = nullptr;
  int (*get)(CudnnDescriptor, int attribute, int type, std::int64_t requested, std::int64_t* count,
             void* elements) = nullptr;
  // Only to run something on a GPU; all of them or none.
  int (*create_handle)(CudnnHandle*) = nullptr;
  int (*destroy_handle)(CudnnHandle) = nullptr;
  int (*set_stream)(CudnnHandle, void* stream) = nullptr;
  int (*execute)(CudnnHandle, CudnnDescriptor plan, CudnnDescriptor variant_pack) = nullptr;
  bool can_execute() const {
    return create_handle != nullptr && destroy_handle != nullptr && set_stream != nullptr &&
           execute != nullptr;
  }

  std::string version_text() const;  // "9.19.0"
};

// The oldest cuDNN that can be asked about a device that is not there.
inline constexpr std::size_t kOldestCudnn = 90800;

// `report` (optional) tells what was tried.
Result<std::shared_ptr<const CudnnApi>> load_cudnn(const Settings& settings,
                                                   LibraryReport* report = nullptr);

// What a call that failed means, for a message.
Diagnostic cudnn_error(const CudnnApi& api, const std::string& call, int status);

// Owns one backend descriptor. Attributes are given before `finalize` and read after it.
class Descriptor {
 public:
  static Result<Descriptor> create(std::shared_ptr<const CudnnApi> api, int type);
  ~Descriptor() { reset(); }
  Descriptor(Descriptor&& other) noexcept
      : api_(std::move(other.api_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = std::move(other.api_);
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  CudnnDescriptor get() const { return handle_; }
  Result<void> set(int attribute, int type, std::int64_t count, const void* elements);
  Result<void> set_descriptor(int attribute, const Descriptor& other);
  Result<void> finalize();
  // The raw status: for steps whose refusal is an answer.
  int try_finalize() { return api_->finalize(handle_); }
  // Number of elements of an attribute.
  Result<std::int64_t> count(int attribute, int type) const;
  // Reads up to `capacity` elements; the number that there are.
  Result<std::int64_t> read(int attribute, int type, std::int64_t capacity, void* elements) const;

 private:
  Descriptor(std::shared_ptr<const CudnnApi> api, CudnnDescriptor handle)
      : api_(std::move(api)), handle_(handle) {}
  void reset() {
    if (handle_ != nullptr) api_->destroy(handle_);
    handle_ = nullptr;
  }
  std::shared_ptr<const CudnnApi> api_;
  CudnnDescriptor handle_ = nullptr;
};

}  // namespace driftc::runtime::cuda
