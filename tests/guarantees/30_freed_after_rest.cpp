// SPDX-License-Identifier: MIT
// Guarantee 30: what a thread has learnt about its use of small blocks does not keep their memory. A thread frees 8 MiB
// of blocks and allocates them anew, many times; rests until nothing is left to do in the background; frees all of them
// and makes no further call. Within 5 seconds at most three eighths of these bytes are resident above the start: a
// quarter, and an eighth for the magazines in which free blocks waited, whose memory stays.
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t live_bytes = 8 * mib;
constexpr size_t allowed = live_bytes / 8 * 3;
constexpr int rounds = 40;
constexpr long rest_ms = 3000;
constexpr long patience_ms = 5000;

int freed_after_rest(size_t size) {
  const size_t count = live_bytes / size;
  void** const blocks = own_array<void*>(count);
  random_numbers random(size);
  memset(blocks, 1, count * sizeof *blocks);
  const size_t before = resident();
  for (int round = 0; round <= rounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      blocks[i] = take(size);
      TARN_CHECK(blocks[i] != nullptr, "malloc(%zu) failed", size);
      memset(blocks[i], 1, size);
    }
    if (round == rounds) sleep_ms(rest_ms);
    for (size_t left = count; left > 0; --left) {
      const size_t chosen = random.below(left);
      give(blocks[chosen]);
      blocks[chosen] = blocks[left - 1];
    }
  }
  const double begin = wall_seconds();
  size_t kept = live_bytes;
  while (kept > allowed && (wall_seconds() - begin) * 1000 < patience_ms) {
    sleep_ms(50);
    kept = growth(before, resident());
  }
  TARN_CHECK(kept <= allowed, "blocks of %zu bytes: %.1f MiB of %.1f still resident after %.1f s", size,
             in_mib(kept), in_mib(live_bytes), wall_seconds() - begin);
  measured("blocks of %zu bytes: %.1f MiB resident after %.1f s", size, in_mib(kept), wall_seconds() - begin);
  return holds;
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  for (const size_t size : {size_t{32}, size_t{64}, size_t{256}})
    expect_good(run_in_child(60, [=] { return freed_after_rest(size); }), "blocks freed after a rest");
  return holds;
}
