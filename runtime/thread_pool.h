// A fixed set of threads that share the indices of one loop at a time. The caller works too, so a
// pool of 1 starts no thread. Results must not depend on the number of threads: which worker gets
// which index is not defined, so `fn` writes only what belongs to `index`, and uses `worker` for
// scratch memory alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace driftc::runtime {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // < 1 means one per processor
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(index, worker) for index in [0, count), worker in [0, threads()). Returns when all are
  // done. One call at a time; a call from inside `fn` runs serially on the calling worker.
  void parallel_for(std::size_t count, const std::function<void(std::size_t, int)>& fn);

 private:
  void worker_main(int worker);
  void drain(int worker);

  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable start_, finished_;
  const std::function<void(std::size_t, int)>* fn_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_ = 0;
  std::uint64_t generation_ = 0;
  int busy_ = 0;
  bool stopping_ = false;
};

}  // namespace driftc::runtime
