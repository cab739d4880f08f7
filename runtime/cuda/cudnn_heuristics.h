// What cuDNN would run for a convolution on a named GPU, asked without that GPU: its heuristics
// take the device's properties as data. Each answer is an engine with the notes that cuDNN itself
// gives about its arithmetic and the choices (knobs) within it. What an engine's summation order
// is, cuDNN does not say.
//
// The list of one problem is cuDNN's own ranking (heuristic mode INSTANT, then the fallback list),
// as PyTorch's convolution asks for it. `pytorch_choice` then applies PyTorch's filter to it. Not
// thread-safe per object; two objects may be used in two threads.
#pragma once

#include <compare>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/types.h"
#include "runtime/cuda/cudnn_api.h"
#include "runtime/devices/profile.h"

namespace driftc::runtime::cuda {

// A forward convolution as cuDNN sees it. Padding that is not the same on both sides is not here:
// PyTorch pads the tensor itself then, and the convolution sees the padded one (`symmetric` does
// it).
struct ConvProblem {
  ir::DType dtype = ir::DType::kF32;
  ir::Layout layout = ir::Layout::kNchw;
  std::vector<std::int64_t> x, w, y;                // NCHW, KC/gRS, NKPQ
  std::vector<std::int64_t> stride, pad, dilation;  // height, width
  std::int64_t groups = 1;
  auto operator<=>(const ConvProblem&) const = default;
};

enum class Algorithm { kDirect, kImplicitGemm, kWinograd, kFft };
// "implicit_gemm" (products summed directly; cuDNN does not tell direct, im2col and implicit GEMM
// apart), "winograd", "fft"; "direct" is never cuDNN's: PyTorch's own depthwise kernel.
std::string_view name_of(Algorithm algorithm);

struct EngineChoice {
  std::int64_t engine = 0;                                  // global index of this cuDNN version
  std::vector<std::string> notes;                           // "TENSOR_CORE", sorted by number
  std::vector<std::pair<std::string, std::int64_t>> knobs;  // "TILE_SIZE" -> 3, sorted by name
  std::string precision;                                    // "tf32", "f32", "f16", "bf16", "f64"
  Algorithm algorithm = Algorithm::kImplicitGemm;
  bool deterministic = true;
  bool fallback = false;  // from cuDNN's fallback list, not its ranking
  bool builds = true;     // cuDNN makes an execution plan of it for the device
  bool has_note(std::string_view note) const;
  friend bool operator==(const EngineChoice&, const EngineChoice&) = default;
};

// PyTorch's settings; the defaults are PyTorch's.
struct PytorchFlags {
  bool allow_tf32 = true;
  bool deterministic = false;
};

// Which of `ranked` PyTorch would take: the first that builds and passes its filter (never
// DOWN_CONVERT_INPUTS, TENSOR_CORE in f32 only with TF32, NONDETERMINISTIC only where that is
// allowed). Empty when there is none. With cudnn.benchmark on, PyTorch takes the fastest by
// measurement instead, which nothing here can know.
std::optional<std::size_t> pytorch_choice(const std::vector<EngineChoice>& ranked, ir::DType dtype,
                                          const PytorchFlags& flags);

class CudnnHeuristics {
 public:
  // kUnavailable when this cuDNN refuses the device.
  static Result<CudnnHeuristics> create(std::shared_ptr<const CudnnApi> api,
                                        const DeviceProfile& device);
  Result<std::vector<EngineChoice>> ranked(const ConvProblem& problem) const;

 private:
  CudnnHeuristics(std::shared_ptr<const CudnnApi> api, DeviceProfile device, Descriptor properties)
      : api_(std::move(api)), device_(std::move(device)), properties_(std::move(properties)) {}
  std::shared_ptr<const CudnnApi> api_;
  DeviceProfile device_;
  Descriptor properties_;
};

// The device as the JSON that cuDNN takes.
std::string device_json(const DeviceProfile& device);

}  // namespace driftc::runtime::cuda
