// SPDX-License-Identifier: MIT
// object_pool: one thread creates jobs, another one finishes and destroys them. The pool has a limit: when the consumer
// falls behind, the producer gets a null pointer and waits, and memory does not grow without bound.
#include <tarn/pool.hpp>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <thread>

namespace {

struct job {
  int number = 0;
  char payload[1000] = {};
};

constexpr int jobs = 20'000;

class job_queue {
 public:
  void put(job* one) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(one);
    changed_.notify_all();
  }
  job* take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    job* const one = waiting_.front();
    waiting_.pop_front();
    return one;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<job*> waiting_;
};

}  // namespace

int main() {
  constexpr std::size_t limit = 4 << 20;
  tarn::object_pool<job> pool({.limit = limit, .name = "jobs"});
  job_queue queue;
  long long sum = 0;

  std::thread consumer([&] {
    for (int done = 0; done < jobs; ++done) {
      job* const one = queue.take();
      sum += one->number;
      pool.destroy(one);  // created in the other thread
    }
  });
  for (int number = 0; number < jobs; ++number) {
    job* one = pool.try_create();
    for (; one == nullptr; one = pool.try_create()) std::this_thread::yield();  // at the limit
    one->number = number;
    queue.put(one);
  }
  consumer.join();

  const tarn::pool_stats stats = pool.stats();
  std::printf("%d jobs, sum %lld\n", jobs, sum);
  std::printf("live %zu, memory %s\n", stats.live,
              stats.bytes <= limit ? "within the limit" : "ABOVE the limit");
}
