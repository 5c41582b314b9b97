// SPDX-License-Identifier: MIT
// A buffer of 8, 16 or 32 MiB is taken, written and given back in a loop: at most 8 page faults after the first round.
#include "program.hpp"
#include "tarn/buffer_pool.hpp"

namespace {

constexpr int rounds = 20;

void write_all(tarn::buffer_pool& pool, std::size_t bytes, int value) {
  const tarn::buffer b = pool.get(bytes);
  memset(b.data(), value, b.size());
  asm volatile("" : : "r"(b.data()) : "memory");
}

void loop(tarn::buffer_pool& pool, std::size_t bytes) {
  write_all(pool, bytes, 1);
  const long before = pools_test::page_faults();
  for (int i = 0; i < rounds; ++i) write_all(pool, bytes, i);
  const long after = pools_test::page_faults();
  guarantee::measured("%zu MiB, %d rounds: %ld page faults after the first", bytes / guarantee::mib, rounds,
                      after - before);
  // The kernel may collapse or split huge pages in between, which costs a few faults; a buffer that lost its memory
  // would cost thousands.
  TARN_CHECK(after - before <= 8, "%ld page faults in %d rounds of %zu bytes", after - before, rounds, bytes);
}

}  // namespace

int main() {
  guarantee::start();
  if (!pools_test::measurable) guarantee::skip("page faults include the sanitizer's");
  if (tarn::buffer_pool().stats().limit < 64 * guarantee::mib) {
    guarantee::skip("the process may not use enough memory");
  }
  for (const std::size_t mib : {8, 16, 32}) {
    tarn::buffer_pool pool;
    loop(pool, mib * guarantee::mib);
  }
}
