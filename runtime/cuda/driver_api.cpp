#include "runtime/cuda/driver_api.h"

#include <fmt/format.h>

#include <type_traits>

namespace driftc::runtime::cuda {
namespace {

const LibrarySpec& driver_spec() {
  static const LibrarySpec spec{
      "the CUDA driver", {"libcuda.so.1"}, {}, "it comes with NVIDIA's driver for a GPU"};
  return spec;
}

std::string version_words(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::string DriverApi::version_text() const { return version_words(version); }

Result<std::shared_ptr<const DriverApi>> load_driver(const Settings& settings,
                                                     LibraryReport* report) {
  DRIFTC_TRY(library, open_library(driver_spec(), settings, report));
  auto api = std::make_shared<DriverApi>();
  api->library = library;
  // The version first: an old driver lacks functions because it is old.
  api->driver_version = library.function<int(int*)>("cuDriverGetVersion");
  if (api->driver_version != nullptr && api->driver_version(&api->version) == kCu_SUCCESS &&
      api->version < kOldestDriver)
    return unavailable(
        fmt::format("the CUDA driver at {} is too old: it runs CUDA {}, and {} is needed",
                    library.path(), api->version_text(), version_words(kOldestDriver)),
        "a newer driver, or --executor ptx: the same kernels, with the same bits, on this CPU");
  std::string missing;
  auto bind = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(library.symbol(name));
    if (pointer == nullptr && missing.empty()) missing = name;
  };
#define DRIVER_FUNCTION(field, symbol, header, parameters) bind(api->field, #symbol);
#include "runtime/cuda/driver_functions.def"
  if (!missing.empty())
    return unavailable(
        fmt::format("{} is no usable CUDA driver: it has no {}", library.path(), missing),
        driver_spec().hint);
  return std::shared_ptr<const DriverApi>(std::move(api));
}

std::string status_text(const DriverApi& api, int status) {
  const char *name = nullptr, *text = nullptr;
  if (api.error_name(status, &name) != kCu_SUCCESS || name == nullptr)
    return fmt::format("error {}", status);
  if (api.error_text(status, &text) != kCu_SUCCESS || text == nullptr) return name;
  return fmt::format("{}: {}", name, text);
}

Diagnostic driver_error(const DriverApi& api, const std::string& call, int status,
                        const std::string& during) {
  Diagnostic d = internal_error(
      fmt::format("the CUDA driver fails in {}: {}", call, status_text(api, status)),
      "--executor ptx runs the same kernels on this CPU and names the instruction at fault");
  if (!during.empty()) d.message = during + ": " + d.message;
  switch (status) {
    case kCu_ERROR_OUT_OF_MEMORY:
      d.hint = "a smaller batch, or --executor ptx: the same kernels, with the same bits, here";
      break;
    case kCu_ERROR_UNSUPPORTED_PTX_VERSION:
      d.hint = fmt::format(
          "this driver runs CUDA {}: NVRTC must not be newer (DRIFTC_LIBRARY_PATH "
          "names the folder of another)",
          api.version_text());
      break;
    case kCu_ERROR_NO_BINARY_FOR_GPU:
      d.hint = "the kernels are for another GPU: --device names the profile they are made for";
      break;
    case kCu_ERROR_NO_DEVICE:
      d.hint = "--executor ptx runs the same kernels, with the same bits, on this CPU";
      break;
    default:
      return d;
  }
  d.kind = ErrorKind::kUnavailable;
  return d;
}

Result<DriverFacts> driver_facts(const Settings& settings, LibraryReport* report) {
  DRIFTC_TRY(api, load_driver(settings, report));
  DriverFacts out;
  out.path = api->library.path();
  out.version = api->version_text();
  int status = api->init(0);
  if (status == kCu_SUCCESS) status = api->device_count(&out.gpus);
  if (status != kCu_SUCCESS) {
    out.gpus = 0;
    out.no_gpu = status_text(*api, status);
    return out;
  }
  int device = 0, major = 0, minor = 0;
  char name[256] = {};
  if (out.gpus > 0 && api->device(&device, 0) == kCu_SUCCESS &&
      api->device_name(name, sizeof name - 1, device) == kCu_SUCCESS &&
      api->device_attribute(&major, kCu_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ==
          kCu_SUCCESS &&
      api->device_attribute(&minor, kCu_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) ==
          kCu_SUCCESS)
    out.gpu = fmt::format("{}, compute capability {}.{}", name, major, minor);
  return out;
}

}  // namespace driftc::runtime::cuda
