// SPDX-License-Identifier: MIT
// pairs: ticks per new and delete of a class of 1 byte and of one of 64, one thread: each object deleted at once
//   ("pair"), and 5,000 made, then all deleted in the same order ("batch").
// Idea: the usual benchmark of per-type pools.
// Known to favour: pools whose state is at an address known at compile time. It shows the cost of the fast path only,
// nothing of the other costs of memory.
// Invariant: a reading covers one block of work; the figure is the median over all quiet blocks.
// Output: one JSON object, ticks per pair.
#include "../micro/quiet_core.hpp"
#include "pools.hpp"

namespace {

constexpr std::size_t pairs_per_block = 2000;
constexpr std::size_t batch_length = 5000;
constexpr double most_seconds_per_figure = 0.6;
constexpr std::size_t fewest_readings = 5;
constexpr std::size_t wanted_readings = 1000;
constexpr std::size_t most_readings = 100'000;

using contenders = bench::join<
    bench::contender_list<bench::bare_chain, bench::bare_thread_array, bench::classic_memory_pool,
                          bench::classic_memory_pool_tls, bench::classic_object_pool, bench::new_delete>,
    bench::local_boost_pools, bench::shared_boost_pools, bench::local_foonathan_pools,
    bench::contender_list<bench::tarn_local_pool, bench::tarn_pool_of>>;

template <class pool_type, class T>
void pair_block(pool_type& pool, std::type_identity<T> /*type*/) {
  for (std::size_t pair = 0; pair < pairs_per_block; ++pair) {
    T* made = ::new (pool.take()) T;
    bench::obscure(made);
    pool.give(made);
  }
}

template <class pool_type, class T>
void batch_block(pool_type& pool, std::type_identity<T> /*type*/) {
  static T* objects[batch_length];
  for (T*& each : objects) {
    each = ::new (pool.take()) T;
    bench::obscure(each);
  }
  for (T* each : objects) {
    bench::obscure(each);
    pool.give(each);
  }
}

// Measures only as many blocks as the time allows, so that a very slow contender takes no longer than the others.
template <class work_type>
double median_ticks(const bench::scene_arguments& arguments, std::size_t pairs, work_type work) {
  work();
  auto readings = bench::quiet_readings<double>(
      wanted_readings, fewest_readings, most_readings, most_seconds_per_figure * arguments.scale / 1000,
      [] {},
      [&work] {
        const std::uint64_t start = bench::ticks();
        work();
        return static_cast<double>(bench::ticks() - start);
      });
  const auto middle = readings.begin() + static_cast<std::ptrdiff_t>(readings.size() / 2);
  std::nth_element(readings.begin(), middle, readings.end());
  return *middle / static_cast<double>(pairs);
}

template <class Contender, std::size_t Size>
void measure(const bench::scene_arguments& arguments) {
  using object = bench::object<Size>;
  constexpr std::type_identity<object> type;
  typename Contender::template of<object> pool;
  bench::escape(&pool);
  const double pair = median_ticks(arguments, pairs_per_block, [&] { pair_block(pool, type); });
  const double batch = median_ticks(arguments, batch_length, [&] { batch_block(pool, type); });
  std::printf("\"pair%zu\": %.3f, \"batch%zu\": %.3f, ", Size, pair, Size, batch);
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(contenders(), count, words, "",
                          []<class Contender>(const bench::scene_arguments& arguments) {
                            std::printf("{");
                            measure<Contender, 1>(arguments);
                            measure<Contender, 64>(arguments);
                            std::printf("\"ticks_per_ns\": %.4f}\n", bench::tick_rate());
                          });
}
