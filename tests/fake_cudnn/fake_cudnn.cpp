// A libcudnn.so.9 for the tests: enough of the backend interface to rank a scripted list of
// engines, so that eager-plan runs without cuDNN, and its faults can be played. FAKE_CUDNN chooses:
//   1 works   2 is too old   3 lacks a function   4 fails when the heuristics are asked
// The script: in NCHW the ranking below, in NHWC "not supported", so that only the fallback list is
// left. The engine that refuses to make a plan is 8.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

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

bool channels_last(Fake* heuristics) {
  Fake* x = heuristics->children[kCudnn_ATTR_ENGINEHEUR_OPERATION_GRAPH]
                ->children[kCudnn_ATTR_OPERATIONGRAPH_OPS]
                ->children[kCudnn_ATTR_OPERATION_CONVOLUTION_FORWARD_X];
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
  const std::size_t size = type == kCudnn_TYPE_CHAR                                  ? 1
                           : type == kCudnn_TYPE_INT64 || type == kCudnn_TYPE_DOUBLE ? 8
                                                                                     : 4;
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
      for (std::int64_t i = 0; i < std::min(requested, *count); ++i)
        static_cast<Fake**>(elements)[i]->engine = &list[static_cast<std::size_t>(i)];
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

}  // extern "C"
