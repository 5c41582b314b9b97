// SPDX-License-Identifier: MIT
// cross: one thread takes objects of 64 bytes, another gives them back; a bounded ring of batches connects them.
// Models: a thread that receives messages and one that works on them.
// Known to favour: recyclers that move arrays of objects between threads.
// Method: at most 1,024 objects are in transit, and a side that must wait yields. The consumer checks each object's
// number.
// The ring carries pointers, by take() and give_back(), not handles.
// Output: one JSON object, ns per object.
#include "../workloads/pipeline.hpp"
#include "variants.hpp"

namespace {

constexpr std::size_t batch_length = 32;
constexpr std::size_t ring_length = 32;
constexpr std::size_t batches_per_look = 64;

using variants = bench::contender_list<bench::fresh, bench::recycled>;
using message_recycler = tarn::recycler<bench::message>;

bench::pipeline<bench::message, batch_length, ring_length> line;

bench::message* take(bench::fresh /*variant*/, message_recycler& /*pool*/) { return new bench::message; }
void give(bench::fresh /*variant*/, message_recycler& /*pool*/, bench::message* each) { delete each; }
bench::message* take(bench::recycled /*variant*/, message_recycler& pool) { return pool.take(); }
void give(bench::recycled /*variant*/, message_recycler& pool, bench::message* each) { pool.give_back(each); }

template <class Variant>
void produce(message_recycler& pool, double limit) {
  const bench::stopwatch clock;
  std::size_t at = 0;
  for (; at % batches_per_look != 0 || clock.seconds() < limit; ++at) {
    line.put(at, [&](auto& batch, std::uint64_t serial) {
      for (bench::message*& each : batch) {
        each = take(Variant(), pool);
        bench::obscure(each);
        each->words[0] = serial++;
      }
    });
  }
  line.end(at);
}

template <class Variant>
void consume(message_recycler& pool) {
  const auto empty = [&](auto& batch, std::uint64_t expected) {
    for (bench::message* each : batch) {
      if (each->words[0] != expected++) bench::fail("an object was overwritten");
      bench::obscure(each);
      give(Variant(), pool, each);
    }
  };
  for (std::size_t at = 0; line.take(at, empty); ++at) {
  }
}

template <class Variant>
void run(const bench::scene_arguments& arguments) {
  message_recycler pool;
  bench::escape(&pool);
  const double limit = bench::limit_of(arguments);
  const double seconds = bench::run_threads(
      2, [&](unsigned index) { index == 0 ? produce<Variant>(pool, limit) : consume<Variant>(pool); });
  std::printf("{\"ns\": %.3f, \"objects\": %zu}\n", bench::nanoseconds(seconds, line.objects()),
              line.objects());
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(variants(), count, words, "",
                          []<class Variant>(const auto& arguments) { run<Variant>(arguments); });
}
