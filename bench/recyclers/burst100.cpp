// SPDX-License-Identifier: MIT
// burst100: one thread gets 100 objects of 64 bytes, writes to each, then gives all back in the same order.
// Idea: a request that needs many objects of one kind. Go's pool has a private place for one object; the others go
// through its chain.
// Known to favour: recyclers that keep free objects in arrays.
// Output: one JSON object, ns per object.
#include "variants.hpp"

namespace {

constexpr std::size_t burst_length = 100;
constexpr std::size_t bursts_per_call = 100;

using variants = bench::contender_list<bench::fresh, bench::recycled, bench::recycled_bare>;
using message_recycler = tarn::recycler<bench::message>;

// The objects in use. Static, so that the compiler cannot keep them in registers.
bench::message* out[burst_length];
message_recycler::handle handles[burst_length];

void burst(bench::fresh /*variant*/, message_recycler& /*pool*/) {
  for (std::size_t i = 0; i < burst_length; ++i) {
    out[i] = new bench::message;
    bench::obscure(out[i]);
    out[i]->words[0] = i;
  }
  for (bench::message*& each : out) {
    bench::obscure(each);
    delete each;
  }
}

void burst(bench::recycled /*variant*/, message_recycler& pool) {
  for (std::size_t i = 0; i < burst_length; ++i) {
    handles[i] = pool.get();
    bench::message* each = handles[i].get();
    bench::obscure(each);
    each->words[0] = i;
  }
  for (message_recycler::handle& each : handles) each.reset();
}

void burst(bench::recycled_bare /*variant*/, message_recycler& pool) {
  for (std::size_t i = 0; i < burst_length; ++i) {
    out[i] = pool.take();
    bench::obscure(out[i]);
    out[i]->words[0] = i;
  }
  for (bench::message*& each : out) {
    bench::obscure(each);
    pool.give_back(each);
  }
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(variants(), count, words, "",
                          []<class Variant>(const bench::scene_arguments& arguments) {
                            message_recycler pool;
                            bench::escape(&pool);
                            const bench::timing all = bench::time_calls(bench::limit_of(arguments), [&] {
                              for (std::size_t i = 0; i < bursts_per_call; ++i) burst(Variant(), pool);
                            });
                            const std::size_t objects = all.calls * bursts_per_call * burst_length;
                            std::printf("{\"ns\": %.3f}\n", bench::nanoseconds(all.seconds, objects));
                          });
}
