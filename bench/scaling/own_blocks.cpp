// SPDX-License-Identifier: MIT
// own_blocks: each thread takes 100,000 blocks of 64 bytes and frees them in random order, again and again. No block changes
// threads, so no cache line has to; where one does, the allocator has passed it on (docs/design/0026).
// Output: the seconds of all rounds but the first third, a checksum, the number of pairs of new and delete in them, and how
// many blocks per thousand were last written by another thread.
#include "../workloads/support.hpp"

#include <memory>
#include <new>

namespace {

constexpr std::size_t blocks_per_thread = 100'000;

struct block {
  char head[32];
  std::uint64_t writer;  // thread and mark, at a place that the allocator does not write to
  char rest[24];
};
static_assert(sizeof(block) == 64);

constexpr std::uint64_t mark = 0x5ca1ab1e00000000;
constexpr std::uint64_t thread_bits = 0xffffffff;

struct alignas(128) counts {
  std::uint64_t seen = 0;  // blocks that one of the threads had written before
  std::uint64_t foreign = 0;
};

std::vector<std::uint32_t> shuffled(bench::rng& random) {
  std::vector<std::uint32_t> order(blocks_per_thread);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

// The memory still has what its last user wrote; the program must not read it as an object, so it reads bytes.
void take_round(std::vector<block*>& blocks, std::uint64_t writer, counts& found) {
  for (block*& place : blocks) {
    void* const memory = ::operator new(sizeof(block));
    bench::escape(memory);
    std::uint64_t last = 0;
    std::memcpy(&last, static_cast<const char*>(memory) + offsetof(block, writer), sizeof last);
    if ((last & ~thread_bits) == mark) {
      ++found.seen;
      found.foreign += last != writer ? 1U : 0U;
    }
    place = new (memory) block{};
    place->writer = writer;
    bench::escape(place);
  }
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t rounds = options.scaled(60, 3);
  const std::size_t warm = rounds / 3;
  std::vector<counts> found(options.threads);
  std::vector<std::uint64_t> sums(options.threads);
  pthread_barrier_t warmed;
  pthread_barrier_init(&warmed, nullptr, options.threads);
  std::chrono::steady_clock::time_point begin;
  bench::run_threads(options.threads, [&](unsigned index) {
    bench::rng random(index);
    const std::vector<std::uint32_t> order = shuffled(random);
    std::vector<block*> blocks(blocks_per_thread);
    const std::uint64_t writer = mark | index;
    for (std::size_t round = 0; round < rounds; ++round) {
      if (round == warm) {
        found[index] = {};
        pthread_barrier_wait(&warmed);
        if (index == 0) begin = std::chrono::steady_clock::now();
      }
      take_round(blocks, writer, found[index]);
      for (const std::uint32_t i : order) {
        sums[index] += blocks[i]->writer - writer;
        ::operator delete(blocks[i]);
      }
    }
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  pthread_barrier_destroy(&warmed);
  counts all;
  for (unsigned index = 0; index < options.threads; ++index) {
    all.seen += found[index].seen;
    all.foreign += found[index].foreign;
    if (sums[index] != 0) bench::fail("a block changed while it was in use");
  }
  const std::size_t pairs = (rounds - warm) * blocks_per_thread * options.threads;
  std::printf(
      "%.6f %016x %zu %.1f\n", seconds, 0U, pairs,
      all.seen != 0 ? 1000.0 * static_cast<double>(all.foreign) / static_cast<double>(all.seen) : 0.0);
  return 0;
}
