// Global memory of the simulated device. A device address is the host address of the byte, so
// tensors are used in place; every access of a kernel is checked against the buffers registered
// here, and one outside all of them is an error report, never a segfault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace driftc::runtime::ptx {

class DeviceMemory {
 public:
  struct Buffer {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;  // one past the last byte
    bool writable = true;
    std::string name;  // for reports
    // One byte per byte of the buffer: 1 once a kernel has written it. Null: all count as written.
    std::shared_ptr<std::uint8_t[]> written;
  };

  // Borrowed memory: must outlive its registration. Returns the device address. Zero bytes are not
  // registered. Buffers must not overlap.
  std::uint64_t add(void* data, std::size_t bytes, std::string name);
  std::uint64_t add_readonly(const void* data, std::size_t bytes, std::string name);
  // Owned memory, zeroed, aligned to 256 bytes as cudaMalloc does.
  std::uint64_t allocate(std::size_t bytes, std::string name);
  // Forgets the buffer that begins at `address` (and frees it when owned).
  void remove(std::uint64_t address);
  // What the buffer that begins at `address` holds is not defined yet: checked launches note what
  // they write there and report reads of the rest.
  void track_writes(std::uint64_t address);
  void clear();

  // The buffer that holds [address, address + bytes), or null.
  const Buffer* find(std::uint64_t address, std::uint64_t bytes) const;
  // The buffer nearest to an address that `find` refused; for reports. Null when there is none.
  const Buffer* nearest(std::uint64_t address) const;
  const std::vector<Buffer>& buffers() const { return buffers_; }

 private:
  std::uint64_t insert(std::uint64_t begin, std::size_t bytes, bool writable, std::string name);

  struct Free {
    std::size_t bytes = 0;
    void operator()(void* p) const;
  };
  std::vector<Buffer> buffers_;  // sorted by begin
  std::vector<std::unique_ptr<void, Free>> owned_;
};

}  // namespace driftc::runtime::ptx
