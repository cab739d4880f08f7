#include "runtime/thread_pool.h"

#include <algorithm>

namespace driftc::runtime {
namespace {
// Which pool, if any, the current thread is working for: a nested call must not wait for itself.
thread_local const ThreadPool* current_pool = nullptr;
thread_local int current_worker = 0;
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
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
    }
    drain(worker);
    {
      std::lock_guard lock(mutex_);
      if (--busy_ == 0) finished_.notify_one();
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
  {
    std::lock_guard lock(mutex_);
    fn_ = &fn;
    count_ = count;
    next_.store(0, std::memory_order_relaxed);
    busy_ = static_cast<int>(workers_.size());
    ++generation_;
  }
  start_.notify_all();
  drain(0);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return busy_ == 0; });
  fn_ = nullptr;
}

}  // namespace driftc::runtime
