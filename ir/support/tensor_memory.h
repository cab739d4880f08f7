// Bytes of the tensors that live in this process: host tensors, buffers and workspaces of the
// simulated device; and the most there were at once. For tests of how long values are kept.
// Thread-safe; costs one atomic addition per tensor.
#pragma once

#include <cstddef>

namespace driftc {

class TensorMemory {
 public:
  static void add(std::size_t bytes);
  static void remove(std::size_t bytes);

  static std::size_t live();
  static std::size_t peak();
  // The peak is what lives now, and counts on from there.
  static void restart_peak();
};

}  // namespace driftc
