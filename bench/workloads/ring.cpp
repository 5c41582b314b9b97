// SPDX-License-Identifier: MIT
// ring: pipelines of one producer and one consumer; 64-byte objects flow one way.
// Models: a decoder or network thread that allocates every message and a worker that frees it. There are THREADS/2
// pipelines (with THREADS 1, one thread does both), each with a bounded ring of batches of 256 pointers.
// Idea: the producer/consumer test of many suites (Hoard's passive false sharing, mimalloc-bench's xmalloc), reduced to
// one size and a lock-free ring, so that the threads share only the ring and the allocator.
// Known to favour: allocators that hand freed blocks over in batches: the consumer's cache is only filled, the
// producer's only emptied.
#include <memory>

#include "support.hpp"

namespace {

constexpr std::size_t batch_length = 256;
constexpr std::size_t ring_length = 64;

struct message {
  std::uint64_t serial;
  std::uint64_t body[7];
};

struct batch {
  message* messages[batch_length];
};

// Single producer, single consumer: only the producer stores `written`, only the consumer stores `read`.
struct pipeline {
  batch ring[ring_length];
  alignas(64) std::atomic<std::size_t> written{0};
  alignas(64) std::atomic<std::size_t> read{0};
  std::uint64_t sum = 0;
};

void fill(batch& target, std::uint64_t first_serial) {
  for (std::size_t index = 0; index < batch_length; ++index) {
    auto* fresh = static_cast<message*>(bench::allocate(sizeof(message)));
    fresh->serial = first_serial + index;
    fresh->body[6] = index;
    target.messages[index] = fresh;
  }
}

std::uint64_t drain(const batch& source) {
  std::uint64_t sum = 0;
  for (message* each : source.messages) {
    sum += each->serial + each->body[6];
    std::free(each);
  }
  return sum;
}

void produce(pipeline& line, std::size_t batches) {
  for (std::size_t at = 0; at < batches; ++at) {
    // acquire: pairs with consume's release store of `read`; the slot is free again.
    while (at - line.read.load(std::memory_order_acquire) >= ring_length) std::this_thread::yield();
    fill(line.ring[at % ring_length], at * batch_length);
    // release: pairs with consume's acquire; the consumer sees the pointers and the messages.
    line.written.store(at + 1, std::memory_order_release);
  }
}

void consume(pipeline& line, std::size_t batches) {
  for (std::size_t at = 0; at < batches; ++at) {
    // acquire: pairs with produce's release store of `written`.
    while (line.written.load(std::memory_order_acquire) == at) std::this_thread::yield();
    line.sum += drain(line.ring[at % ring_length]);
    // release: pairs with produce's acquire; the slot may be written again.
    line.read.store(at + 1, std::memory_order_release);
  }
}

}  // namespace

int main(int count, char** words) {
  const bench::arguments options = bench::parse(count, words);
  const unsigned pipelines = std::max(1U, options.threads / 2);
  const std::size_t batches = options.scaled(60'000) / pipelines + 1;
  auto lines = std::make_unique<pipeline[]>(pipelines);
  double seconds = 0;
  if (options.threads == 1) {
    seconds = bench::run_threads(1, [&](unsigned) {
      for (std::size_t at = 0; at < batches; ++at) {
        fill(lines[0].ring[at % ring_length], at * batch_length);
        if (at + 1 >= ring_length) lines[0].sum += drain(lines[0].ring[(at + 1) % ring_length]);
      }
      const std::size_t waiting = std::min(batches, ring_length - 1);
      for (std::size_t at = batches - waiting; at < batches; ++at) {
        lines[0].sum += drain(lines[0].ring[at % ring_length]);
      }
    });
  } else {
    seconds = bench::run_threads(2 * pipelines, [&](unsigned index) {
      pipeline& line = lines[index / 2];
      index % 2 == 0 ? produce(line, batches) : consume(line, batches);
    });
  }
  std::uint64_t sum = 0;
  for (unsigned index = 0; index < pipelines; ++index) sum += lines[index].sum;
  return bench::report(seconds, sum);
}
