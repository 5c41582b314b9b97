// SPDX-License-Identifier: MIT
// Guarantee 24: tarn uses fewer than 16,000 mappings for 20,000 blocks of mixed sizes and for 8,000 blocks of 256 KiB,
// with all of them live and with every second one freed. The kernel allows a process 65,530 by default. The hardened
// build is also tested without guard markers in page tables, where each guard after a block takes mappings.
#include "kernel_emulator.hpp"

namespace {

using namespace guarantee;

constexpr size_t bound = 16'000;

size_t most = 0;

void count_now(const char* when) {
  const size_t now = vma_count();
  if (now > most) most = now;
  TARN_CHECK(now < bound, "%zu mappings %s", now, when);
}

template <class size_source>
void hold(void** blocks, size_t count, const char* what, size_source size_of) {
  char when[100];
  for (size_t i = 0; i < count; ++i) {
    const size_t size = size_of();
    blocks[i] = take(size);
    TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) failed", size);
    static_cast<char*>(blocks[i])[0] = 1;
    static_cast<char*>(blocks[i])[size - 1] = 1;
  }
  snprintf(when, sizeof when, "with %zu %s live", count, what);
  count_now(when);
  for (size_t i = 0; i < count; i += 2) give(blocks[i]);
  snprintf(when, sizeof when, "after freeing every second of %zu %s", count, what);
  count_now(when);
  // Waits for decay: the memory that it returns may split mappings.
  sleep_ms(1500);
  if (tarn_trim != nullptr) tarn_trim(0);
  count_now("after trim");
}

int count_mappings() {
  random_numbers random(24);
  auto* const mixed = own_array<void*>(20'000);
  auto* const even = own_array<void*>(8'000);
  hold(mixed, 20'000, "mixed blocks", [&] { return size_between_bits(random, 4, 20); });
  hold(even, 8'000, "blocks of 256 KiB", [] { return 256 * kib; });
  for (size_t i = 1; i < 20'000; i += 2) give(mixed[i]);
  for (size_t i = 1; i < 8'000; i += 2) give(even[i]);
  count_now("after all was freed");
  measured("at most %zu mappings", most);
  return holds;
}

int count_mappings_without_markers() {
  kernel::emulate(kernel::no_guard_markers);
  return count_mappings();
}

}  // namespace

int main() {
  start();
  expect_good(run_in_child(100, count_mappings), "as the kernel is");
  const char* const preload = getenv("LD_PRELOAD");
  if (preload != nullptr && strstr(preload, "hardened") != nullptr)
    expect_good(run_in_child(100, count_mappings_without_markers), "without markers in page tables");
  return holds;
}
