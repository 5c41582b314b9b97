// SPDX-License-Identifier: MIT
// ring: pipelines of one producer and one consumer; 64-byte objects flow one way.
// Models: a decoder or network thread that allocates every message and a worker that frees it. There are THREADS/2
// pipelines (with THREADS 1, one thread does both), each with a bounded ring of batches of 256 pointers.
// Idea: the producer/consumer test of many suites (Hoard's passive false sharing, mimalloc-bench's xmalloc), reduced to
// one size and a lock-free ring, so that the threads share only the ring and the allocator.
// Known to favour: allocators that hand freed blocks over in batches: the consumer's cache is only filled, the
// producer's only emptied.
#include <memory>

#include "pipeline.hpp"

namespace {

constexpr std::size_t batch_length = 256;
constexpr std::size_t ring_length = 64;

struct message {
  std::uint64_t serial;
  std::uint64_t body[7];
};

struct pipeline {
  bench::pipeline<message, batch_length, ring_length> ring;
  std::uint64_t sum = 0;

  void put(std::size_t at) {
    ring.put(at, [](auto& batch, std::uint64_t first_serial) {
      for (std::size_t index = 0; index < batch_length; ++index) {
        auto* fresh = static_cast<message*>(bench::allocate(sizeof(message)));
        fresh->serial = first_serial + index;
        fresh->body[6] = index;
        batch[index] = fresh;
      }
    });
  }
  void take(std::size_t at) {
    ring.take(at, [this](auto& batch, std::uint64_t /*number*/) {
      for (message* each : batch) {
        sum += each->serial + each->body[6];
        std::free(each);
      }
    });
  }
};

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const unsigned pipelines = std::max(1U, options.threads / 2);
  const std::size_t batches = options.scaled(60'000) / pipelines + 1;
  auto lines = std::make_unique<pipeline[]>(pipelines);
  double seconds = 0;
  if (options.threads == 1) {
    seconds = bench::run_threads(1, [&](unsigned) {
      for (std::size_t at = 0; at < batches + ring_length - 1; ++at) {
        if (at < batches) lines[0].put(at);
        if (at + 1 >= ring_length) lines[0].take(at + 1 - ring_length);
      }
    });
  } else {
    seconds = bench::run_threads(2 * pipelines, [&](unsigned index) {
      for (std::size_t at = 0; at < batches; ++at) {
        index % 2 == 0 ? lines[index / 2].put(at) : lines[index / 2].take(at);
      }
    });
  }
  std::uint64_t sum = 0;
  for (unsigned index = 0; index < pipelines; ++index) sum += lines[index].sum;
  return bench::report(seconds, sum);
}
