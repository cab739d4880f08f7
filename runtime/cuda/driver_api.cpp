#include "runtime/cuda/driver_api.h"

#include <fmt/format.h>

#include <type_traits>

namespace driftc::runtime::cuda {

Result<DriverFacts> driver_facts(const Settings& settings, LibraryReport* report) {
  const LibrarySpec spec{
      "the CUDA driver", {"libcuda.so.1"}, {}, "it comes with NVIDIA's driver for a GPU"};
  DRIFTC_TRY(library, open_library(spec, settings, report));
  DriverApi api;
  api.library = library;
  std::string missing;
  auto bind = [&](auto& pointer, const char* name) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(library.symbol(name));
    if (pointer == nullptr && missing.empty()) missing = name;
  };
  bind(api.init, "cuInit");
  bind(api.version, "cuDriverGetVersion");
  bind(api.device_count, "cuDeviceGetCount");
  bind(api.error_text, "cuGetErrorString");
  if (!missing.empty())
    return unavailable(
        fmt::format("{} is no usable CUDA driver: it has no {}", library.path(), missing),
        spec.hint);
  DriverFacts out;
  out.path = library.path();
  if (int v = 0; api.version(&v) == 0) out.version = fmt::format("{}.{}", v / 1000, v % 1000 / 10);
  int status = api.init(0);
  if (status == 0) status = api.device_count(&out.gpus);
  if (status != 0) {
    const char* text = nullptr;
    out.gpus = 0;
    out.no_gpu = api.error_text(status, &text) == 0 && text != nullptr
                     ? text
                     : fmt::format("error {}", status);
  }
  return out;
}

}  // namespace driftc::runtime::cuda
