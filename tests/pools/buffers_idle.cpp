// SPDX-License-Identifier: MIT
// Four buffers of 32 MiB are taken, written and given back; after that, the program calls no function of the pool. At
// half of the idle time their memory is still resident; after the idle time it has been returned to the system.
#include <chrono>

#include "program.hpp"
#include "tarn/buffer_pool.hpp"

namespace {

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
  // A period of decay is half a second; the other second is for a busy machine.
  guarantee::sleep_ms(stated.count() / 2 + 1500);
  const std::size_t late = guarantee::growth(before, guarantee::rss_bytes());
  guarantee::measured("idle time %ld ms: %.1f MiB at first, %.1f at half of it, %.1f MiB 1.5 s after it",
                      static_cast<long>(stated.count()), guarantee::in_mib(warm), guarantee::in_mib(half),
                      guarantee::in_mib(late));
  TARN_CHECK(half >= 100 * guarantee::mib, "memory went early: %zu bytes at half of the idle time", half);
  TARN_CHECK(late <= 8 * guarantee::mib, "%zu bytes are resident after the idle time", late);
}

}  // namespace

int main() {
  guarantee::start();
  if (!pools_test::measurable) guarantee::skip("resident memory includes the sanitizer's");
  guarantee::need_own_memory_figures();
  if (tarn::buffer_pool().stats().limit < 128 * guarantee::mib) {
    guarantee::skip("the process may not use enough memory");
  }
  idle(std::chrono::milliseconds(1000));
  idle(std::chrono::milliseconds(3000));
}
