// SPDX-License-Identifier: MIT
// thread_churn: threads that start, allocate a little, and end.
// Models: a program that starts a thread per request: each allocates 300 small blocks, frees most of them and leaves
// the others to the next thread, which frees them. Up to THREADS of these threads live at the same time.
// Idea: the thread test of Hoard ("threadtest", Berger et al., ASPLOS 2000), with short-lived threads.
// Known to favour: a cheap first allocation and a cheap thread exit; penalises a large set-up per thread.
#include "support.hpp"

namespace {

constexpr std::size_t blocks_per_thread = 300;
constexpr std::size_t left_behind = 20;

using legacy = std::vector<bench::tagged_block*>;

// Frees the blocks that the thread before has left in `inheritance` and leaves 20 of its own there.
std::uint64_t short_life(legacy& inheritance, std::uint64_t seed) {
  bench::rng random(seed);
  std::uint64_t released = 0;
  bench::tagged_block* blocks[blocks_per_thread];
  for (bench::tagged_block*& block : blocks) {
    block = bench::tagged_block::make(bench::program_size(random, 4, 10), random.next());
  }
  for (bench::tagged_block* block : inheritance) released += bench::tagged_block::release(block);
  inheritance.assign(blocks, blocks + left_behind);
  for (std::size_t index = left_behind; index < blocks_per_thread; ++index) {
    released += bench::tagged_block::release(blocks[index]);
  }
  return released;
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t lives = options.scaled(10'000) / options.threads + 1;
  std::vector<legacy> legacies(options.threads);
  for (legacy& each : legacies) each.reserve(left_behind);
  std::atomic<std::uint64_t> checksum{0};
  const double seconds = bench::run_threads(options.threads, [&](unsigned index) {
    std::uint64_t released = 0;
    for (std::size_t life = 0; life < lives; ++life) {
      std::thread([&] { released += short_life(legacies[index], life * options.threads + index); }).join();
    }
    checksum.fetch_add(released, std::memory_order_relaxed);
  });
  std::uint64_t released = checksum.load(std::memory_order_relaxed);
  for (const legacy& each : legacies) {
    for (bench::tagged_block* block : each) released += bench::tagged_block::release(block);
  }
  return bench::report(seconds, released);
}
