// SPDX-License-Identifier: MIT
// Guarantee 21: a process started under RLIMIT_AS of 1,024, 256, 96, 72 or 64 MiB works with 64, 16, 12, 8 or 4 MiB live
// in 4 threads: every request succeeds and no block loses a byte.
// The program executes itself again under each limit, so that the limit also holds for the loader.
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t threads = 4;
constexpr size_t slots = 4096;

struct worker {
  uint64_t seed;
  size_t live_bytes;
  slot* blocks;
};

void* work(void* argument) {
  auto* self = static_cast<worker*>(argument);
  random_numbers random(self->seed);
  const unsigned largest = self->live_bytes >= 4 * mib ? 17 : 14;
  size_t live = 0;
  const size_t operations = long_run() ? 20'000'000 : 400'000;
  for (size_t i = 0; i < operations; ++i) {
    slot& one = self->blocks[random.below(slots)];
    const size_t size = size_between_bits(random, 4, largest);
    live -= one.size;
    one.clear("under the limit");
    // A block that would exceed the live bytes is not allocated; the slot stays empty.
    if (live + size > self->live_bytes) continue;
    TARN_CHECK(one.fill(size), "malloc(%zu) failed with %.1f MiB live in each thread", size, in_mib(live));
    live += size;
  }
  return nullptr;
}

int limited(size_t live_bytes) {
  static slot blocks[threads][slots];
  static worker workers[threads];
  for (size_t i = 0; i < threads; ++i) workers[i] = {i + 1, live_bytes / threads, blocks[i]};
  in_threads(work, workers);
  return holds;
}

void run_under(size_t limit, size_t live) {
  char what[100];
  snprintf(what, sizeof what, "%.0f MiB of address space, %.0f MiB live", in_mib(limit), in_mib(live));
  char argument[32];
  snprintf(argument, sizeof argument, "%zu", live);
  const child_result result = run_in_child(600, [&] {
    const rlimit bound{limit, limit};
    if (setrlimit(RLIMIT_AS, &bound) != 0) skip("setrlimit(RLIMIT_AS): %s", strerror(errno));
    execl("/proc/self/exe", "limited", argument, static_cast<char*>(nullptr));
    return broken;
  });
  expect_good(result, what);
}

}  // namespace

int main(int count, char** arguments) {
  start();
  if (count == 2) return limited(strtoul(arguments[1], nullptr, 10));
  need_address_space_limits();
  run_under(1024 * mib, 64 * mib);
  run_under(256 * mib, 16 * mib);
  run_under(96 * mib, 12 * mib);
  run_under(72 * mib,
            8 * mib);  // what the allocator reserves for itself at first fits in, and nothing beside it
  run_under(64 * mib, 4 * mib);
  measured("1024/256/96/72/64 MiB of address space carry 64/16/12/8/4 MiB live in %zu threads", threads);
}
