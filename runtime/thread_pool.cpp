#include "runtime/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

namespace driftc::runtime {
namespace {
// Which pool, if any, the current thread is working for: a nested call must not wait for itself.
thread_local const ThreadPool* current_pool = nullptr;
thread_local int current_worker = 0;

// Loops follow each other closely, and waking a thread takes as long as a short loop: so it is
// first waited for without sleeping, for about 30 us. True when `ready` was.
template <class F>
bool spin(F ready) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(30);
  do {
    for (int i = 0; i < 64; ++i) {
      if (ready()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

// A worker's share of the indices, on a cache line of its own.
struct alignas(64) Share {
  std::atomic<std::size_t> next = 0;
  std::size_t end = 0;
};
}  // namespace

ThreadPool::ThreadPool(int threads) {
  if (threads < 1) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  threads = std::min(threads, 256);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { worker_main(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::drain(int worker) {
  const ThreadPool* outer = current_pool;
  current_pool = this;
  current_worker = worker;
  for (;;) {
    std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= count_) break;
    (*fn_)(index, worker);
  }
  current_pool = outer;
}

void ThreadPool::worker_main(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    spin([&] { return std::atomic_ref(generation_).load(std::memory_order_relaxed) != seen; });
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    drain(worker);
    {
      std::lock_guard lock(mutex_);
      if (std::atomic_ref(busy_).fetch_sub(1) == 1) finished_.notify_one();
    }
  }
}

void ThreadPool::parallel_for(std::size_t count, const std::function<void(std::size_t, int)>& fn) {
  if (count == 0) return;
  if (workers_.empty() || count == 1 || current_pool == this) {
    int worker = current_pool == this ? current_worker : 0;
    for (std::size_t index = 0; index < count; ++index) fn(index, worker);
    return;
  }
  // Every worker begins with its own share, one after the other, and then helps the others: what
  // neighbouring indices have in common, and what a worker did in the loop before, is still in its
  // cache. Two threads that took turns spent half again the time on lines of each other.
  const auto shares = static_cast<std::size_t>(threads());
  const std::unique_ptr<Share[]> share(new Share[shares]);
  for (std::size_t w = 0; w < shares; ++w) {
    share[w].next = count * w / shares;
    share[w].end = count * (w + 1) / shares;
  }
  const std::function<void(std::size_t, int)> work = [&](std::size_t, int worker) {
    for (std::size_t k = 0; k < shares; ++k) {
      Share& s = share[(static_cast<std::size_t>(worker) + k) % shares];
      for (;;) {
        const std::size_t index = s.next.fetch_add(1, std::memory_order_relaxed);
        if (index >= s.end) break;
        fn(index, worker);
      }
    }
  };
  {
    std::lock_guard lock(mutex_);
    fn_ = &work;
    count_ = shares;
    next_.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(workers_.size());
    std::atomic_ref(generation_).store(generation_ + 1, std::memory_order_relaxed);
  }
  start_.notify_all();
  drain(0);
  spin([&] { return std::atomic_ref(busy_).load(std::memory_order_relaxed) == 0; });
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return busy_ == 0; });
  fn_ = nullptr;
}

}  // namespace driftc::runtime
