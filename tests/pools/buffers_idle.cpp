// SPDX-License-Identifier: MIT
// A buffer of 8, 16 and 32 MiB is taken, written and given back in a loop: no page fault after the first time. Then nobody
// takes one any more: after the stated time its memory is the system's again, although nobody calls.
#include "program.hpp"
#include "tarn/buffer_pool.hpp"

namespace {

constexpr int rounds = 20;

long faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void write_all(tarn::buffer_pool& pool, std::size_t bytes, int value) {
  const tarn::buffer b = pool.get(bytes);
  memset(b.data(), value, b.size());
  asm volatile("" : : "r"(b.data()) : "memory");
}

void loop(tarn::buffer_pool& pool, std::size_t bytes) {
  write_all(pool, bytes, 1);
  const long before = faults();
  for (int i = 0; i < rounds; ++i) write_all(pool, bytes, i);
  const long after = faults();
  guarantee::measured("%zu MiB, %d rounds: %ld page faults after the first", bytes / guarantee::mib, rounds,
                      after - before);
  // The kernel may take pages together or apart meanwhile; a buffer without its memory has thousands.
  TARN_CHECK(after - before <= 8, "%ld page faults in %d rounds of %zu bytes", after - before, rounds, bytes);
}

void idle(std::chrono::milliseconds stated) {
  const std::size_t before = guarantee::rss_bytes();
  tarn::buffer_pool pool({.name = "idle", .idle_time = stated});
  {
    tarn::buffer all[4];
    for (tarn::buffer& b : all) {
      b = pool.get(32 * guarantee::mib);
      memset(b.data(), 1, b.size());
    }
  }
  const std::size_t warm = guarantee::growth(before, guarantee::rss_bytes());
  guarantee::sleep_ms(stated.count() / 2);
  const std::size_t half = guarantee::growth(before, guarantee::rss_bytes());
  // A period of decay is half a second; a second for a busy machine.
  guarantee::sleep_ms(stated.count() / 2 + 1500);
  const std::size_t late = guarantee::growth(before, guarantee::rss_bytes());
  guarantee::measured("idle time %ld ms: %.1f MiB at first, %.1f at half of it, %.1f MiB 1.5 s after it",
                      static_cast<long>(stated.count()), guarantee::in_mib(warm), guarantee::in_mib(half),
                      guarantee::in_mib(late));
  TARN_CHECK(half >= 100 * guarantee::mib, "buffers went before their time: %zu bytes at half of it", half);
  TARN_CHECK(late <= 8 * guarantee::mib, "%zu bytes are resident after the idle time", late);
}

}  // namespace

int main() {
  guarantee::start();
  if (!pools_test::measurable) guarantee::skip("memory and faults are the sanitizer's");
  if (tarn::buffer_pool().stats().budget < 128 * guarantee::mib) {
    guarantee::skip("the process may not use enough memory");
  }
  for (const std::size_t mib : {8, 16, 32}) {
    tarn::buffer_pool pool;
    loop(pool, mib * guarantee::mib);
  }
  tarn::trim();
  idle(std::chrono::milliseconds(1000));
  idle(std::chrono::milliseconds(3000));
}
