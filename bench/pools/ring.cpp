// SPDX-License-Identifier: MIT
// ring: one producer makes objects of 64 bytes, one consumer deletes them; a bounded ring of batches of 256 pointers
// connects them.
// Models: a thread that receives messages and one that works on them.
// Known to favour: pools that move whole arrays of free slots between threads. Where freed objects do not return to the
// producer, memory piles up: see its peak.
// Method: 10 million objects, or as many as two seconds allow. The first word of each object is written and checked.
// Output: one JSON object: million objects per second, how many millions, and by how many bytes the process grew.
#include "../workloads/pipeline.hpp"
#include "pools.hpp"
#include "resident.hpp"
#include "worker.hpp"

namespace {

constexpr std::size_t batch_length = 256;
constexpr std::size_t ring_length = 64;
constexpr std::size_t full_batches = 10'000'000 / batch_length;
constexpr double limit_seconds = 2.0;

using contenders = bench::join<bench::contender_list<bench::no_allocation>, bench::thread_safe_pools>;

bench::pipeline<bench::item, batch_length, ring_length> line;

template <class pool_type>
void produce(pool_type& pool, std::size_t batches) {
  const bench::stopwatch clock;
  std::size_t at = 0;
  for (; at < batches && clock.seconds() < limit_seconds; ++at) {
    line.put(at, [&](auto& batch, std::uint64_t serial) {
      for (bench::item*& each : batch) {
        each = ::new (static_cast<void*>(pool.take())) bench::item;
        std::memcpy(each->bytes, &serial, sizeof serial);
        bench::obscure(each);
        ++serial;
      }
    });
  }
  line.end(at);
}

template <class pool_type>
void consume(pool_type& pool) {
  const auto empty = [&](auto& batch, std::uint64_t expected) {
    for (bench::item* each : batch) {
      if (std::memcmp(each->bytes, &expected, sizeof expected) != 0) bench::fail("an object was overwritten");
      pool.give(each);
      ++expected;
    }
  };
  for (std::size_t at = 0; line.take(at, empty); ++at) {
  }
}

template <class Contender>
void run(const bench::scene_arguments& arguments) {
  const std::size_t batches = arguments.scaled(full_batches, ring_length * 2);
  typename Contender::template of<bench::item> pool;
  bench::escape(&pool);
  const double before = bench::resident_bytes();
  const double seconds =
      bench::run_threads(2, [&](unsigned index) { index == 0 ? produce(pool, batches) : consume(pool); });
  const double millions = static_cast<double>(line.objects()) / 1e6;
  std::printf("{\"rate\": %.3f, \"millions\": %.3f, \"grown\": %.0f}\n", millions / seconds, millions,
              std::max(bench::peak_bytes() - before, 0.0));
}

}  // namespace

int main(int count, char** words) {
  return bench::run_scene(contenders(), count, words, "",
                          []<class Contender>(const auto& arguments) { run<Contender>(arguments); });
}
