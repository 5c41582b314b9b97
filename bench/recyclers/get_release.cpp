// SPDX-License-Identifier: MIT
// get_release: one thread gets an object of 64 bytes, writes to it, and gives it back at once.
// Idea: the minimum cost of a recycler; the benchmarks of Go and of Netty begin with it.
// Known to favour: recyclers that keep the last object in a place that the compiler can see. Real programs do not work
// so.
// Output: one JSON object, ns per get and give.
#include "get_and_release.hpp"

namespace {

using variants = bench::contender_list<bench::fresh, bench::recycled, bench::recycled_bare>;

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(
      variants(), count, words, "", []<class Variant>(const bench::scene_arguments& arguments) {
        tarn::recycler<bench::message> pool;
        bench::escape(&pool);
        const bench::timing all =
            bench::time_calls(bench::limit_of(arguments), [&] { bench::get_and_release(Variant(), pool); });
        std::printf("{\"ns\": %.3f}\n",
                    bench::nanoseconds(all.seconds, all.calls * bench::operations_per_call));
      });
}
