// SPDX-License-Identifier: MIT
// inject: what the guarantees on resources and memory bounds (20 to 31, 36 to 44) share beyond check.hpp: exact
// readings of the resident set, threads on small stacks, and slots that notice when a block loses data.
// Owner: each program includes this header once. Thread safety: every function may be called by any thread.
// Invariant: a reading allocates nothing, so it does not change what it measures.
#pragma once

#include <errno.h>
#include <sched.h>

#include "check.hpp"

// Present when libtarn is preloaded, null under any other allocator.
extern "C" size_t tarn_trim(size_t keep) noexcept __attribute__((weak));

namespace guarantee {

// ---- readings ----

// The number after `key` (such as "VmSize:") in a /proc file with lines of the form "key   number kB", in bytes.
inline size_t proc_bytes(const char* path, const char* key) {
  char text[4096];
  if (read_start(path, text, sizeof text) == 0) return 0;
  const char* at = strstr(text, key);
  return at == nullptr ? 0 : strtoul(at + strlen(key), nullptr, 10) * kib;
}

inline size_t address_space() { return proc_bytes("/proc/self/status", "VmSize:"); }

// The exact resident set; /proc/self/statm lags by up to a batch of pages per CPU.
inline size_t resident() {
  const size_t exact = proc_bytes("/proc/self/smaps_rollup", "Rss:");
  return exact != 0 ? exact : rss_bytes();
}

// Samples the resident set in a thread that does nothing else, and keeps the largest value.
class peak_sampler {
 public:
  explicit peak_sampler(long interval_ms) : interval_ms_(interval_ms), before_(resident()), peak_(before_) {
    thread_ = start_thread(run, this, 64 * kib);
  }
  size_t before() const { return before_; }
  size_t peak() const { return __atomic_load_n(&peak_, __ATOMIC_RELAXED); }
  void reset() { __atomic_store_n(&peak_, resident(), __ATOMIC_RELAXED); }
  // Ends the thread. Returns by how much the peak exceeds the resident set at the start.
  size_t finish() {
    __atomic_store_n(&stop_, true, __ATOMIC_RELAXED);
    pthread_join(thread_, nullptr);
    return growth(before_, peak_);
  }

 private:
  static void* run(void* self_pointer) {
    auto* self = static_cast<peak_sampler*>(self_pointer);
    while (!__atomic_load_n(&self->stop_, __ATOMIC_RELAXED)) {
      const size_t now = resident();
      if (now > self->peak()) __atomic_store_n(&self->peak_, now, __ATOMIC_RELAXED);
      sleep_ms(self->interval_ms_);
    }
    return nullptr;
  }
  long interval_ms_;
  size_t before_;
  size_t peak_;
  bool stop_ = false;
  pthread_t thread_{};
};

// ---- threads ----

// The calling thread runs on `processor` only; without that processor, as before. False: there is no such processor.
inline bool pin_to(int processor) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

// Runs `body` in `count` threads at once, each with its own element of `arguments`. Stacks are small, so that their
// memory does not hide what the allocator takes.
template <class argument, size_t count>
void in_threads(void* (*body)(void*), argument (&arguments)[count]) {
  pthread_t threads[count];
  for (size_t i = 0; i < count; ++i) threads[i] = start_thread(body, &arguments[i], 256 * kib);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
}

// ---- blocks ----

// Log-uniform over [2^low, 2^high): each power of two is equally likely, as sizes are in programs.
inline size_t size_between_bits(random_numbers& random, unsigned low, unsigned high) {
  const size_t base = size_t{1} << (low + random.below(high - low));
  return base + random.below(base);
}

inline void* take(size_t size) { return hide(malloc(size)); }
inline void give(void* block) { free(hide(block)); }

// A block and its marks: one byte at the start of each 4 KiB and the last byte. Each mark depends on the block's size
// and on its place.
struct slot {
  unsigned char* at;
  size_t size;

  static unsigned char mark(size_t of_size, size_t offset) {
    return static_cast<unsigned char>((of_size * 31 + 0x5a) ^ (offset >> 12) * 7);
  }
  void stamp(size_t of_size) const {
    for (size_t offset = 0; offset < size; offset += 4096) at[offset] = mark(of_size, offset);
    if (size > 0) at[size - 1] = mark(of_size, size - 1);
  }
  void check(const char* when) const {
    if (at == nullptr || size == 0) return;
    check_start(when, size);
    TARN_CHECK(at[size - 1] == mark(size, size - 1), "%s: block of %zu bytes lost its last byte", when, size);
  }
  // Checks the marks in the first `bytes` bytes, except the one of the block's last byte.
  void check_start(const char* when, size_t bytes) const {
    for (size_t offset = 0; offset < bytes && offset + 1 < size; offset += 4096) {
      TARN_CHECK(at[offset] == mark(size, offset), "%s: block of %zu bytes lost byte %zu", when, size,
                 offset);
    }
  }
  // Returns false if malloc refuses; the slot is then empty. Fails the test if malloc refuses without ENOMEM.
  bool fill(size_t new_size) {
    errno = 0;
    at = static_cast<unsigned char*>(take(new_size));
    size = at == nullptr ? 0 : new_size;
    TARN_CHECK(at != nullptr || errno == ENOMEM, "malloc(%zu): NULL with errno %d, not ENOMEM", new_size,
               errno);
    stamp(size);
    return at != nullptr;
  }
  void clear(const char* when) {
    check(when);
    give(at);
    at = nullptr;
    size = 0;
  }
};

}  // namespace guarantee
