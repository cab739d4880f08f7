#include "runtime/ptx/memory.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "ir/support/assert.h"
#include "ir/support/tensor_memory.h"

namespace driftc::runtime::ptx {

void DeviceMemory::Free::operator()(void* p) const {
  std::free(p);
  TensorMemory::remove(bytes);
}

std::uint64_t DeviceMemory::insert(std::uint64_t begin, std::size_t bytes, bool writable,
                                   std::string name) {
  if (bytes == 0) return begin;
  auto at =
      std::upper_bound(buffers_.begin(), buffers_.end(), begin,
                       [](std::uint64_t b, const Buffer& buffer) { return b < buffer.begin; });
  bool overlaps = (at != buffers_.end() && at->begin < begin + bytes) ||
                  (at != buffers_.begin() && std::prev(at)->end > begin);
  DRIFTC_ASSERT(!overlaps, "device buffers overlap");
  buffers_.insert(at, Buffer{begin, begin + bytes, writable, std::move(name), nullptr});
  return begin;
}

std::uint64_t DeviceMemory::add(void* data, std::size_t bytes, std::string name) {
  return insert(std::bit_cast<std::uint64_t>(data), bytes, true, std::move(name));
}

std::uint64_t DeviceMemory::add_readonly(const void* data, std::size_t bytes, std::string name) {
  return insert(std::bit_cast<std::uint64_t>(data), bytes, false, std::move(name));
}

std::uint64_t DeviceMemory::allocate(std::size_t bytes, std::string name) {
  std::size_t rounded = (std::max<std::size_t>(bytes, 1) + 255) / 256 * 256;
  void* data = std::aligned_alloc(256, rounded);
  DRIFTC_ASSERT(data != nullptr, "out of memory");
  std::memset(data, 0, rounded);
  TensorMemory::add(rounded);
  owned_.push_back({data, Free{rounded}});
  return insert(std::bit_cast<std::uint64_t>(data), bytes, true, std::move(name));
}

void DeviceMemory::remove(std::uint64_t address) {
  std::erase_if(buffers_, [&](const Buffer& b) { return b.begin == address; });
  std::erase_if(owned_,
                [&](const auto& p) { return std::bit_cast<std::uint64_t>(p.get()) == address; });
}

void DeviceMemory::track_writes(std::uint64_t address) {
  for (Buffer& b : buffers_)
    if (b.begin == address)
      b.written = std::shared_ptr<std::uint8_t[]>(
          new std::uint8_t[static_cast<std::size_t>(b.end - b.begin)]());
}

void DeviceMemory::clear() {
  buffers_.clear();
  owned_.clear();
}

const DeviceMemory::Buffer* DeviceMemory::find(std::uint64_t address, std::uint64_t bytes) const {
  auto at =
      std::upper_bound(buffers_.begin(), buffers_.end(), address,
                       [](std::uint64_t b, const Buffer& buffer) { return b < buffer.begin; });
  if (at == buffers_.begin()) return nullptr;
  --at;
  return address <= at->end && bytes <= at->end - address ? &*at : nullptr;
}

const DeviceMemory::Buffer* DeviceMemory::nearest(std::uint64_t address) const {
  const Buffer* best = nullptr;
  std::uint64_t best_distance = 0;
  for (const Buffer& b : buffers_) {
    std::uint64_t distance = address < b.begin ? b.begin - address : address - b.begin;
    if (address >= b.begin) distance = address < b.end ? 0 : address - b.end;
    if (!best || distance < best_distance) {
      best = &b;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace driftc::runtime::ptx
