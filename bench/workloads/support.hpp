// SPDX-License-Identifier: MIT
// support.hpp: what every allocator workload shares: random numbers, the clock, barriers against the
//   optimizer, blocks that check their own content, arguments, threads that start together, and the one line
//   of output.
// Thread safety: functions without state may be called by any thread; an object belongs to one thread.
// Invariant: nothing here allocates inside a measured section (threads are created before the clock starts).
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace bench {

// The compiler may remove a malloc whose block nobody sees, together with its free and every write in
// between; after escape(p) it must assume that somebody reads *p.
inline void escape(const void* pointer) { asm volatile("" : : "g"(pointer) : "memory"); }

// Ends the process with a message: a workload that cannot finish its work must not print a time.
[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "workload failed: %s\n", what);
  std::exit(1);
}

// xorshift64* seeded through splitmix64: small, fast, the same on every machine.
class rng {
 public:
  explicit rng(std::uint64_t seed) {
    seed += 0x9e3779b97f4a7c15U;
    seed = (seed ^ (seed >> 30U)) * 0xbf58476d1ce4e5b9U;
    seed = (seed ^ (seed >> 27U)) * 0x94d049bb133111ebU;
    state_ = (seed ^ (seed >> 31U)) | 1U;
  }

  std::uint64_t next() {
    state_ ^= state_ >> 12U;
    state_ ^= state_ << 25U;
    state_ ^= state_ >> 27U;
    return state_ * 0x2545f4914f6cdd1dU;
  }

  // Uniform in [0, bound), without division; bound < 2^32.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(((next() >> 32U) * bound) >> 32U); }

  // Uniform in [low, high].
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t state_ = 0;
};

class stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Sizes as programs ask for them: each power of two up to the limit half as likely as the one below it,
// uniform inside its octave. Most are under 128 bytes, a few are long.
inline std::size_t program_size(rng& random, unsigned smallest_bit, unsigned largest_bit) {
  const std::uint64_t coin = random.next() | (std::uint64_t{1} << 63U);
  const unsigned steps = static_cast<unsigned>(__builtin_ctzll(coin));
  const unsigned bit = std::min(smallest_bit + steps, largest_bit);
  const std::size_t base = std::size_t{1} << bit;
  return base + random.below(base);
}

inline void* allocate(std::size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) fail("malloc returned null");
  escape(block);
  return block;
}

// One write per 4 KiB: makes the block resident without measuring memset.
inline void touch(void* block, std::size_t size) {
  auto* bytes = static_cast<unsigned char*>(block);
  for (std::size_t at = 0; at < size; at += 4096) bytes[at] = static_cast<unsigned char>(at >> 12U);
  escape(block);
}

// A block that knows its size and tag in its first 16 bytes and repeats the tag in its last byte. Whoever
// frees it checks them, so an allocator that hands out overlapping or overwritten blocks cannot post a time.
struct tagged_block {
  std::uint64_t size;
  std::uint64_t tag;

  static constexpr std::size_t smallest = 17;

  static tagged_block* make(std::size_t size, std::uint64_t tag) {
    size = std::max(size, smallest);
    auto* block = static_cast<tagged_block*>(allocate(size));
    block->size = size;
    block->tag = tag;
    reinterpret_cast<unsigned char*>(block)[size - 1] = static_cast<unsigned char>(tag);
    return block;
  }

  // Returns the tag, so that sums over all blocks show whether each was freed once.
  static std::uint64_t release(tagged_block* block) {
    const std::uint64_t tag = block->tag;
    if (reinterpret_cast<unsigned char*>(block)[block->size - 1] != static_cast<unsigned char>(tag)) {
      fail("a block was overwritten");
    }
    std::free(block);
    return tag;
  }
};

// One thread's account: the sums of the tags of all blocks it made and of all it released. Over all threads
// both are equal at the end, or a block was lost or freed twice.
struct ledger {
  std::uint64_t made = 0;
  std::uint64_t released = 0;

  tagged_block* make(std::size_t size, std::uint64_t tag) {
    made += tag;
    return tagged_block::make(size, tag);
  }

  void release(tagged_block* block) {
    if (block != nullptr) released += tagged_block::release(block);
  }
};

// Closes the accounts of all threads; returns the checksum, which is the sum of all tags.
inline std::uint64_t balance(const std::vector<ledger>& ledgers) {
  ledger all;
  for (const ledger& each : ledgers) {
    all.made += each.made;
    all.released += each.released;
  }
  if (all.made != all.released) fail("blocks were lost or freed twice");
  return all.made;
}

// Command line of every workload: THREADS [SCALE]. SCALE is the amount of work in per mille of the full
// amount (1000, the default, takes 0.3–1.0 s with a good allocator on two processors).
struct arguments {
  unsigned threads = 1;
  unsigned scale = 1000;

  [[nodiscard]] std::size_t scaled(std::size_t full, std::size_t least = 1) const {
    return std::max(full * scale / 1000, least);
  }
};

inline unsigned parse_number(const char* text, unsigned largest, const char* name, const char* program) {
  char* end = nullptr;
  const unsigned long value = std::strtoul(text, &end, 10);
  if (end == text || *end != '\0' || value == 0 || value > largest) {
    std::fprintf(stderr, "%s: %s must be a number from 1 to %u, not \"%s\"\nusage: %s THREADS [SCALE]\n",
                 program, name, largest, text, program);
    std::exit(2);
  }
  return static_cast<unsigned>(value);
}

inline arguments parse(int count, char** words) {
  arguments result;
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: %s THREADS [SCALE]   (SCALE in per mille of the full work, default 1000)\n",
                 words[0]);
    std::exit(2);
  }
  result.threads = parse_number(words[1], 4096, "THREADS", words[0]);
  if (count == 3) result.scale = parse_number(words[2], 100000, "SCALE", words[0]);
  return result;
}

// All that a workload prints: its own seconds, and a checksum that depends on the work alone, not on the
// schedule.
inline int report(double seconds, std::uint64_t checksum) {
  std::printf("%.6f %016" PRIx64 "\n", seconds, checksum);
  return 0;
}

// Runs body(index) on `count` threads that start together; returns the seconds from the first one's start to the last
// one's end. Each thread notes its own start: where all processors are busy with them, the caller would come to look
// at the clock long after.
template <class body_type>
double run_threads(unsigned count, body_type body) {
  using clock = std::chrono::steady_clock;
  pthread_barrier_t start;
  pthread_barrier_init(&start, nullptr, count);
  std::vector<clock::time_point> started(count);
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (unsigned index = 0; index < count; ++index) {
    threads.emplace_back([&start, &started, &body, index] {
      pthread_barrier_wait(&start);
      started[index] = clock::now();
      body(index);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const clock::time_point end = clock::now();
  pthread_barrier_destroy(&start);
  return std::chrono::duration<double>(end - *std::min_element(started.begin(), started.end())).count();
}

}  // namespace bench
