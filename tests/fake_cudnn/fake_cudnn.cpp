// A libcudnn.so.9 for the tests: enough of the backend interface to rank a scripted list of
// engines, so that eager-plan runs without cuDNN, and its faults can be played. FAKE_CUDNN chooses:
//   1 works   2 is too old   3 lacks a function   4 fails when the heuristics are asked
// A plan of the first runs on memory of the fake driver (tests/fake_cuda), whose addresses are the
// host's: a sequential chain in c, r, s, with operands rounded to TF32 where the engine says
// TENSOR_CORE. The script: in NCHW the ranking below, in NHWC "not supported", so that only the
// fallback list is left. The engine that refuses to make a plan is 8. The environment variable
// FAKE_CUDNN changes how sums are made: "reverse" adds the last product first, "tf32" rounds
// operands whatever the engine says, "wrong" loses the last product of one output channel.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "ir/support/half.h"
#include "runtime/cuda/cudnn_api.h"

namespace {

using namespace driftc::runtime::cuda;

struct Engine {
  std::int64_t index;
  std::vector<int> notes;
  std::vector<std::pair<int, std::int64_t>> knobs;
};
const std::vector<Engine> kRanking = {
    {3, {0, 1}, {}},                        // TENSOR_CORE, DOWN_CONVERT_INPUTS: never PyTorch's
    {5, {4}, {}},                           // NONDETERMINISTIC
    {7, {0}, {{14, 4}, {2, 8}, {999, 1}}},  // TENSOR_CORE; STAGES, TILE_SIZE, one not known by name
    {8, {}, {}},                            // makes no plan
    {9, {6, 5}, {}}};                       // WINOGRAD_TILE_4x4, WINOGRAD
const std::vector<Engine> kFallback = {{1, {9}, {}}};

struct Fake {
  int type = 0;
  std::map<int, std::string> bytes;
  std::map<int, Fake*> children;
  const Engine* engine = nullptr;
  std::pair<int, std::int64_t> knob;
};

// Of an engine configuration: the operation that it computes.
constexpr int kOperation = -1;

Fake* operation_of(Fake* heuristics) {
  return heuristics->children[kCudnn_ATTR_ENGINEHEUR_OPERATION_GRAPH]
      ->children[kCudnn_ATTR_OPERATIONGRAPH_OPS];
}

std::vector<std::int64_t> ints(Fake* fake, int attribute) {
  const std::string& bytes = fake->bytes[attribute];
  std::vector<std::int64_t> out(bytes.size() / 8);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

struct View {
  std::vector<std::int64_t> dims, strides;
  float* data;
  float& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return data[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};
View view(Fake* tensor, float* data) {
  return {ints(tensor, kCudnn_ATTR_TENSOR_DIMENSIONS), ints(tensor, kCudnn_ATTR_TENSOR_STRIDES),
          data};
}

void convolve(Fake* operation, bool tf32, float* xs, float* ws, float* ys) {
  const View x = view(operation->children[kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_X], xs);
  const View w = view(operation->children[kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_W], ws);
  const View y = view(operation->children[kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_Y], ys);
  Fake* conv = operation->children[kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC];
  const auto stride = ints(conv, kCudnn_ATTR_CONVOLUTION_FILTER_STRIDES);
  const auto pad = ints(conv, kCudnn_ATTR_CONVOLUTION_PRE_PADDINGS);
  const auto dilation = ints(conv, kCudnn_ATTR_CONVOLUTION_DILATIONS);
  const std::int64_t groups = x.dims[1] / w.dims[1], rows = w.dims[0] / groups;
  const char* set = std::getenv("FAKE_CUDNN");
  const std::string how = set == nullptr ? "" : set;
  tf32 |= how == "tf32";
  const auto operand = [&](float v) { return tf32 ? driftc::tf32_rna(v) : v; };
  for (std::int64_t n = 0; n < y.dims[0]; ++n)
    for (std::int64_t k = 0; k < y.dims[1]; ++k)
      for (std::int64_t p = 0; p < y.dims[2]; ++p)
        for (std::int64_t q = 0; q < y.dims[3]; ++q) {
          float sum = 0;
          const std::int64_t taps = w.dims[2] * w.dims[3], all = w.dims[1] * taps;
          for (std::int64_t i = 0; i < all - (how == "wrong" && k == 1); ++i) {
            const std::int64_t at = how == "reverse" ? all - 1 - i : i;
            const std::int64_t c = at / taps, r = at % taps / w.dims[3], s = at % w.dims[3];
            const std::int64_t h = p * stride[0] - pad[0] + r * dilation[0];
            const std::int64_t v = q * stride[1] - pad[1] + s * dilation[1];
            const bool inside = h >= 0 && v >= 0 && h < x.dims[2] && v < x.dims[3];
            const float a = inside ? x.at(n, k / rows * w.dims[1] + c, h, v) : 0.0f;
            sum = std::fma(operand(a), operand(w.at(k, c, r, s)), sum);
          }
          y.at(n, k, p, q) = sum;
        }
}

bool channels_last(Fake* heuristics) {
  Fake* x = operation_of(heuristics)->children[kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_X];
  std::int64_t strides[4] = {};
  std::memcpy(strides, x->bytes[kCudnn_ATTR_TENSOR_STRIDES].data(), sizeof strides);
  return strides[1] == 1;
}

const std::vector<Engine>& list_of(Fake* heuristics) {
  int mode = 0;
  std::memcpy(&mode, heuristics->bytes[kCudnn_ATTR_ENGINEHEUR_MODE].data(), sizeof mode);
  return mode == kCudnn_HEUR_MODE_FALLBACK ? kFallback : kRanking;
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return FAKE_CUDNN == 2 ? 90100 : 99900; }
const char* cudnnGetErrorString(int status) {
  return status == 4000 ? "CUDNN_STATUS_INTERNAL_ERROR" : "CUDNN_STATUS_OTHER";
}
void cudnnGetLastErrorString(char* message, std::size_t size) {
  std::snprintf(message, size, "the fake fails as asked");
}

int cudnnBackendCreateDescriptor(int type, void** out) {
  Fake* made = new Fake;
  made->type = type;
  *out = made;
  return 0;
}
int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<Fake*>(descriptor);
  return 0;
}

int cudnnBackendFinalize(void* descriptor) {
  Fake* fake = static_cast<Fake*>(descriptor);
  if (fake->type == kCudnn_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    if (FAKE_CUDNN == 4) return 4000;
    if (&list_of(fake) == &kRanking && channels_last(fake)) return 3000;
  }
  if (fake->type == kCudnn_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      fake->children[kCudnn_ATTR_EXECUTION_PLAN_ENGINE_CONFIG]->engine->index == 8)
    return 3000;
  return 0;
}

int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, std::int64_t count,
                             const void* elements) {
  Fake* fake = static_cast<Fake*>(descriptor);
  if (type == kCudnn_TYPE_BACKEND_DESCRIPTOR) {
    fake->children[attribute] = *static_cast<Fake* const*>(elements);
    return 0;
  }
  const bool wide = type == kCudnn_TYPE_INT64 || type == kCudnn_TYPE_DOUBLE ||
                    type == kCudnn_TYPE_HANDLE || type == kCudnn_TYPE_VOID_PTR;
  const std::size_t size = type == kCudnn_TYPE_CHAR ? 1 : wide ? 8 : 4;
  fake->bytes[attribute].assign(static_cast<const char*>(elements),
                                size * static_cast<std::size_t>(count));
  return 0;
}

#if FAKE_CUDNN != 3
int cudnnBackendGetAttribute(void* descriptor, int attribute, int, std::int64_t requested,
                             std::int64_t* count, void* elements) {
  Fake* fake = static_cast<Fake*>(descriptor);
  switch (attribute) {
    case kCudnn_ATTR_ENGINEHEUR_RESULTS: {
      const std::vector<Engine>& list = list_of(fake);
      *count = static_cast<std::int64_t>(list.size());
      for (std::int64_t i = 0; i < std::min(requested, *count); ++i) {
        Fake* config = static_cast<Fake**>(elements)[i];
        config->engine = &list[static_cast<std::size_t>(i)];
        config->children[kOperation] = operation_of(fake);
      }
      return 0;
    }
    case kCudnn_ATTR_ENGINECFG_ENGINE:
      *count = 1;
      (*static_cast<Fake**>(elements))->engine = fake->engine;
      return 0;
    case kCudnn_ATTR_ENGINECFG_KNOB_CHOICES:
      *count = static_cast<std::int64_t>(fake->engine->knobs.size());
      for (std::int64_t i = 0; i < std::min(requested, *count); ++i)
        static_cast<Fake**>(elements)[i]->knob = fake->engine->knobs[static_cast<std::size_t>(i)];
      return 0;
    case kCudnn_ATTR_KNOB_CHOICE_KNOB_TYPE:
      *count = 1;
      std::memcpy(elements, &fake->knob.first, sizeof(int));
      return 0;
    case kCudnn_ATTR_KNOB_CHOICE_KNOB_VALUE:
      *count = 1;
      std::memcpy(elements, &fake->knob.second, sizeof(std::int64_t));
      return 0;
    case kCudnn_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE: {
      const std::int64_t bytes = 512;
      *count = 1;
      std::memcpy(elements, &bytes, sizeof bytes);
      return 0;
    }
    case kCudnn_ATTR_ENGINE_GLOBAL_INDEX:
      *count = 1;
      std::memcpy(elements, &fake->engine->index, sizeof(std::int64_t));
      return 0;
    case kCudnn_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = static_cast<std::int64_t>(fake->engine->notes.size());
      for (std::int64_t i = 0; i < std::min(requested, *count); ++i)
        static_cast<int*>(elements)[i] = fake->engine->notes[static_cast<std::size_t>(i)];
      return 0;
    default:
      return 2000;
  }
}
#endif

int cudnnCreate(void** handle) {
  *handle = new int(0);
  return 0;
}
int cudnnDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return 0;
}
int cudnnSetStream(void*, void*) { return 0; }
int cudnnBackendExecute(void*, void* plan_descriptor, void* pack_descriptor) {
  Fake *plan = static_cast<Fake*>(plan_descriptor), *pack = static_cast<Fake*>(pack_descriptor);
  Fake* config = plan->children[kCudnn_ATTR_EXECUTION_PLAN_ENGINE_CONFIG];
  if (config->engine->index == 9) return 4000;  // the one that says WINOGRAD only pretends
  const auto ids = ints(pack, kCudnn_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = ints(pack, kCudnn_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::map<std::int64_t, float*> at;
  for (std::size_t i = 0; i < ids.size(); ++i) at[ids[i]] = reinterpret_cast<float*>(pointers[i]);
  const std::vector<int>& notes = config->engine->notes;
  convolve(config->children[kOperation], std::find(notes.begin(), notes.end(), 0) != notes.end(),
           at['x'], at['w'], at['y']);
  return 0;
}

}  // extern "C"
