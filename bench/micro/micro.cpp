// SPDX-License-Identifier: MIT
// bench_micro: the cost of single calls, by Google Benchmark: pairs, batches, random sizes, calloc, realloc,
//   aligned blocks, hand-over to another thread, operator new and delete.
// Owner: the benchmark runner, which starts many short processes of it under each allocator in random order.
// Thread safety: each benchmark owns what it uses; hand_over starts one thread of its own.
// Invariant: every block is escaped before it is freed; otherwise the compiler would remove the pair.
#include <benchmark/benchmark.h>

#include <memory>
#include <new>

#include "../workloads/support.hpp"

namespace {

constexpr std::size_t batch_length = 1000;
constexpr std::size_t random_sizes = 4096;

void count_pairs(benchmark::State& state, std::size_t pairs_per_iteration) {
  state.SetItemsProcessed(static_cast<std::int64_t>(pairs_per_iteration) * state.iterations());
}

void pair(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  for ([[maybe_unused]] auto iteration : state) std::free(bench::allocate(size));
  count_pairs(state, 1);
}

void batch(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  void* blocks[batch_length];
  for ([[maybe_unused]] auto iteration : state) {
    for (void*& block : blocks) block = bench::allocate(size);
    for (void* block : blocks) std::free(block);
  }
  count_pairs(state, batch_length);
}

// Replaces a random one of 1,000 live blocks by one of a random size, 16 bytes to 8 KiB.
void random_size(benchmark::State& state) {
  bench::rng random(1);
  std::vector<std::size_t> sizes(random_sizes);
  std::vector<std::size_t> places(random_sizes);
  for (std::size_t& size : sizes) size = bench::program_size(random, 4, 12);
  for (std::size_t& place : places) place = random.below(batch_length);
  void* live[batch_length] = {};
  std::size_t step = 0;
  for ([[maybe_unused]] auto iteration : state) {
    void*& slot = live[places[step % random_sizes]];
    std::free(slot);
    slot = bench::allocate(sizes[(step * 7) % random_sizes]);
    ++step;
  }
  for (void* block : live) std::free(block);
  count_pairs(state, 1);
}

void zeroed(benchmark::State& state) {
  const auto size = static_cast<std::size_t>(state.range(0));
  for ([[maybe_unused]] auto iteration : state) {
    void* block = std::calloc(1, size);
    if (block == nullptr) bench::fail("calloc returned null");
    bench::escape(block);
    std::free(block);
  }
  count_pairs(state, 1);
}

// A buffer that grows by half its length from 16 bytes to 64 KiB, as growing arrays do.
void realloc_growth(benchmark::State& state) {
  std::size_t calls = 0;
  for ([[maybe_unused]] auto iteration : state) {
    void* block = nullptr;
    for (std::size_t size = 16; size <= 64U * 1024; size += size / 2) {
      void* larger = std::realloc(block, size);
      if (larger == nullptr) bench::fail("realloc returned null");
      block = larger;
      static_cast<unsigned char*>(block)[size - 1] = 1;
      bench::escape(block);
      ++calls;
    }
    std::free(block);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(calls));
}

void aligned(benchmark::State& state) {
  const auto alignment = static_cast<std::size_t>(state.range(0));
  for ([[maybe_unused]] auto iteration : state) {
    void* block = nullptr;
    if (posix_memalign(&block, alignment, 200) != 0) bench::fail("posix_memalign failed");
    bench::escape(block);
    std::free(block);
  }
  count_pairs(state, 1);
}

void new_delete(benchmark::State& state) {
  struct object {
    std::uint64_t fields[6];
  };
  for ([[maybe_unused]] auto iteration : state) {
    auto* made = new object;
    bench::escape(made);
    delete made;
  }
  count_pairs(state, 1);
}

// Frees batches of 64-byte blocks that another thread has allocated: two atomic stores per batch.
class freeing_thread {
 public:
  freeing_thread() : thread_([this] { work(); }) {}
  ~freeing_thread() {
    // release: partner of work's acquire. No batch is pending when the owner ends.
    state_.store(stopping, std::memory_order_release);
    thread_.join();
  }
  freeing_thread(const freeing_thread&) = delete;
  freeing_thread& operator=(const freeing_thread&) = delete;

  // Waits until the batch given before has been freed; then `blocks` may be filled again.
  void wait() const {
    // acquire: partner of work's release store of `idle`, which follows the frees.
    while (state_.load(std::memory_order_acquire) != idle) std::this_thread::yield();
  }

  // release: partner of work's acquire, which sees the pointers.
  void hand_over() { state_.store(full, std::memory_order_release); }

  void* blocks[batch_length] = {};

 private:
  enum state : int { idle, full, stopping };

  void work() {
    for (;;) {
      const int seen = state_.load(std::memory_order_acquire);
      if (seen == stopping) return;
      if (seen == idle) {
        std::this_thread::yield();
        continue;
      }
      for (void* block : blocks) std::free(block);
      state_.store(idle, std::memory_order_release);
    }
  }

  std::atomic<int> state_{idle};
  std::thread thread_;
};

void hand_over(benchmark::State& state) {
  freeing_thread other;
  for ([[maybe_unused]] auto iteration : state) {
    for (void*& block : other.blocks) block = bench::allocate(64);
    other.hand_over();
    other.wait();
  }
  count_pairs(state, batch_length);
}

BENCHMARK(pair)->Arg(16)->Arg(64)->Arg(1024)->Arg(32768);
BENCHMARK(batch)->Arg(64)->Arg(512);
BENCHMARK(random_size);
BENCHMARK(zeroed)->Arg(64)->Arg(4096);
BENCHMARK(realloc_growth);
BENCHMARK(aligned)->Arg(64)->Arg(4096);
BENCHMARK(new_delete);
BENCHMARK(hand_over)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
