// SPDX-License-Identifier: MIT
// Guarantee 26: after mlockall(MCL_CURRENT | MCL_FUTURE), which makes the kernel back every later mapping at once, a
// process with 10 MiB live in 4 threads stays below 512 MiB resident, and large blocks that were freed go back, though the
// kernel drops no page.
#include <sys/mman.h>

#include "inject.hpp"
#include "kept_bytes.hpp"

namespace {

using namespace guarantee;

constexpr size_t bound = 512 * mib;
constexpr size_t threads = 4;
constexpr size_t live_per_thread = 10 * mib / threads;

struct worker {
  uint64_t seed;
};

void* work(void* argument) {
  random_numbers random(static_cast<worker*>(argument)->seed);
  static thread_local slot slots[2000];
  size_t live = 0;
  for (size_t i = 0; i < 200'000; ++i) {
    slot& one = slots[random.below(2000)];
    live -= one.size;
    one.clear("locked memory");
    const size_t size = size_between_bits(random, 4, 18);
    if (live + size > live_per_thread) continue;
    TARN_CHECK(one.fill(size), "malloc(%zu) failed after mlockall", size);
    live += size;
  }
  return nullptr;
}

}  // namespace

int main() {
  start();
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) skip("mlockall: %s (see ulimit -l)", strerror(errno));
  peak_sampler sampler(5);
  worker workers[threads];
  for (size_t i = 0; i < threads; ++i) workers[i].seed = 26 + i;
  in_threads(work, workers);
  sampler.finish();
  TARN_CHECK(sampler.peak() < bound, "%.0f MiB resident for 10 MiB live", in_mib(sampler.peak()));
  measured("peak of %.0f MiB resident for 10 MiB live", in_mib(sampler.peak()));

  if (library_is_hardened)
    return holds;  // its quarantine keeps large blocks; their pages cannot be dropped here
  constexpr size_t count = 40;
  constexpr size_t large = 6 * mib;
  const size_t before = rss_bytes();
  void* blocks[count];
  for (void*& block : blocks) {
    block = malloc(large);
    TARN_CHECK(block != nullptr, "malloc(%zu) failed after mlockall", large);
    memset(block, 1, large);
  }
  for (void* block : blocks) free(block);
  size_t left = 0;
  const double end = wall_seconds() + 5 * slowness();
  while ((left = growth(before, rss_bytes())) > count * large / 4 && wall_seconds() < end) sleep_ms(100);
  TARN_CHECK(left <= count * large / 4, "%.0f of %.0f MiB of large blocks stay", in_mib(left),
             in_mib(count * large));
  measured("%.0f of %.0f MiB of freed large blocks resident", in_mib(left), in_mib(count * large));
}
