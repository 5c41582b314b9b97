// SPDX-License-Identifier: MIT
// Guarantee 30, second part: 100 MiB stay live while the sizes of new blocks drift slowly from 512 to 768 bytes and
// random older blocks are freed for them. The peak stays within 1.4 times the live bytes. The difficulty: spans of
// earlier sizes stay in use as long as one of their blocks is live.
#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t live_bytes = 100 * mib;
constexpr double bound = 1.4;
constexpr size_t most_blocks = 400'000;
constexpr size_t smallest = 512;
constexpr size_t largest = 768;

struct live_set {
  void** blocks;
  uint32_t* sizes;
  size_t count;
  size_t bytes;

  void add(size_t size) {
    TARN_CHECK(count < most_blocks, "the test's own table is full");
    void* const block = take(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) failed", size);
    memset(block, 1, size);
    blocks[count] = block;
    sizes[count++] = static_cast<uint32_t>(size);
    bytes += size;
  }
  void drop(size_t chosen) {
    give(blocks[chosen]);
    bytes -= sizes[chosen];
    blocks[chosen] = blocks[--count];
    sizes[chosen] = sizes[count];
  }
};

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  live_set live{own_array<void*>(most_blocks), own_array<uint32_t>(most_blocks), 0, 0};
  memset(static_cast<void*>(live.blocks), 0, most_blocks * sizeof(void*));
  memset(live.sizes, 0, most_blocks * sizeof(uint32_t));
  random_numbers random(30);
  peak_sampler sampler(20);
  for (size_t centre = smallest; centre < largest; centre += centre / 128) {
    // Each step allocates as many bytes as are live, in sizes from 0.75 to 1.25 of its centre.
    for (size_t replaced = 0; replaced < live_bytes;) {
      const size_t size = centre * 3 / 4 + random.below(centre / 2);
      while (live.bytes + size > live_bytes) live.drop(random.below(live.count));
      live.add(size);
      replaced += size;
    }
  }
  const double ratio = static_cast<double>(sampler.finish()) / static_cast<double>(live_bytes);
  TARN_CHECK(ratio <= bound, "peak of %.2f times the live bytes", ratio);
  measured("peak of %.2f times the live bytes", ratio);
}
