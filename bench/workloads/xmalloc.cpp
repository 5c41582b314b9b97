// SPDX-License-Identifier: MIT
// xmalloc: with several threads, most blocks are freed by another thread than the one that allocated them.
// Models: each thread allocates batches of blocks and puts them into a shared queue; when the queue is full, it takes
// the oldest batch, of whichever thread, and frees it.
// Idea: C. Lever and D. Boreham, "malloc() performance in a multithreaded Linux environment", USENIX 2000,
//   and the xmalloc test of the Hoard and mimalloc suites.
// Known to favour: hand-over in batches (snmalloc's messages); penalises a lock per class or arena.
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
  // Adds a batch. If the queue was full, returns the oldest batch, which the caller frees; else null. No thread waits.
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

void free_batch(batch* full, bench::ledger& account) {
  for (bench::tagged_block* block : full->blocks) account.release(block);
  std::free(full);
}

batch* make_batch(bench::rng& random, bench::ledger& account) {
  auto* fresh = static_cast<batch*>(bench::allocate(sizeof(batch)));
  for (bench::tagged_block*& block : fresh->blocks) {
    const std::uint64_t tag = random.next();
    block = account.make(sizes[random.below(std::size(sizes))], tag);
  }
  return fresh;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t batches = options.scaled(240'000) / options.threads + 1;
  batch_queue queue;
  std::vector<bench::ledger> accounts(options.threads);
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    bench::ledger account;
    for (std::size_t round = 0; round < batches; ++round) {
      batch* oldest = queue.exchange(make_batch(random, account));
      if (oldest != nullptr) free_batch(oldest, account);
    }
    accounts[index] = account;
  });
  while (batch* rest = queue.take()) free_batch(rest, accounts[0]);
  return bench::report(seconds, bench::balance(accounts));
}
