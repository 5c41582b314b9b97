// SPDX-License-Identifier: MIT
// cross: one thread takes objects of 64 bytes, another gives them back; a bounded ring of batches connects them.
// Models: a thread that receives messages and one that works on them.
// Known to favour: recyclers that move arrays of objects between threads. Go's steals one object at a time from the
// other processor's chain; Netty's sends each object back to the thread that it came from.
// Method: the ring and its lengths are the same in Go and in Java (bench/peers/go/ring.go,
// bench/peers/netty/…/Ring.java): at most 1,024 objects are in transit, and a side that must wait yields. The consumer
// checks each object's number.
// The ring carries pointers, by take() and give_back(), not handles.
// Output: one JSON object, ns per object.
#include "variants.hpp"

namespace {

constexpr std::size_t batch_length = 32;
constexpr std::size_t ring_length = 32;
constexpr std::size_t batches_per_look = 64;

using variants = bench::contender_list<bench::fresh, bench::recycled>;
using message_recycler = tarn::recycler<bench::message>;

struct batch {
  bench::message* messages[batch_length];
};

// Only the producer stores `written`, only the consumer stores `read`.
struct pipeline {
  batch ring[ring_length];
  alignas(64) std::atomic<std::size_t> written{0};
  alignas(64) std::atomic<std::size_t> read{0};
  alignas(64) std::atomic<std::size_t> last{SIZE_MAX};  // the number of batches, once the producer has ended
};

bench::message* take(bench::fresh /*variant*/, message_recycler& /*pool*/) { return new bench::message; }
void give(bench::fresh /*variant*/, message_recycler& /*pool*/, bench::message* each) { delete each; }
bench::message* take(bench::recycled /*variant*/, message_recycler& pool) { return pool.take(); }
void give(bench::recycled /*variant*/, message_recycler& pool, bench::message* each) { pool.give_back(each); }

template <class Variant>
void produce(pipeline& line, message_recycler& pool, double limit) {
  const bench::stopwatch clock;
  std::size_t at = 0;
  for (; at % batches_per_look != 0 || clock.seconds() < limit; ++at) {
    // acquire: pairs with consume's release store of `read`; the place is free again.
    while (at - line.read.load(std::memory_order_acquire) >= ring_length) std::this_thread::yield();
    std::uint64_t serial = at * batch_length;
    for (bench::message*& each : line.ring[at % ring_length].messages) {
      each = take(Variant(), pool);
      bench::obscure(each);
      each->words[0] = serial++;
    }
    // release: pairs with consume's acquire; the consumer sees the pointers and what they point to.
    line.written.store(at + 1, std::memory_order_release);
  }
  line.last.store(at, std::memory_order_relaxed);
}

template <class Variant>
void consume(pipeline& line, message_recycler& pool) {
  for (std::size_t at = 0;; ++at) {
    // acquire: pairs with produce's release store of `written`.
    while (line.written.load(std::memory_order_acquire) == at) {
      if (line.last.load(std::memory_order_relaxed) == at) return;
      std::this_thread::yield();
    }
    std::uint64_t expected = at * batch_length;
    for (bench::message* each : line.ring[at % ring_length].messages) {
      if (each->words[0] != expected++) bench::fail("an object was overwritten");
      bench::obscure(each);
      give(Variant(), pool, each);
    }
    // release: pairs with produce's acquire; the place may be written again.
    line.read.store(at + 1, std::memory_order_release);
  }
}

template <class Variant>
void run(const bench::scene_arguments& arguments) {
  static pipeline line;
  message_recycler pool;
  bench::escape(&pool);
  const double limit = bench::limit_of(arguments);
  const double seconds = bench::run_threads(2, [&](unsigned index) {
    index == 0 ? produce<Variant>(line, pool, limit) : consume<Variant>(line, pool);
  });
  const std::size_t objects = line.last.load(std::memory_order_relaxed) * batch_length;
  std::printf("{\"ns\": %.3f, \"objects\": %zu}\n", bench::nanoseconds(seconds, objects), objects);
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(
      variants(), count, words, "", 0,
      []<class Variant>(std::type_identity<Variant>, const bench::scene_arguments& arguments) {
        run<Variant>(arguments);
      });
}
