// SPDX-License-Identifier: MIT
// ring: one producer makes objects of 64 bytes, one consumer deletes them; a bounded ring of batches of 256 pointers
// connects them.
// Models: a thread that receives messages and one that works on them.
// Known to favour: pools that move whole arrays of free slots between threads. Where freed objects do not return to the
// producer, memory piles up: see its peak.
// Method: 10 million objects, or as many as two seconds allow. The first word of each object is written and checked.
// Output: one JSON object: million objects per second, how many millions, and by how many bytes the process grew.
#include "pools.hpp"
#include "resident.hpp"
#include "worker.hpp"

namespace {

constexpr std::size_t batch_length = 256;
constexpr std::size_t ring_length = 64;
constexpr std::size_t full_batches = 10'000'000 / batch_length;
constexpr double limit_seconds = 2.0;

using contenders = bench::join<bench::contender_list<bench::no_allocation>, bench::thread_safe_pools>;

struct batch {
  bench::item* items[batch_length];
};

// Only the producer stores `written`, only the consumer stores `read`.
struct pipeline {
  batch ring[ring_length];
  alignas(64) std::atomic<std::size_t> written{0};
  alignas(64) std::atomic<std::size_t> read{0};
  alignas(64) std::atomic<std::size_t> last{SIZE_MAX};  // the number of batches, once the producer has ended
};

template <class pool_type>
void produce(pipeline& line, pool_type& pool, std::size_t batches) {
  const bench::stopwatch clock;
  std::size_t at = 0;
  for (; at < batches && clock.seconds() < limit_seconds; ++at) {
    // acquire: pairs with consume's release store of `read`; the place is free again.
    while (at - line.read.load(std::memory_order_acquire) >= ring_length) std::this_thread::yield();
    std::uint64_t serial = at * batch_length;
    for (bench::item*& each : line.ring[at % ring_length].items) {
      each = ::new (static_cast<void*>(pool.take())) bench::item;
      std::memcpy(each->bytes, &serial, sizeof serial);
      bench::obscure(each);
      ++serial;
    }
    // release: pairs with consume's acquire; the consumer sees the pointers and what they point to.
    line.written.store(at + 1, std::memory_order_release);
  }
  line.last.store(at, std::memory_order_relaxed);
}

template <class pool_type>
void consume(pipeline& line, pool_type& pool) {
  for (std::size_t at = 0;; ++at) {
    // acquire: pairs with produce's release store of `written`.
    while (line.written.load(std::memory_order_acquire) == at) {
      if (line.last.load(std::memory_order_relaxed) == at) return;
      std::this_thread::yield();
    }
    std::uint64_t expected = at * batch_length;
    for (bench::item* each : line.ring[at % ring_length].items) {
      if (std::memcmp(each->bytes, &expected, sizeof expected) != 0) bench::fail("an object was overwritten");
      pool.give(each);
      ++expected;
    }
    // release: pairs with produce's acquire; the place may be written again.
    line.read.store(at + 1, std::memory_order_release);
  }
}

template <class Contender>
void run(const bench::scene_arguments& arguments) {
  const std::size_t batches = arguments.scaled(full_batches, ring_length * 2);
  static pipeline line;
  typename Contender::template of<bench::item> pool;
  bench::escape(&pool);
  const double before = bench::resident_bytes();
  const double seconds = bench::run_threads(
      2, [&](unsigned index) { index == 0 ? produce(line, pool, batches) : consume(line, pool); });
  const double millions = static_cast<double>(line.last.load(std::memory_order_relaxed) * batch_length) / 1e6;
  std::printf("{\"rate\": %.3f, \"millions\": %.3f, \"grown\": %.0f}\n", millions / seconds, millions,
              std::max(bench::peak_bytes() - before, 0.0));
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(
      contenders(), count, words, "", 0,
      []<class Contender>(std::type_identity<Contender>, const bench::scene_arguments& arguments) {
        run<Contender>(arguments);
      });
}
