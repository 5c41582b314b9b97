// SPDX-License-Identifier: MIT
// frames: one thread decodes frames of 8 MiB, another one shows them. Each frame lies in a buffer of its own, which comes from
// a pool and goes back to it when the frame has been shown, in whichever thread that is. After the first few frames no
// memory is taken from the system any more, and none is touched for the first time.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include <tarn/buffer_pool.hpp>

namespace {

constexpr std::size_t frame_bytes = std::size_t{1920} * 1080 * 4;
constexpr int frames = 200;
constexpr std::size_t most_waiting = 3;

// What the two threads share. An empty buffer says that there are no more.
class frame_queue {
 public:
  void put(tarn::buffer frame) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.size() < most_waiting; });
    waiting_.push_back(std::move(frame));
    changed_.notify_all();
  }
  tarn::buffer take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !waiting_.empty(); });
    tarn::buffer frame = std::move(waiting_.front());
    waiting_.pop_front();
    changed_.notify_all();
    return frame;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<tarn::buffer> waiting_;
};

void decode(tarn::buffer_pool& pool, frame_queue& queue) {
  for (int number = 0; number < frames; ++number) {
    tarn::buffer frame = pool.get(frame_bytes);
    std::memset(frame.data(), number, frame.size());
    queue.put(std::move(frame));
  }
  queue.put({});
}

}  // namespace

int main() {
  tarn::buffer_pool pool({.name = "frames", .idle_time = std::chrono::seconds(2)});
  frame_queue queue;
  std::thread decoder(decode, std::ref(pool), std::ref(queue));
  std::uint64_t sum = 0;
  while (const tarn::buffer frame = queue.take())
    sum += std::to_integer<std::uint64_t>(frame.data()[frame.size() / 2]);
  decoder.join();

  const tarn::buffer_pool_stats stats = pool.stats();
  std::printf("%d frames shown, sum %llu\n", frames, static_cast<unsigned long long>(sum));
  std::printf("%llu buffers handed out, %s of them from what the pool had kept\n",
              static_cast<unsigned long long>(stats.gets),
              stats.hits + 10 >= stats.gets ? "all but a few" : "not many");
  std::printf("%zu live, %zu MiB kept\n", stats.live, stats.kept_bytes >> 20U);
}
