// SPDX-License-Identifier: MIT
// memory: how much resident memory 16 threads with 100,000 objects of 64 bytes each take: while all are live, two
// seconds after all were returned (the threads still exist and are idle), and after the threads have ended.
// Models: a service after its peak.
// Known to favour: allocators that give memory back after a time without being called.
// Method: resident bytes, minus those before the first object, when the threads and all data of the benchmark itself
// exist. The objects are returned in random order.
// Output: one JSON object, in bytes: the objects themselves ("payload"), "live", "idle" and "ended".
#include <unistd.h>

#include "pools.hpp"
#include "resident.hpp"
#include "worker.hpp"

namespace {

constexpr unsigned threads = 16;
constexpr unsigned idle_microseconds = 2'000'000;

using contenders = bench::join<bench::contender_list<bench::bare_thread_array, bench::bare_thread_chain>,
                               bench::thread_safe_pools>;

struct figures {
  double own = 0;
  double live = 0;
  double idle = 0;
  double ended = 0;
};

template <class Contender>
figures measure(std::size_t objects, unsigned idle) {
  std::vector<bench::worker> workers = bench::make_workers(threads, objects);
  for (bench::worker& each : workers) each.touch();
  typename Contender::template of<bench::item> pool;
  bench::escape(&pool);
  figures found;
  pthread_barrier_t step;
  pthread_barrier_init(&step, nullptr, threads + 1);
  std::vector<std::thread> running;
  running.reserve(threads);
  for (unsigned index = 0; index < threads; ++index) {
    running.emplace_back([&, index] {
      pthread_barrier_wait(&step);  // all are there
      pthread_barrier_wait(&step);  // and counted
      workers[index].take_all(pool, index);
      workers[index].sign_all();
      pthread_barrier_wait(&step);  // all are live
      pthread_barrier_wait(&step);  // and counted
      workers[index].check_all();
      workers[index].give_all(pool);
      pthread_barrier_wait(&step);  // all are returned
      pthread_barrier_wait(&step);  // and counted
    });
  }
  const auto count_between = [&step](double& where, unsigned wait) {
    pthread_barrier_wait(&step);
    if (wait != 0) usleep(wait);
    where = bench::resident_bytes();
    pthread_barrier_wait(&step);
  };
  count_between(found.own, 0);
  count_between(found.live, 0);
  count_between(found.idle, idle);
  for (std::thread& each : running) each.join();
  pthread_barrier_destroy(&step);
  found.ended = bench::resident_bytes();
  return found;
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(
      contenders(), count, words, "", []<class Contender>(const bench::scene_arguments& arguments) {
        const std::size_t objects = arguments.scaled(bench::objects_per_thread, 1000);
        const figures found =
            measure<Contender>(objects, static_cast<unsigned>(arguments.scaled(idle_microseconds, 1)));
        std::printf("{\"payload\": %zu, \"live\": %.0f, \"idle\": %.0f, \"ended\": %.0f}\n",
                    threads * objects * sizeof(bench::item), found.live - found.own, found.idle - found.own,
                    found.ended - found.own);
      });
}
