// Memory for machine code: written while it is data, then made executable and no longer writable.
// Private to runtime/ptx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace driftc::runtime::ptx {

class ExecutableMemory {
 public:
  ExecutableMemory() = default;
  // Empty when the system gives no memory or forbids executing it; the caller then interprets.
  explicit ExecutableMemory(std::span<const std::uint8_t> code);
  ~ExecutableMemory();
  ExecutableMemory(ExecutableMemory&& other) noexcept;
  ExecutableMemory& operator=(ExecutableMemory&& other) noexcept;

  const void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace driftc::runtime::ptx
