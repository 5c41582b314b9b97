// SPDX-License-Identifier: MIT
// threads: T threads; each takes 100,000 objects of 64 bytes, writes every byte, and returns them in a shuffled order;
//   50 rounds.
// Idea: the usual benchmark that shows concurrent object pools to be faster than malloc.
// Known to favour: caches per thread of any length, because no object changes threads here. The random order
// distinguishes arrays of pointers from chains through the objects.
// Method: the time of all threads divided by the number of pairs of take and give. A contender that exceeds the time
// limit stops after its current round, and its figure is that of fewer rounds. A last round, outside the measured time,
// checks that no two threads have the same object.
// Output: one JSON object: ns per pair, and the share of the rounds that was run.
#include "pools.hpp"
#include "worker.hpp"

namespace {

constexpr std::size_t full_rounds = 50;
constexpr std::size_t fewest_rounds = 3;
constexpr double limit_seconds = 2.0;

using contenders = bench::join<
    bench::contender_list<bench::no_allocation, bench::bare_thread_array, bench::bare_thread_chain>,
    bench::thread_safe_pools>;

template <class pool_type>
void check_ownership(pool_type& pool, std::vector<bench::worker>& workers) {
  pthread_barrier_t signed_all;
  pthread_barrier_init(&signed_all, nullptr, static_cast<unsigned>(workers.size()));
  bench::run_threads(static_cast<unsigned>(workers.size()), [&](unsigned index) {
    workers[index].take_all(pool, 0);
    workers[index].sign_all();
    pthread_barrier_wait(&signed_all);
    workers[index].check_all();
    workers[index].give_all(pool);
  });
  pthread_barrier_destroy(&signed_all);
}

template <class Contender>
void run(const bench::scene_arguments& arguments) {
  const unsigned threads = bench::parse_number(arguments.rest[0], 256, "THREADS", "threads");
  const std::size_t rounds = arguments.scaled(full_rounds, fewest_rounds);
  std::vector<bench::worker> workers = bench::make_workers(threads, bench::objects_per_thread);
  std::vector<std::size_t> done(threads);
  typename Contender::template of<bench::item> pool;
  bench::escape(&pool);
  const bench::stopwatch clock;
  const double seconds = bench::run_threads(threads, [&](unsigned index) {
    std::size_t round = 0;
    while (round < rounds && (round < fewest_rounds || clock.seconds() < limit_seconds)) {
      workers[index].take_all(pool, static_cast<unsigned>(++round));
      workers[index].give_all(pool);
    }
    done[index] = round;
  });
  std::size_t all = 0;
  for (const std::size_t each : done) all += each;
  check_ownership(pool, workers);
  std::printf("{\"ns\": %.3f, \"share\": %.3f}\n",
              seconds * 1e9 / static_cast<double>(all * bench::objects_per_thread),
              static_cast<double>(all) / static_cast<double>(rounds * threads));
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(contenders(), count, words, "THREADS",
                          []<class Contender>(const auto& arguments) { run<Contender>(arguments); });
}
