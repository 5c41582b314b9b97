// SPDX-License-Identifier: MIT
// parallel: two threads at once get an object of 64 bytes from one recycler, write to it, and give it back.
// Idea: what threads that share a recycler cost each other: nothing, if each has a place of its own.
// Method: each thread works for the same time. As in Go's RunParallel, the figure is the wall time divided by the
// operations of both threads; on two idle processors it is half of that of get_release.
// Output: one JSON object, ns per get and give.
#include "get_and_release.hpp"

namespace {

constexpr unsigned threads = 2;

using variants = bench::contender_list<bench::fresh, bench::recycled>;

template <class Variant>
void run(const bench::scene_arguments& arguments) {
  tarn::recycler<bench::message> pool;
  bench::escape(&pool);
  const double limit = bench::limit_of(arguments);
  std::size_t looks[threads] = {};
  const double seconds = bench::run_threads(threads, [&](unsigned index) {
    std::size_t count = 0;
    for (const bench::stopwatch clock; clock.seconds() < limit; ++count)
      bench::get_and_release(Variant(), pool);
    looks[index] = count;
  });
  std::printf("{\"ns\": %.3f}\n",
              bench::nanoseconds(seconds, (looks[0] + looks[1]) * bench::operations_per_call));
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(variants(), count, words, "",
                          []<class Variant>(const auto& arguments) { run<Variant>(arguments); });
}
