// A libcuda.so.1 for the tests: the entry points of runtime/cuda/driver_functions.def with their
// real names and meanings, on the PTX executor, so that everything that talks to a driver really
// runs without a GPU. As strict as a driver where that matters: nothing before cuInit, nothing
// without a current context, a fault of a kernel shows at the next synchronisation and stays, new
// memory holds garbage, a capturing stream records and refuses to wait.
//
// FAKE_CUDA in the environment, words with ',' between them, plays a part:
//   old, cuda12    a driver for CUDA 11.4; for 12.4
//   no-gpu, t4     finds no GPU; the GPU is a T4
//   memory=BYTES   the GPU has no more
//   fault=TEXT     kernels whose name holds TEXT touch what is not theirs
//   seed=N         atomics in the order of this seed
//   flip           copies to the host flip the lowest bit of their first byte
// CUDA_VISIBLE_DEVICES as a driver reads it: the one GPU is 0, and shows where the variable is not
// set or begins with 0.
// FAKE_CUDA_INCOMPLETE (at build): a driver that lacks most functions.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/cuda/driver_api.h"

#ifndef FAKE_CUDA_INCOMPLETE
#include "runtime/ptx/arguments.h"
#include "runtime/ptx/machine.h"
#include "runtime/ptx/parser.h"
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace driftc::runtime;
using namespace driftc::runtime::cuda;

// The value of a word of FAKE_CUDA: "" for a bare word, null when it is not there.
std::unique_ptr<std::string> part(const std::string& word) {
  const char* all = std::getenv("FAKE_CUDA");
  std::string text = all == nullptr ? "" : all;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string one = text.substr(0, end);
    text.erase(0, end + 1);
    if (one == word) return std::make_unique<std::string>();
    if (one.starts_with(word + "="))
      return std::make_unique<std::string>(one.substr(word.size() + 1));
  }
  return nullptr;
}

}  // namespace

EXPORT int cuDriverGetVersion(int* version) {
  *version = part("old") ? 11040 : part("cuda12") ? 12040 : 13000;
  return kCu_SUCCESS;
}

#ifndef FAKE_CUDA_INCOMPLETE

