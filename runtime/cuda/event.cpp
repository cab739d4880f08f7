#include "runtime/cuda/event.h"

namespace driftc::runtime::cuda {
namespace {

// Owns an event.
class Event {
 public:
  explicit Event(Gpu& gpu) : gpu_(gpu) {}
  ~Event() {
    if (handle != nullptr) gpu_.api().destroy_event(handle);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Result<void> create() {
    return gpu_.check("cuEventCreate", gpu_.api().create_event(&handle, kCu_EVENT_DEFAULT),
                      kTiming);
  }
  Result<void> record() {
    return gpu_.check("cuEventRecord", gpu_.api().record_event(handle, gpu_.stream()), kTiming);
  }
  static constexpr const char* kTiming = "timing";
  void* handle = nullptr;

 private:
  Gpu& gpu_;
};

}  // namespace

Result<std::vector<double>> timed(Gpu& gpu, int runs, const std::function<Result<void>()>& work) {
  DRIFTC_CHECK(gpu.use());
  Event start(gpu), end(gpu);
  DRIFTC_CHECK(start.create());
  DRIFTC_CHECK(end.create());
  std::vector<double> out;
  for (int i = 0; i < runs; ++i) {
    DRIFTC_CHECK(start.record());
    DRIFTC_CHECK(work());
    DRIFTC_CHECK(end.record());
    DRIFTC_CHECK(gpu.check("cuEventSynchronize", gpu.api().wait_event(end.handle), Event::kTiming));
    float ms = 0;
    DRIFTC_CHECK(gpu.check("cuEventElapsedTime", gpu.api().elapsed(&ms, start.handle, end.handle),
                           Event::kTiming));
    out.push_back(static_cast<double>(ms));
  }
  return out;
}

}  // namespace driftc::runtime::cuda
