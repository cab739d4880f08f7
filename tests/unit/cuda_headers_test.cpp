// Our own values and prototypes of the CUDA driver, NVRTC and cuDNN against the real headers, where
// CMake found them (a toolkit, or the include folders of NVIDIA's wheels): a mistake does not
// compile.
#include <doctest/doctest.h>

#include <cstdio>
#include <type_traits>

#include "codegen/nvrtc_api.h"
#include "runtime/cuda/cudnn_api.h"
#include "runtime/cuda/driver_api.h"

#ifdef DRIFTC_CUDA_HEADER
#include <cuda.h>
#endif
#ifdef DRIFTC_NVRTC_HEADER
#include <nvrtc.h>
#endif
#ifdef DRIFTC_CUDNN_HEADER
#include <cudnn_graph.h>
#endif

using namespace driftc::runtime::cuda;
using driftc::codegen::NvrtcApi;
using driftc::codegen::NvrtcProgram;

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
static_assert(same_prototype(static_cast<int (*)(void**)>(nullptr),
                             static_cast<CudnnValue (*)(int*)>(nullptr)));
static_assert(!same_prototype(static_cast<int (*)(unsigned)>(nullptr),
                              static_cast<int (*)(unsigned long)>(nullptr)));
#define HOLDS(ours, theirs) static_assert(same_prototype(decltype(ours){}, decltype(&theirs){}))

}  // namespace

#ifdef DRIFTC_CUDA_HEADER
#define DRIVER_FUNCTION(field, symbol, header, parameters) HOLDS(DriverApi::field, header);
#include "runtime/cuda/driver_functions.def"
#define DRIVER_VALUE(prefix, name, value) static_assert(static_cast<int>(prefix##name) == value);
#include "runtime/cuda/driver_values.def"
static_assert(std::is_same_v<CUdeviceptr, DevicePointer>);
// The symbol of the library behind a name of the header: "cuMemAlloc" is "cuMemAlloc_v2".
#define TEXT(name) #name
#define SYMBOL(name) TEXT(name)

TEST_CASE("CUDA headers: the driver's values, prototypes and symbols are ours") {
  int functions = 0;
#define DRIVER_FUNCTION(field, symbol, header, parameters)                   \
  ++functions;                                                               \
  /* Older and newer form of this one are alike, and every driver has it. */ \
  if (std::string_view(#field) != "elapsed") CHECK(std::string_view(#symbol) == SYMBOL(header));
#include "runtime/cuda/driver_functions.def"
  CHECK(functions > 25);
}
#else
TEST_CASE("CUDA headers: the driver's values, prototypes and symbols are ours") {
  std::printf("[skip] cuda.h is not installed\n");
}
#endif

#ifdef DRIFTC_NVRTC_HEADER
#define NVRTC_FUNCTION(field, symbol, result, parameters) HOLDS(NvrtcApi::field, symbol);
#include "codegen/nvrtc_functions.def"
static_assert(NVRTC_SUCCESS == 0);

TEST_CASE("CUDA headers: NVRTC's prototypes are ours") {
  CHECK(sizeof(nvrtcProgram) == sizeof(NvrtcProgram*));
}
#else
TEST_CASE("CUDA headers: NVRTC's prototypes are ours") {
  std::printf("[skip] nvrtc.h is not installed\n");
}
#endif

#ifdef DRIFTC_CUDNN_HEADER
HOLDS(CudnnApi::version, cudnnGetVersion);
HOLDS(CudnnApi::error_text, cudnnGetErrorString);
HOLDS(CudnnApi::last_error, cudnnGetLastErrorString);
HOLDS(CudnnApi::create, cudnnBackendCreateDescriptor);
HOLDS(CudnnApi::destroy, cudnnBackendDestroyDescriptor);
HOLDS(CudnnApi::finalize, cudnnBackendFinalize);
HOLDS(CudnnApi::set, cudnnBackendSetAttribute);
HOLDS(CudnnApi::get, cudnnBackendGetAttribute);
HOLDS(CudnnApi::create_handle, cudnnCreate);
HOLDS(CudnnApi::destroy_handle, cudnnDestroy);
HOLDS(CudnnApi::set_stream, cudnnSetStream);
HOLDS(CudnnApi::execute, cudnnBackendExecute);

static_assert(sizeof(cudnnDataType_t) == sizeof(int) &&
              sizeof(cudnnBackendKnobType_t) == sizeof(int) &&
              sizeof(cudnnBackendNumericalNote_t) == sizeof(int) &&
              sizeof(cudnnBackendHeurMode_t) == sizeof(int) &&
              sizeof(cudnnConvolutionMode_t) == sizeof(int));
static_assert(std::is_same_v<cudnnBackendDescriptor_t, CudnnDescriptor>);

#define CUDNN_VALUE(name, value) static_assert(static_cast<int>(CUDNN_##name) == value);
#define CUDNN_NOTE(name, value) \
  static_assert(static_cast<int>(CUDNN_NUMERICAL_NOTE_##name) == value);
#define CUDNN_KNOB(name, value) static_assert(static_cast<int>(CUDNN_KNOB_TYPE_##name) == value);
#include "runtime/cuda/cudnn_values.def"

TEST_CASE("CUDA headers: cuDNN's values and prototypes are ours") {
  int notes = 0, knobs = 0;
#define CUDNN_NOTE(name, value) ++notes;
#define CUDNN_KNOB(name, value) ++knobs;
#include "runtime/cuda/cudnn_values.def"
  // A newer cuDNN may add some; they are then printed by number.
  CHECK(notes <= CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  CHECK(knobs <= CUDNN_KNOB_TYPE_COUNTS);
}
#else
TEST_CASE("CUDA headers: cuDNN's values and prototypes are ours") {
  std::printf("[skip] cudnn_graph.h is not installed\n");
}
#endif
