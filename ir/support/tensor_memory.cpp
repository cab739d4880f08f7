#include "ir/support/tensor_memory.h"

#include <atomic>

namespace driftc {
namespace {
std::atomic<std::size_t> live_bytes = 0, peak_bytes = 0;
}

void TensorMemory::add(std::size_t bytes) {
  const std::size_t now = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::size_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}

void TensorMemory::remove(std::size_t bytes) {
  live_bytes.fetch_sub(bytes, std::memory_order_relaxed);
}

std::size_t TensorMemory::live() { return live_bytes; }
std::size_t TensorMemory::peak() { return peak_bytes; }
void TensorMemory::restart_peak() { peak_bytes = live_bytes.load(); }

}  // namespace driftc
