// Kernel arguments as the flat parameter buffer that PTX's .param space describes: each argument at
// its natural alignment, in order of declaration.
//   ArgumentPacker args;  args.add(x_address).add(w_address).add(std::int32_t{channels});
//   launch(program, config, args.bytes(), ...);
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace driftc::runtime::ptx {

class ArgumentPacker {
 public:
  template <class T>
  ArgumentPacker& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_same_v<T, bool>);
    return add_bytes(&value, sizeof value, alignof(T));
  }
  // A struct passed by value.
  ArgumentPacker& add_bytes(const void* data, std::size_t bytes, std::size_t alignment) {
    std::size_t offset = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(offset + bytes);
    std::memcpy(bytes_.data() + offset, data, bytes);
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace driftc::runtime::ptx
