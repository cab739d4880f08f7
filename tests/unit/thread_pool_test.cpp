#include "runtime/thread_pool.h"

#include <doctest/doctest.h>

#include <vector>

using driftc::runtime::ThreadPool;

TEST_CASE("thread pool: each index runs once, on any number of threads") {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    CHECK(pool.threads() == threads);
    for (std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{1000}}) {
      std::vector<int> seen(count, 0);
      pool.parallel_for(count, [&](std::size_t index, int worker) {
        if (worker >= 0 && worker < threads) ++seen[index];
      });
      for (int n : seen) CHECK(n == 1);
    }
  }
}

TEST_CASE("thread pool: a nested loop runs on its worker instead of waiting for itself") {
  ThreadPool pool(3);
  std::vector<int> seen(64, 0);
  pool.parallel_for(8, [&](std::size_t outer, int outer_worker) {
    pool.parallel_for(8, [&](std::size_t inner, int worker) {
      if (worker == outer_worker) ++seen[outer * 8 + inner];
    });
  });
  for (int n : seen) CHECK(n == 1);
}
