// SPDX-License-Identifier: MIT
// larson: a server in which the blocks of a request outlive the thread that allocated them.
// Models: each worker has an array of live blocks and replaces a random one per step. After a generation the worker
// ends and hands its array to a new thread, so most blocks are freed by a thread that did not allocate them.
// Idea: P. Larson and M. Krishnan, "Memory allocation for long-running server applications", ISMM 1998.
// Known to favour: allocators that free other threads' blocks without a lock and reuse the memory of ended threads.
#include "support.hpp"

namespace {

constexpr std::size_t slots_per_worker = 5000;
constexpr std::size_t smallest_size = 8;
constexpr std::size_t largest_size = 1000;
constexpr unsigned generations = 10;

// On cache lines of its own: a worker counts every block, and a line that two workers write took half of the program's
// time.
struct alignas(128) worker {
  std::vector<bench::tagged_block*> slots;
  bench::ledger account;
};

void serve(worker& self, std::uint64_t seed, std::size_t steps) {
  bench::rng random(seed);
  for (std::size_t step = 0; step < steps; ++step) {
    bench::tagged_block*& slot = self.slots[random.below(slots_per_worker)];
    const std::uint64_t tag = random.next();
    self.account.release(slot);
    slot = self.account.make(random.between(smallest_size, largest_size), tag);
  }
}

// Runs one chain of generations, each in a new thread, which starts after the one before has ended.
void serve_generations(worker& self, unsigned index, std::size_t steps) {
  for (unsigned generation = 0; generation < generations; ++generation) {
    std::thread(serve, std::ref(self), std::uint64_t{index} * generations + generation, steps).join();
  }
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const std::size_t steps = options.scaled(17'000'000) / options.threads / generations + 1;
  std::vector<worker> workers(options.threads);
  for (worker& each : workers) each.slots.assign(slots_per_worker, nullptr);
  // Workers exchange their arrays half way, so that blocks also pass between chains.
  double seconds = bench::run_threads(
      options.threads, [&](unsigned index) { serve_generations(workers[index], index, steps / 2 + 1); });
  for (unsigned index = 1; index < options.threads; ++index) workers[0].slots.swap(workers[index].slots);
  seconds += bench::run_threads(options.threads, [&](unsigned index) {
    serve_generations(workers[index], index + options.threads, steps / 2 + 1);
  });
  std::vector<bench::ledger> accounts;
  for (worker& each : workers) {
    for (bench::tagged_block* block : each.slots) each.account.release(block);
    accounts.push_back(each.account);
  }
  return bench::report(seconds, bench::balance(accounts));
}
