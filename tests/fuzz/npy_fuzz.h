// What a fuzzed .npy file must satisfy: an error with a place, or a tensor that writes and reads
// back.
#pragma once

#include <algorithm>
#include <string_view>

#include "frontend/npy/npy.h"
#include "ir/support/assert.h"

namespace driftc::fuzz {

inline void npy_file(std::string_view bytes) {
  const auto tensor = frontend::npy::parse_npy(bytes, "fuzz.npy");
  if (!tensor.ok()) {
    DRIFTC_ASSERT(tensor.error().place.file == "fuzz.npy", "an error without its file");
    DRIFTC_ASSERT(!tensor.error().message.empty(), "an empty message");
    return;
  }
  const auto back = frontend::npy::parse_npy(frontend::npy::npy_bytes(*tensor), "back.npy");
  DRIFTC_ASSERT(back.ok(), "what was written does not read");
  DRIFTC_ASSERT(back->dtype() == tensor->dtype() && back->shape() == tensor->shape() &&
                    std::ranges::equal(back->bytes(), tensor->bytes()),
                "what was written reads as something else");
}

}  // namespace driftc::fuzz
