// SPDX-License-Identifier: MIT
// inject: what the guarantees on resources and bounds (lines 20 to 31) share beyond check.hpp: exact readings
// of the resident set, threads on small stacks, and slots of blocks that notice lost data.
// Owner: each program includes it once. Thread safety: every function may be called by any thread.
// Invariant: nothing here but take, give and slot allocates, so no reading changes what it measures.
#pragma once

#include <errno.h>

#include "check.hpp"

// Present when libtarn is preloaded, null under any other allocator.
extern "C" size_t tarn_trim(size_t keep) __attribute__((weak));

namespace guarantee {

// ---- readings ----

// The number behind `key` ("VmSize:") in a /proc file of "key   number kB" lines, in bytes.
inline size_t proc_bytes(const char* path, const char* key) {
  char text[4096];
  if (read_start(path, text, sizeof text) == 0) return 0;
  const char* at = strstr(text, key);
  return at == nullptr ? 0 : strtoul(at + strlen(key), nullptr, 10) * kib;
}

inline size_t address_space() { return proc_bytes("/proc/self/status", "VmSize:"); }

// Exact, unlike statm, which lags by up to a batch of pages per CPU.
inline size_t resident() {
  const size_t exact = proc_bytes("/proc/self/smaps_rollup", "Rss:");
  return exact != 0 ? exact : rss_bytes();
}

// The peak of the resident set while a test runs, sampled by a thread that touches nothing else.
class peak_sampler {
 public:
  explicit peak_sampler(long interval_ms) : interval_ms_(interval_ms), before_(resident()), peak_(before_) {
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * kib);
    thread_ = start_thread(run, this, &small);
    pthread_attr_destroy(&small);
  }
  size_t before() const { return before_; }
  size_t peak() const { return __atomic_load_n(&peak_, __ATOMIC_RELAXED); }
  void reset() { __atomic_store_n(&peak_, resident(), __ATOMIC_RELAXED); }
  // Growth above the resident set at the start.
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

// Runs `body` in `count` threads at once, each with its own element of `arguments`. Stacks are small, so that
// they do not hide what the allocator takes.
template <typename argument, size_t count>
void in_threads(void* (*body)(void*), argument (&arguments)[count]) {
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 256 * kib);
  pthread_t threads[count];
  for (size_t i = 0; i < count; ++i) threads[i] = start_thread(body, &arguments[i], &small);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_attr_destroy(&small);
}

// ---- blocks ----

// Log-uniform over [2^low, 2^high): as many small as large, as in programs.
inline size_t size_between_bits(random_numbers& random, unsigned low, unsigned high) {
  const size_t base = size_t{1} << (low + random.below(high - low));
  return base + random.below(base);
}

inline void* take(size_t size) { return hide(malloc(size)); }
inline void give(void* block) { free(hide(block)); }

// One block and what it must hold: a byte in each page and the last byte.
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
    check_start(when);
    TARN_CHECK(at[size - 1] == mark(size, size - 1), "%s: block of %zu bytes lost its last byte", when, size);
  }
  // For a block that realloc moved and may have cut or grown: all but the mark of the last byte.
  void check_start(const char* when) const {
    for (size_t offset = 0; offset + 1 < size; offset += 4096) {
      TARN_CHECK(at[offset] == mark(size, offset), "%s: block of %zu bytes lost byte %zu", when, size,
                 offset);
    }
  }
  // False when malloc refuses; then errno is ENOMEM and the slot is empty.
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
