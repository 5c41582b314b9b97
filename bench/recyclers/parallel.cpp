// SPDX-License-Identifier: MIT
// parallel: two threads at once get an object of 64 bytes from one recycler, write to it, and give it back.
// Idea: what threads that share a recycler cost each other: nothing, if each has a place of its own.
// Method: each thread works for the same time. As in Go's RunParallel, the figure is the wall time divided by the
// operations of both threads; on two idle processors it is half of that of get_release.
// Output: one JSON object, ns per get and give.
#include "variants.hpp"

namespace {

constexpr unsigned threads = 2;
constexpr std::size_t operations_per_look = 10'000;

using variants = bench::contender_list<bench::fresh, bench::recycled>;

void work(bench::fresh /*variant*/, tarn::recycler<bench::message>& /*pool*/) {
  for (std::size_t i = 0; i < operations_per_look; ++i) {
    auto* each = new bench::message;
    bench::obscure(each);
    each->words[0] = i;
    bench::obscure(each);
    delete each;
  }
}

void work(bench::recycled /*variant*/, tarn::recycler<bench::message>& pool) {
  for (std::size_t i = 0; i < operations_per_look; ++i) {
    const auto handle = pool.get();
    bench::message* each = handle.get();
    bench::obscure(each);
    each->words[0] = i;
  }
}

template <class Variant>
void run(const bench::scene_arguments& arguments) {
  tarn::recycler<bench::message> pool;
  bench::escape(&pool);
  const double limit = bench::limit_of(arguments);
  std::size_t looks[threads] = {};
  const double seconds = bench::run_threads(threads, [&](unsigned index) {
    std::size_t count = 0;
    for (const bench::stopwatch clock; clock.seconds() < limit; ++count) work(Variant(), pool);
    looks[index] = count;
  });
  std::printf("{\"ns\": %.3f}\n", bench::nanoseconds(seconds, (looks[0] + looks[1]) * operations_per_look));
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(variants(), count, words, "",
                          []<class Variant>(const auto& arguments) { run<Variant>(arguments); });
}
