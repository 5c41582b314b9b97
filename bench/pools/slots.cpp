// SPDX-License-Identifier: MIT
// slots: threads exchange objects through 16,384 shared places. Each operation makes an object of 64 bytes, exchanges
// it atomically with the content of a random place, and frees the object that was there. With T threads, (T-1)/T of all
// frees are of other threads' objects, one by one and in random order.
// Idea: the "MT random" exchange of malloc torture tests, for one type.
// Known to favour: pools that free into the freeing thread's own cache.
// Method: each thread runs for the same time and reads the clock once in 1,024 operations.
// Output: one JSON object: million operations per second of all threads together.
#include "pools.hpp"
#include "worker.hpp"

namespace {

constexpr std::size_t place_count = 16384;
constexpr std::size_t operations_per_look = 1024;
constexpr double full_seconds = 0.4;

using contenders = bench::join<bench::contender_list<bench::bare_thread_array, bench::bare_thread_chain>,
                               bench::thread_safe_pools>;

std::atomic<bench::item*> places[place_count];

template <class pool_type>
void exchange_many(pool_type& pool, bench::rng& random) {
  for (std::size_t step = 0; step < operations_per_look; ++step) {
    bench::item* fresh = ::new (static_cast<void*>(pool.take())) bench::item;
    const std::uint64_t value = random.next();
    std::memcpy(fresh->bytes, &value, sizeof value);
    std::memcpy(fresh->bytes + 8, &value, sizeof value);
    bench::obscure(fresh);
    // acquire/release, paired with the same exchange in other threads: the thread that takes an object out sees its
    // content.
    bench::item* const old = places[(value >> 32U) % place_count].exchange(fresh, std::memory_order_acq_rel);
    if (old == nullptr) continue;
    if (std::memcmp(old->bytes, old->bytes + 8, 8) != 0) bench::fail("an object was overwritten");
    pool.give(old);
  }
}

template <class Contender>
void run(const bench::scene_arguments& arguments) {
  const unsigned threads = bench::parse_number(arguments.rest[0], 256, "THREADS", "slots");
  const double limit = full_seconds * arguments.scale / 1000;
  typename Contender::template of<bench::item> pool;
  bench::escape(&pool);
  std::vector<std::size_t> done(threads);
  const double seconds = bench::run_threads(threads, [&](unsigned index) {
    bench::rng random(index);
    const bench::stopwatch clock;
    std::size_t operations = 0;
    do {
      exchange_many(pool, random);
      operations += operations_per_look;
    } while (clock.seconds() < limit);
    done[index] = operations;
  });
  std::size_t all = 0;
  for (const std::size_t each : done) all += each;
  for (auto& place : places) {
    if (bench::item* const left = place.load(std::memory_order_relaxed)) pool.give(left);
  }
  std::printf("{\"rate\": %.3f}\n", static_cast<double>(all) / 1e6 / seconds);
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(contenders(), count, words, "THREADS",
                          []<class Contender>(const auto& arguments) { run<Contender>(arguments); });
}
