// Scratch memory and loops of the interpreter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>

#include "runtime/thread_pool.h"

namespace driftc::runtime {

// An uninitialised array, aligned for vectors.
template <class T>
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t count)
      : data_(static_cast<T*>(::operator new((count == 0 ? 1 : count) * sizeof(T), kAlignment))),
        size_(count) {}
  T* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* p) const { ::operator delete(p, kAlignment); }
  };
  std::unique_ptr<T[], Free> data_;
  std::size_t size_ = 0;
};

// fn(index, worker) for every index. Work that is too small to be worth waking threads runs on the
// caller; `operations` estimates it in floating-point operations or moved elements.
inline void for_each(ThreadPool& pool, std::int64_t count, std::int64_t operations,
                     const std::function<void(std::size_t, int)>& fn) {
  constexpr std::int64_t kWorthWaking = 100'000;
  if (count <= 0) return;
  if (count == 1 || operations < kWorthWaking || pool.threads() == 1) {
    for (std::int64_t i = 0; i < count; ++i) fn(static_cast<std::size_t>(i), 0);
    return;
  }
  pool.parallel_for(static_cast<std::size_t>(count), fn);
}

// fn(begin, end) over pieces of [0, count), for loops of cheap independent elements.
inline void for_ranges(ThreadPool& pool, std::int64_t count,
                       const std::function<void(std::int64_t, std::int64_t)>& fn) {
  constexpr std::int64_t kPiece = 32'768;
  const std::int64_t pieces = (count + kPiece - 1) / kPiece;
  for_each(pool, pieces, count, [&](std::size_t i, int) {
    const std::int64_t begin = static_cast<std::int64_t>(i) * kPiece;
    fn(begin, count < begin + kPiece ? count : begin + kPiece);
  });
}

}  // namespace driftc::runtime
