// SPDX-License-Identifier: MIT
// xmalloc: every block is freed by another thread than the one that allocated it.
// Models: each thread allocates batches and leaves them in a shared queue, then takes a batch that anybody
//   left and frees it; blocks flow one way between threads all the time.
// Idea: C. Lever and D. Boreham, "malloc() performance in a multithreaded Linux environment", USENIX 2000,
//   and the xmalloc test of the Hoard and mimalloc suites.
// Known to favour: hand-over in batches (snmalloc's messages); breaks allocators with a lock per class or
//   arena.
#include <mutex>

#include "support.hpp"

namespace {

constexpr std::size_t blocks_per_batch = 120;
constexpr std::size_t most_waiting = 256;
constexpr std::size_t sizes[] = {8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 400, 512, 1024};

struct batch {
  bench::tagged_block* blocks[blocks_per_batch];
};

// First in, first out, bounded. The ring itself is allocated once.
class batch_queue {
 public:
  // Takes the oldest batch when the queue is full, else none: then the caller frees instead of waiting.
  batch* exchange(batch* fresh) {
    const std::lock_guard<std::mutex> guard(mutex_);
    batch* oldest = nullptr;
    if (filled_ == most_waiting) {
      oldest = ring_[head_];
      head_ = (head_ + 1) % most_waiting;
      --filled_;
    }
    ring_[(head_ + filled_) % most_waiting] = fresh;
    ++filled_;
    return oldest;
  }

  batch* take() {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (filled_ == 0) return nullptr;
    batch* oldest = ring_[head_];
    head_ = (head_ + 1) % most_waiting;
    --filled_;
    return oldest;
  }

 private:
  std::mutex mutex_;
  batch* ring_[most_waiting] = {};
  std::size_t head_ = 0;
  std::size_t filled_ = 0;
};

std::uint64_t free_batch(batch* full) {
  std::uint64_t sum = 0;
  for (bench::tagged_block* block : full->blocks) sum += bench::tagged_block::release(block);
  std::free(full);
  return sum;
}

batch* make_batch(bench::rng& random, std::uint64_t& made) {
  auto* fresh = static_cast<batch*>(bench::allocate(sizeof(batch)));
  for (bench::tagged_block*& block : fresh->blocks) {
    const std::uint64_t tag = random.next();
    block = bench::tagged_block::make(sizes[random.below(std::size(sizes))], tag);
    made += tag;
  }
  return fresh;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t batches = options.scaled(240'000) / options.threads + 1;
  batch_queue queue;
  std::atomic<std::uint64_t> all_made{0};
  std::atomic<std::uint64_t> all_released{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    std::uint64_t made = 0;
    std::uint64_t released = 0;
    for (std::size_t round = 0; round < batches; ++round) {
      batch* oldest = queue.exchange(make_batch(random, made));
      if (oldest != nullptr) released += free_batch(oldest);
    }
    all_made.fetch_add(made, std::memory_order_relaxed);
    all_released.fetch_add(released, std::memory_order_relaxed);
  });
  std::uint64_t released = all_released.load(std::memory_order_relaxed);
  while (batch* rest = queue.take()) released += free_batch(rest);
  if (released != all_made.load(std::memory_order_relaxed)) bench::fail("blocks were lost or freed twice");
  return bench::report(seconds, released);
}