namespace {

bool visible() {
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  return devices == nullptr || std::string(devices) == "0" ||
         std::string(devices).starts_with("0,");
}

struct FakeModule {
  ptx::Module parsed;
};
struct FakeFunction {
  const ptx::Entry* entry;
  std::shared_ptr<const ptx::Program> program;
  std::uint32_t dynamic_shared = 48 * 1024;
};
using Work = std::function<int()>;
struct FakeStream {
  bool capturing = false, invalid = false;
  std::vector<Work> recorded;
};
struct FakeGraph {
  std::vector<Work> work;
};
struct FakeEvent {
  std::int64_t at = -1;
};

struct Fake {
  std::mutex mutex;
  bool initialised = false;
  int contexts = 0;
  int sticky = kCu_SUCCESS;
  ptx::DeviceMemory memory;
  std::map<DevicePointer, std::size_t> allocated;
  std::size_t used = 0;
  std::set<void*> modules, functions, streams, graphs, events;
  std::int64_t clock = 0;  // launches so far: the time of the fake
  std::map<std::string, long> calls;
};
// Never destroyed: a driver outlives everything that uses it.
Fake& fake() {
  static Fake* made = new Fake;
  return *made;
}
ThreadPool& pool() {
  static ThreadPool* made = new ThreadPool(1);
  return *made;
}
thread_local bool current = false;

std::size_t total_memory() {
  const auto given = part("memory");
  return given ? std::strtoull(given->c_str(), nullptr, 10) : std::size_t{141} << 30;
}
int capability() { return part("t4") ? 75 : 90; }

// What every call checks first.
int ready(const char* name) {
  ++fake().calls[name];
  if (!fake().initialised) return kCu_ERROR_NOT_INITIALIZED;
  return kCu_SUCCESS;
}
int ready_with_context(const char* name) {
  if (const int status = ready(name); status != kCu_SUCCESS) return status;
  if (!current) return kCu_ERROR_INVALID_CONTEXT;
  return fake().sticky;
}
#define READY                               \
  const std::lock_guard lock(fake().mutex); \
  if (const int status = ready(__func__); status != kCu_SUCCESS) return status
#define WITH_CONTEXT                        \
  const std::lock_guard lock(fake().mutex); \
  if (const int status = ready_with_context(__func__); status != kCu_SUCCESS) return status

bool any_capture() {
  for (void* s : fake().streams)
    if (static_cast<FakeStream*>(s)->capturing) return true;
  return false;
}
// Calls that may wait for the device spoil a capture.
#define NOT_WHILE_CAPTURING \
  if (any_capture()) return kCu_ERROR_STREAM_CAPTURE_UNSUPPORTED

int on(void* stream, Work work) {
  if (!fake().streams.contains(stream)) return kCu_ERROR_INVALID_HANDLE;
  auto* s = static_cast<FakeStream*>(stream);
  if (!s->capturing) return work();
  s->recorded.push_back(std::move(work));
  return kCu_SUCCESS;
}

bool holds(DevicePointer at, std::size_t bytes) { return fake().memory.find(at, bytes) != nullptr; }

int run_kernel(const FakeFunction& f, const ptx::LaunchConfig& config,
               const std::vector<std::byte>& parameters) {
  ++fake().clock;
  const auto fault = part("fault");
  if (fault && f.entry->name.find(*fault) != std::string::npos) {
    fake().sticky = kCu_ERROR_ILLEGAL_ADDRESS;
    return kCu_SUCCESS;
  }
  ptx::LaunchOptions options;
  if (const auto seed = part("seed"))
    options.schedule_seed = std::strtoull(seed->c_str(), nullptr, 10);
  // A real driver knows nothing of a fault either until it waits.
  if (!ptx::launch(*f.program, config, parameters, fake().memory, pool(), options).ok())
    fake().sticky = kCu_ERROR_ILLEGAL_ADDRESS;
  return kCu_SUCCESS;
}

const std::map<int, std::pair<const char*, const char*>>& errors() {
  static const auto* table = new std::map<int, std::pair<const char*, const char*>>{
      {0, {"CUDA_SUCCESS", "no error"}},
      {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
      {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
      {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
      {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
      {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
      {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
      {222,
       {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "the provided PTX was compiled with an unsupported toolchain."}},
      {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
      {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
      {700, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
      {900,
       {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        "operation not permitted when stream is capturing"}}};
  return *table;
}

void write_log(unsigned int count, const int* names, void** values, const std::string& text) {
  char* buffer = nullptr;
  std::size_t size = 0;
  for (unsigned int i = 0; i < count; ++i) {
    if (names[i] == kCu_JIT_ERROR_LOG_BUFFER) buffer = static_cast<char*>(values[i]);
    if (names[i] == kCu_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      size = reinterpret_cast<std::size_t>(values[i]);
  }
  if (buffer == nullptr || size == 0) return;
  const std::size_t n = std::min(text.size(), size - 1);
  std::memcpy(buffer, text.data(), n);
  buffer[n] = 0;
}

}  // namespace

// How often an entry point was called; for tests in the same process.
EXPORT long fakeCudaCalls(const char* name) {
  const std::lock_guard lock(fake().mutex);
  return fake().calls[name];
}
EXPORT std::size_t fakeCudaUsed() { return fake().used; }
// Repairs what a fault broke: a new process, for tests in this one.
EXPORT void fakeCudaHeal() { fake().sticky = kCu_SUCCESS; }

EXPORT int cuInit(unsigned int flags) {
  if (flags != 0) return kCu_ERROR_INVALID_VALUE;
  if (part("no-gpu") || !visible()) return kCu_ERROR_NO_DEVICE;
  fake().initialised = true;
  return kCu_SUCCESS;
}
EXPORT int cuGetErrorName(int status, const char** name) {
  const auto found = errors().find(status);
  *name = found == errors().end() ? nullptr : found->second.first;
  return *name == nullptr ? kCu_ERROR_INVALID_VALUE : kCu_SUCCESS;
}
EXPORT int cuGetErrorString(int status, const char** text) {
  const auto found = errors().find(status);
  *text = found == errors().end() ? nullptr : found->second.second;
  return *text == nullptr ? kCu_ERROR_INVALID_VALUE : kCu_SUCCESS;
}

EXPORT int cuDeviceGetCount(int* count) {
  READY;
  *count = 1;
  return kCu_SUCCESS;
}
EXPORT int cuDeviceGet(int* device, int ordinal) {
  READY;
  *device = 0;
  return ordinal == 0 ? kCu_SUCCESS : kCu_ERROR_INVALID_VALUE;
}
EXPORT int cuDeviceGetName(char* name, int size, int) {
  READY;
  std::snprintf(name, static_cast<std::size_t>(size), "%s",
                part("t4") ? "Tesla T4" : "NVIDIA H200");
  return kCu_SUCCESS;
}
EXPORT int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  READY;
  *bytes = total_memory();
  return kCu_SUCCESS;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int) {
  READY;
  switch (attribute) {
    case kCu_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = capability() / 10;
      return kCu_SUCCESS;
    case kCu_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = capability() % 10;
      return kCu_SUCCESS;
    case kCu_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = part("t4") ? 40 : 132;
      return kCu_SUCCESS;
    default:
      return kCu_ERROR_INVALID_VALUE;
  }
}

EXPORT int cuDevicePrimaryCtxRetain(void** context, int) {
  READY;
  ++fake().contexts;
  *context = &fake();
  return kCu_SUCCESS;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) {
  READY;
  if (fake().contexts == 0) return kCu_ERROR_INVALID_CONTEXT;
  if (--fake().contexts == 0) current = false;
  return kCu_SUCCESS;
}
EXPORT int cuCtxSetCurrent(void* context) {
  READY;
  if (context != nullptr && (context != &fake() || fake().contexts == 0))
    return kCu_ERROR_INVALID_CONTEXT;
  current = context != nullptr;
  return kCu_SUCCESS;
}

EXPORT int cuModuleLoadDataEx(void** module, const void* image, unsigned int count, int* names,
                              void** values) {
  WITH_CONTEXT;
  NOT_WHILE_CAPTURING;
  auto parsed = ptx::parse_module(static_cast<const char*>(image), "module.ptx");
  if (!parsed) {
    write_log(count, names, values,
              "ptxas application ptx input, line " + std::to_string(parsed.error().place.line) +
                  "; error : " + parsed.error().message);
    return kCu_ERROR_INVALID_PTX;
  }
  // PTX 9.0 came with CUDA 13.0, 8.4 with 12.4.
  if (part("cuda12") && std::atof(parsed->version.c_str()) > 8.4)
    return kCu_ERROR_UNSUPPORTED_PTX_VERSION;
  if (std::atoi(parsed->target.c_str() + 3) > capability()) {
    write_log(count, names, values,
              "ptxas fatal : SM version specified by .target is higher than the GPU's");
    return kCu_ERROR_INVALID_PTX;
  }
  *module = new FakeModule{std::move(*parsed)};
  fake().modules.insert(*module);
  return kCu_SUCCESS;
}
EXPORT int cuModuleUnload(void* module) {
  WITH_CONTEXT;
  if (fake().modules.erase(module) == 0) return kCu_ERROR_INVALID_HANDLE;
  std::erase_if(fake().functions, [&](void* f) {
    const auto& entries = static_cast<FakeModule*>(module)->parsed.entries;
    const ptx::Entry* entry = static_cast<FakeFunction*>(f)->entry;
    if (entries.empty() || entry < &entries.front() || entry > &entries.back()) return false;
    delete static_cast<FakeFunction*>(f);
    return true;
  });
  delete static_cast<FakeModule*>(module);
  return kCu_SUCCESS;
}
EXPORT int cuModuleGetFunction(void** function, void* module, const char* name) {
  WITH_CONTEXT;
  if (!fake().modules.contains(module)) return kCu_ERROR_INVALID_HANDLE;
  const ptx::Module& parsed = static_cast<FakeModule*>(module)->parsed;
  for (const ptx::Entry& entry : parsed.entries) {
    if (entry.name != name || !entry.is_kernel) continue;
    auto program = ptx::decode(parsed, name);
    if (!program) return kCu_ERROR_INVALID_PTX;
    *function = new FakeFunction{&entry, *program};
    fake().functions.insert(*function);
    return kCu_SUCCESS;
  }
  return kCu_ERROR_NOT_FOUND;
}
EXPORT int cuFuncSetAttribute(void* function, int attribute, int value) {
  WITH_CONTEXT;
  if (!fake().functions.contains(function)) return kCu_ERROR_INVALID_HANDLE;
  auto* f = static_cast<FakeFunction*>(function);
  if (attribute != kCu_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      static_cast<std::uint32_t>(value) + f->program->static_shared_bytes() > 227 * 1024)
    return kCu_ERROR_INVALID_VALUE;
  f->dynamic_shared = static_cast<std::uint32_t>(value);
  return kCu_SUCCESS;
}

EXPORT int cuLaunchKernel(void* function, unsigned int grid_x, unsigned int grid_y,
                          unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                          unsigned int block_z, unsigned int shared_bytes, void* stream,
                          void** parameters, void** extra) {
  WITH_CONTEXT;
  if (!fake().functions.contains(function)) return kCu_ERROR_INVALID_HANDLE;
  const auto* f = static_cast<FakeFunction*>(function);
  const std::uint64_t threads = std::uint64_t{block_x} * block_y * block_z;
  if (extra != nullptr || grid_x == 0 || grid_y == 0 || grid_z == 0 || grid_y > 65535 ||
      grid_z > 65535 || threads == 0 || threads > 1024 || block_z > 64 ||
      shared_bytes > f->dynamic_shared)
    return kCu_ERROR_INVALID_VALUE;
  // A driver copies the arguments before it returns.
  ptx::ArgumentPacker packer;
  for (std::size_t i = 0; i < f->entry->parameters.size(); ++i) {
    const ptx::Variable& p = f->entry->parameters[i];
    const std::size_t bytes = static_cast<std::size_t>(p.bytes);
    packer.add_bytes(parameters[i], bytes, p.alignment != 0 ? p.alignment : bytes);
  }
  std::vector<std::byte> packed(packer.bytes().begin(), packer.bytes().end());
  const ptx::LaunchConfig config{
      {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  return on(stream,
            [f, config, packed = std::move(packed)] { return run_kernel(*f, config, packed); });
}

EXPORT int cuMemAlloc_v2(DevicePointer* pointer, std::size_t bytes) {
  WITH_CONTEXT;
  NOT_WHILE_CAPTURING;
  if (bytes == 0) return kCu_ERROR_INVALID_VALUE;
  if (fake().used + bytes > total_memory()) return kCu_ERROR_OUT_OF_MEMORY;
  *pointer = fake().memory.allocate(bytes, "device memory");
  std::memset(reinterpret_cast<void*>(*pointer), 0xA5, bytes);
  fake().allocated[*pointer] = bytes;
  fake().used += bytes;
  return kCu_SUCCESS;
}
EXPORT int cuMemFree_v2(DevicePointer pointer) {
  WITH_CONTEXT;
  NOT_WHILE_CAPTURING;
  const auto found = fake().allocated.find(pointer);
  if (found == fake().allocated.end()) return kCu_ERROR_INVALID_VALUE;
  fake().used -= found->second;
  fake().allocated.erase(found);
  fake().memory.remove(pointer);
  return kCu_SUCCESS;
}
EXPORT int cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, std::size_t bytes,
                                void* stream) {
  WITH_CONTEXT;
  if (!holds(to, bytes)) return kCu_ERROR_INVALID_VALUE;
  return on(stream, [=] {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return int{kCu_SUCCESS};
  });
}
EXPORT int cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, std::size_t bytes, void* stream) {
  WITH_CONTEXT;
  if (!holds(from, bytes)) return kCu_ERROR_INVALID_VALUE;
  return on(stream, [=] {
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    if (part("flip") && bytes > 0) *static_cast<unsigned char*>(to) ^= 1;
    return int{kCu_SUCCESS};
  });
}
EXPORT int cuMemsetD8Async(DevicePointer to, unsigned char value, std::size_t bytes, void* stream) {
  WITH_CONTEXT;
  if (!holds(to, bytes)) return kCu_ERROR_INVALID_VALUE;
  return on(stream, [=] {
    std::memset(reinterpret_cast<void*>(to), value, bytes);
    return int{kCu_SUCCESS};
  });
}

EXPORT int cuStreamCreate(void** stream, unsigned int flags) {
  WITH_CONTEXT;
  if (flags > 1) return kCu_ERROR_INVALID_VALUE;
  *stream = new FakeStream;
  fake().streams.insert(*stream);
  return kCu_SUCCESS;
}
EXPORT int cuStreamDestroy_v2(void* stream) {
  WITH_CONTEXT;
  if (fake().streams.erase(stream) == 0) return kCu_ERROR_INVALID_HANDLE;
  delete static_cast<FakeStream*>(stream);
  return kCu_SUCCESS;
}
EXPORT int cuStreamSynchronize(void* stream) {
  WITH_CONTEXT;
  if (!fake().streams.contains(stream)) return kCu_ERROR_INVALID_HANDLE;
  auto* s = static_cast<FakeStream*>(stream);
  if (s->capturing) {
    s->invalid = true;
    return kCu_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return fake().sticky;
}
EXPORT int cuStreamBeginCapture_v2(void* stream, int mode) {
  WITH_CONTEXT;
  if (!fake().streams.contains(stream)) return kCu_ERROR_INVALID_HANDLE;
  auto* s = static_cast<FakeStream*>(stream);
  if (s->capturing || mode < 0 || mode > 2) return kCu_ERROR_INVALID_VALUE;
  *s = {true, false, {}};
  return kCu_SUCCESS;
}
EXPORT int cuStreamEndCapture(void* stream, void** graph) {
  WITH_CONTEXT;
  if (!fake().streams.contains(stream)) return kCu_ERROR_INVALID_HANDLE;
  auto* s = static_cast<FakeStream*>(stream);
  if (!s->capturing) return kCu_ERROR_INVALID_VALUE;
  s->capturing = false;
  if (s->invalid) return kCu_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *graph = new FakeGraph{std::move(s->recorded)};
  fake().graphs.insert(*graph);
  return kCu_SUCCESS;
}
EXPORT int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  WITH_CONTEXT;
  if (!fake().graphs.contains(graph) || flags != 0) return kCu_ERROR_INVALID_VALUE;
  *executable = new FakeGraph(*static_cast<FakeGraph*>(graph));
  fake().graphs.insert(*executable);
  return kCu_SUCCESS;
}
EXPORT int cuGraphLaunch(void* executable, void* stream) {
  WITH_CONTEXT;
  if (!fake().graphs.contains(executable) || !fake().streams.contains(stream))
    return kCu_ERROR_INVALID_HANDLE;
  for (const Work& work : static_cast<FakeGraph*>(executable)->work)
    if (const int status = work(); status != kCu_SUCCESS) return status;
  return kCu_SUCCESS;
}
EXPORT int cuGraphDestroy(void* graph) {
  WITH_CONTEXT;
  if (fake().graphs.erase(graph) == 0) return kCu_ERROR_INVALID_HANDLE;
  delete static_cast<FakeGraph*>(graph);
  return kCu_SUCCESS;
}
EXPORT int cuGraphExecDestroy(void* executable) { return cuGraphDestroy(executable); }

EXPORT int cuEventCreate(void** event, unsigned int) {
  WITH_CONTEXT;
  *event = new FakeEvent;
  fake().events.insert(*event);
  return kCu_SUCCESS;
}
EXPORT int cuEventDestroy_v2(void* event) {
  WITH_CONTEXT;
  if (fake().events.erase(event) == 0) return kCu_ERROR_INVALID_HANDLE;
  delete static_cast<FakeEvent*>(event);
  return kCu_SUCCESS;
}
EXPORT int cuEventRecord(void* event, void* stream) {
  WITH_CONTEXT;
  if (!fake().events.contains(event)) return kCu_ERROR_INVALID_HANDLE;
  return on(stream, [event] {
    static_cast<FakeEvent*>(event)->at = fake().clock;
    return int{kCu_SUCCESS};
  });
}
EXPORT int cuEventSynchronize(void* event) {
  WITH_CONTEXT;
  return fake().events.contains(event) ? fake().sticky : kCu_ERROR_INVALID_HANDLE;
}
// A launch takes a millisecond here.
EXPORT int cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  WITH_CONTEXT;
  if (!fake().events.contains(start) || !fake().events.contains(end))
    return kCu_ERROR_INVALID_HANDLE;
  const auto *a = static_cast<FakeEvent*>(start), *b = static_cast<FakeEvent*>(end);
  if (a->at < 0 || b->at < 0) return kCu_ERROR_INVALID_HANDLE;
  *milliseconds = static_cast<float>(b->at - a->at);
  return kCu_SUCCESS;
}

#define DRIVER_FUNCTION(field, symbol, header, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), int(*) parameters>);
#include "runtime/cuda/driver_functions.def"

#endif
