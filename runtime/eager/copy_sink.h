// Sums of one row of columns, kept as they are. Internal to runtime/eager.
#pragma once

#include <algorithm>

#include "runtime/sums/sum_engine.h"

namespace driftc::runtime {

template <class T>
class CopySink final : public SumSink<T> {
 public:
  explicit CopySink(T* out) : out_(out) {}
  void store(std::int64_t, std::int64_t column, const SumBlock<T>& block) override {
    std::copy_n(block.sums, block.columns, out_ + column);
  }

 private:
  T* out_;
};

}  // namespace driftc::runtime
