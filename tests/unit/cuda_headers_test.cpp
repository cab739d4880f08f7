// Our own values and prototypes of the CUDA driver and cuDNN against the real headers, where CMake
// found them: a mistake does not compile.
#include <doctest/doctest.h>

#include <cstdio>
#include <type_traits>

#include "runtime/cuda/cudnn_api.h"
#include "runtime/cuda/driver_api.h"

#ifdef DRIFTC_CUDA_HEADERS
#include <cuda.h>
#include <cudnn_graph.h>
#endif

using namespace driftc::runtime::cuda;

#ifdef DRIFTC_CUDA_HEADERS

namespace {

// Alike for the calling convention: the same type, two pointers, or an enum of the header where we
// write int.
template <class Ours, class Theirs>
constexpr bool is_alike() {
  if constexpr (std::is_same_v<Ours, int> && std::is_enum_v<Theirs>)
    return sizeof(Ours) == sizeof(Theirs);
  else
    return std::is_same_v<Ours, Theirs> || (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>);
}

template <class R, class... A, class S, class... B>
constexpr bool same_prototype(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return is_alike<R, S>() && (is_alike<A, B>() && ...);
}
#define HOLDS(ours, theirs) static_assert(same_prototype(decltype(ours){}, decltype(&theirs){}))

HOLDS(CudnnApi::version, cudnnGetVersion);
HOLDS(CudnnApi::error_text, cudnnGetErrorString);
HOLDS(CudnnApi::last_error, cudnnGetLastErrorString);
HOLDS(CudnnApi::create, cudnnBackendCreateDescriptor);
HOLDS(CudnnApi::destroy, cudnnBackendDestroyDescriptor);
HOLDS(CudnnApi::finalize, cudnnBackendFinalize);
HOLDS(CudnnApi::set, cudnnBackendSetAttribute);
HOLDS(CudnnApi::get, cudnnBackendGetAttribute);
HOLDS(DriverApi::init, cuInit);
HOLDS(DriverApi::version, cuDriverGetVersion);
HOLDS(DriverApi::device_count, cuDeviceGetCount);
HOLDS(DriverApi::error_text, cuGetErrorString);

static_assert(sizeof(cudnnDataType_t) == sizeof(int) &&
              sizeof(cudnnBackendKnobType_t) == sizeof(int) &&
              sizeof(cudnnBackendNumericalNote_t) == sizeof(int) &&
              sizeof(cudnnBackendHeurMode_t) == sizeof(int) &&
              sizeof(cudnnConvolutionMode_t) == sizeof(int));
static_assert(std::is_same_v<cudnnBackendDescriptor_t, CudnnDescriptor>);
static_assert(CUDA_SUCCESS == 0);

#define CUDNN_VALUE(name, value) static_assert(static_cast<int>(CUDNN_##name) == value);
#define CUDNN_NOTE(name, value) \
  static_assert(static_cast<int>(CUDNN_NUMERICAL_NOTE_##name) == value);
#define CUDNN_KNOB(name, value) static_assert(static_cast<int>(CUDNN_KNOB_TYPE_##name) == value);
#include "runtime/cuda/cudnn_values.def"

}  // namespace

TEST_CASE("CUDA headers: our values and prototypes are theirs") {
  int notes = 0, knobs = 0;
#define CUDNN_NOTE(name, value) ++notes;
#define CUDNN_KNOB(name, value) ++knobs;
#include "runtime/cuda/cudnn_values.def"
  // A newer cuDNN may add some; they are then printed by number.
  CHECK(notes <= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  CHECK(knobs <= CUDNN_KNOB_TYPE_COUNTS);
}

#else

TEST_CASE("CUDA headers: our values and prototypes are theirs") {
  std::printf("[skip] cuda.h and cudnn_graph.h are not installed\n");
}

#endif
