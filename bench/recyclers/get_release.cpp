// SPDX-License-Identifier: MIT
// get_release: one thread gets an object of 64 bytes, writes to it, and gives it back at once.
// Idea: the minimum cost of a recycler; the benchmarks of Go and of Netty begin with it.
// Known to favour: recyclers that keep the last object in a place that the compiler can see. Real programs do not work
// so.
// Output: one JSON object, ns per get and give.
#include "variants.hpp"

namespace {

constexpr std::size_t per_call = 10'000;

using variants = bench::contender_list<bench::fresh, bench::recycled, bench::recycled_bare>;

void use(bench::message* each, std::size_t index) {
  bench::obscure(each);
  each->words[0] = index;
}

void get_and_release(bench::fresh /*variant*/, tarn::recycler<bench::message>& /*pool*/) {
  for (std::size_t i = 0; i < per_call; ++i) {
    auto* each = new bench::message;
    use(each, i);
    bench::obscure(each);
    delete each;
  }
}

void get_and_release(bench::recycled /*variant*/, tarn::recycler<bench::message>& pool) {
  for (std::size_t i = 0; i < per_call; ++i) {
    const auto each = pool.get();
    use(each.get(), i);
  }
}

void get_and_release(bench::recycled_bare /*variant*/, tarn::recycler<bench::message>& pool) {
  for (std::size_t i = 0; i < per_call; ++i) {
    bench::message* each = pool.take();
    use(each, i);
    pool.give_back(each);
  }
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(
      variants(), count, words, "", []<class Variant>(const bench::scene_arguments& arguments) {
        tarn::recycler<bench::message> pool;
        bench::escape(&pool);
        const bench::timing all =
            bench::time_calls(bench::limit_of(arguments), [&] { get_and_release(Variant(), pool); });
        std::printf("{\"ns\": %.3f}\n", bench::nanoseconds(all.seconds, all.calls * per_call));
      });
}
