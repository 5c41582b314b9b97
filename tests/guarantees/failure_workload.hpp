// SPDX-License-Identifier: MIT
// failure_workload: uses all parts of the allocator while system calls may fail. Checks that a refused request returns
// NULL with ENOMEM, that free does not change errno, that blocks keep their bytes, and that a refused realloc leaves
// the old block unchanged.
// Owner: the programs of guarantees 22, 23 and 36.
// Thread safety: a failure_workload belongs to one thread; run_with_threads starts its own threads.
#pragma once

#include "inject.hpp"

namespace guarantee {

// The number of requests refused so far, in all threads. A run without refusals tests little.
inline size_t refusal_count = 0;

// Whether a refused request is accepted (while failures are injected) or breaks the guarantee (afterwards).
enum class refusals { accepted, forbidden };

class failure_workload {
 public:
  failure_workload(uint64_t seed, refusals mode) : random_(seed), mode_(mode) {}

  void run(size_t rounds) {
    for (size_t round = 0; round < rounds; ++round) {
      small_blocks();
      large_blocks();
      zeroed();
      growth_by_realloc();
      aligned();
      if (tarn_trim != nullptr) tarn_trim(0);
    }
    for (slot& one : slots_) release(one);
  }

 private:
  static constexpr size_t slot_count = 160;

  void refused(const char* call, size_t size) const {
    TARN_CHECK(errno == ENOMEM, "%s of %zu bytes: NULL with errno %d, not ENOMEM", call, size, errno);
    __atomic_fetch_add(&refusal_count, 1, __ATOMIC_RELAXED);
    TARN_CHECK(mode_ == refusals::accepted, "%s of %zu bytes refused although no call fails any more", call,
               size);
  }

  static void release(slot& one) {
    errno = 4711;
    one.clear("free");
    TARN_CHECK(errno == 4711, "free changed errno to %d", errno);
  }

  void put(slot& one, void* block, size_t size, const char* call) {
    if (block == nullptr) return refused(call, size);
    one.at = static_cast<unsigned char*>(block);
    one.size = size;
    one.stamp(size);
  }

  void refill(unsigned low, unsigned high, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      slot& one = slots_[random_.below(slot_count)];
      release(one);
      const size_t size = size_between_bits(random_, low, high);
      errno = 0;
      put(one, take(size), size, "malloc");
    }
  }

  void small_blocks() { refill(3, 15, 300); }
  void large_blocks() { refill(15, 22, 12); }

  void zeroed() {
    for (size_t size : {size_t{40}, 5 * kib, 600 * kib, 3 * mib}) {
      slot& one = slots_[random_.below(slot_count)];
      release(one);
      errno = 0;
      void* const block = hide(calloc(size / 8, 8));
      if (block != nullptr) {
        TARN_CHECK(first_nonzero(block, size) == size, "calloc of %zu bytes is not zero", size);
      }
      put(one, block, size, "calloc");
    }
  }

  void growth_by_realloc() {
    slot& one = slots_[random_.below(slot_count)];
    for (size_t size = 24; size < 5 * mib; size = size * 3 + 8) {
      one.check("before realloc");
      errno = 0;
      void* const block = hide(realloc(one.at, size));
      if (block == nullptr) {
        refused("realloc", size);
        one.check("after a refused realloc");
        continue;
      }
      check_moved(one, block, size);
      put(one, block, size, "realloc");
    }
    shrink(one);
  }

  // realloc must have kept the bytes that fit both into the old block (`one`) and into the new one.
  static void check_moved(const slot& one, void* block, size_t size) {
    const slot moved{static_cast<unsigned char*>(block), one.size};
    if (one.size <= size) {
      moved.check("after realloc");
    } else {
      moved.check_start("after a shrinking realloc", size);
    }
  }

  void shrink(slot& one) {
    if (one.size < 64 * kib) return;
    const size_t size = 20 * kib;
    errno = 0;
    void* const block = hide(realloc(one.at, size));
    if (block == nullptr) return refused("shrinking realloc", size);
    check_moved(one, block, size);
    put(one, block, size, "realloc");
  }

  void aligned() {
    for (size_t alignment = 32; alignment <= 4 * mib; alignment *= 16) {
      slot& one = slots_[random_.below(slot_count)];
      release(one);
      const size_t size = alignment + 100;
      void* block = nullptr;
      errno = 0;
      const int error = posix_memalign(&block, alignment, size);
      TARN_CHECK(error == 0 || error == ENOMEM, "posix_memalign: error %d, not ENOMEM", error);
      if (error != 0) errno = error;
      TARN_CHECK(error != 0 || aligned_to(block, alignment), "posix_memalign(%zu) gave %p", alignment, block);
      put(one, error == 0 ? hide(block) : nullptr, size, "posix_memalign");
    }
  }

  random_numbers random_;
  refusals mode_;
  slot slots_[slot_count] = {};
};

// Runs the workload in the calling thread and in `threads` others, or fewer if the system refuses to start them.
inline void run_with_threads(refusals mode, size_t threads, size_t rounds) {
  struct start_data {
    refusals mode;
    size_t rounds;
    uint64_t seed;
  };
  constexpr size_t most = 8;
  pthread_t started[most];
  start_data data[most];
  size_t count = 0;
  for (size_t i = 0; i < threads && i < most; ++i) {
    data[count] = {mode, rounds, 100 + i};
    auto* const body = +[](void* pointer) -> void* {
      const auto* own = static_cast<start_data*>(pointer);
      failure_workload(own->seed, own->mode).run(own->rounds);
      return nullptr;
    };
    if (pthread_create(&started[count], nullptr, body, &data[count]) == 0) {
      ++count;
    } else {
      TARN_CHECK(mode == refusals::accepted, "no thread can be started although no call fails any more");
    }
  }
  failure_workload(7, mode).run(rounds);
  for (size_t i = 0; i < count; ++i) pthread_join(started[i], nullptr);
}

}  // namespace guarantee
