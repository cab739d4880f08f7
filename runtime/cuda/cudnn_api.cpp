#include "runtime/cuda/cudnn_api.h"

#include <fmt/format.h>

#include <type_traits>

namespace driftc::runtime::cuda {
namespace {

const LibrarySpec& cudnn_spec() {
  static const LibrarySpec spec{
      "cuDNN",
      {"libcudnn.so.9"},
      {},
      "the PyPI wheels nvidia-cudnn-cu13 or nvidia-cudnn-cu12 have it (9.8 or newer); "
      "DRIFTC_LIBRARY_PATH names a folder that has libcudnn.so.9"};
  return spec;
}

}  // namespace

std::string CudnnApi::version_text() const {
  const std::size_t v = version();
  return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
}

Result<std::shared_ptr<const CudnnApi>> load_cudnn(const Settings& settings,
                                                   LibraryReport* report) {
  DRIFTC_TRY(library, open_library(cudnn_spec(), settings, report));
  auto api = std::make_shared<CudnnApi>();
  api->library = library;
  std::string missing;
  auto bind = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(library.symbol(name));
    if (pointer == nullptr && missing.empty()) missing = name;
  };
  bind(api->version, "cudnnGetVersion");
  bind(api->error_text, "cudnnGetErrorString");
  bind(api->create, "cudnnBackendCreateDescriptor");
  bind(api->destroy, "cudnnBackendDestroyDescriptor");
  bind(api->finalize, "cudnnBackendFinalize");
  bind(api->set, "cudnnBackendSetAttribute");
  bind(api->get, "cudnnBackendGetAttribute");
  const bool complete = missing.empty();
  bind(api->create_handle, "cudnnCreate");
  bind(api->destroy_handle, "cudnnDestroy");
  bind(api->set_stream, "cudnnSetStream");
  bind(api->execute, "cudnnBackendExecute");
  if (!complete)
    return unavailable(fmt::format("{} is no usable cuDNN: it has no {}", library.path(), missing),
                       cudnn_spec().hint);
  bind(api->last_error, "cudnnGetLastErrorString");
  if (api->version() < kOldestCudnn)
    return unavailable(
        fmt::format("cuDNN {} at {} is too old: it cannot be asked about a GPU that is not there; "
                    "9.8 can",
                    api->version_text(), library.path()),
        cudnn_spec().hint);
  return std::shared_ptr<const CudnnApi>(std::move(api));
}

Diagnostic cudnn_error(const CudnnApi& api, const std::string& call, int status) {
  const char* text = api.error_text(status);
  Diagnostic d = unavailable(fmt::format("cuDNN {} fails in {}: {}", api.version_text(), call,
                                         text != nullptr ? text : std::to_string(status)),
                             "`driftc doctor` shows which cuDNN this is; DRIFTC_LIBRARY_PATH names "
                             "the folder of another");
  if (api.last_error != nullptr) {
    char message[1024] = {};
    api.last_error(message, sizeof message);
    message[sizeof message - 1] = 0;
    if (message[0] != 0) d.notes.emplace_back(message);
  }
  return d;
}

Result<Descriptor> Descriptor::create(std::shared_ptr<const CudnnApi> api, int type) {
  CudnnDescriptor handle = nullptr;
  const int status = api->create(type, &handle);
  if (status != kCudnn_STATUS_SUCCESS || handle == nullptr)
    return cudnn_error(*api, fmt::format("cudnnBackendCreateDescriptor(type {})", type), status);
  return Descriptor(std::move(api), handle);
}

Result<void> Descriptor::set(int attribute, int type, std::int64_t count, const void* elements) {
  const int status = api_->set(handle_, attribute, type, count, elements);
  if (status == kCudnn_STATUS_SUCCESS) return {};
  return cudnn_error(*api_, fmt::format("cudnnBackendSetAttribute(attribute {})", attribute),
                     status);
}

Result<void> Descriptor::set_descriptor(int attribute, const Descriptor& other) {
  const CudnnDescriptor handle = other.get();
  return set(attribute, kCudnn_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
}

Result<void> Descriptor::finalize() {
  const int status = api_->finalize(handle_);
  if (status == kCudnn_STATUS_SUCCESS) return {};
  return cudnn_error(*api_, "cudnnBackendFinalize", status);
}

Result<std::int64_t> Descriptor::count(int attribute, int type) const {
  return read(attribute, type, 0, nullptr);
}

Result<std::int64_t> Descriptor::read(int attribute, int type, std::int64_t capacity,
                                      void* elements) const {
  std::int64_t count = 0;
  const int status = api_->get(handle_, attribute, type, capacity, &count, elements);
  if (status == kCudnn_STATUS_SUCCESS) return count;
  return cudnn_error(*api_, fmt::format("cudnnBackendGetAttribute(attribute {})", attribute),
                     status);
}

}  // namespace driftc::runtime::cuda
