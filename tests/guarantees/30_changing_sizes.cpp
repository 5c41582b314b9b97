// SPDX-License-Identifier: MIT
// Guarantee 30, third part: 64 MiB stay live while the sizes of new blocks rise from 256 bytes to 4 KiB and fall again,
// and random older blocks are freed for them. The resident set stays within 1.65 times the live bytes, and within 1.5
// times on average. The difficulty: blocks of earlier sizes lie scattered over most of the memory. Every block keeps
// its content.
#include <malloc.h>

#include "inject.hpp"

namespace {

using namespace guarantee;

constexpr size_t live_bytes = 64 * mib;
constexpr size_t most_blocks = 512 * 1024;
constexpr size_t smallest = 256;
constexpr int doublings = 4;
// How often the live bytes are replaced while sizes rise, and again while they fall.
constexpr int turnovers = 20;
constexpr double bound = 1.65;
constexpr double bound_on_average = 1.5;

struct live_set {
  void** blocks;
  uint32_t* sizes;
  size_t count;
  size_t bytes;

  // The value of all bytes of a block. drop() checks the first, the middle and the last one.
  static unsigned char sign(const void* block, size_t size) {
    return static_cast<unsigned char>((reinterpret_cast<uintptr_t>(block) >> 4) * 31 + size);
  }
  void add(size_t size) {
    TARN_CHECK(count < most_blocks, "the test's own table is full");
    void* const block = take(size);
    TARN_CHECK(block != nullptr, "malloc(%zu) failed", size);
    TARN_CHECK(malloc_usable_size(block) >= size, "%zu usable bytes of %zu", malloc_usable_size(block), size);
    memset(block, sign(block, size), size);
    blocks[count] = block;
    sizes[count++] = static_cast<uint32_t>(size);
    bytes += size;
  }
  void drop(size_t chosen) {
    auto* const block = static_cast<unsigned char*>(blocks[chosen]);
    const size_t size = sizes[chosen];
    const unsigned char expected = sign(block, size);
    TARN_CHECK(block[0] == expected && block[size / 2] == expected && block[size - 1] == expected,
               "a block of %zu bytes was overwritten", size);
    give(block);
    bytes -= size;
    blocks[chosen] = blocks[--count];
    sizes[chosen] = sizes[count];
  }
};

// 256 bytes * 2^(part * doublings), interpolated linearly between powers of two.
size_t centre_at(double part) {
  const double doubling = part * doublings;
  const auto whole = static_cast<unsigned>(doubling);
  const double size = static_cast<double>(smallest << whole) * (1 + (doubling - whole));
  return static_cast<size_t>(size);
}

}  // namespace

int main() {
  start();
  need_own_memory_figures();
  live_set live{own_array<void*>(most_blocks), own_array<uint32_t>(most_blocks), 0, 0};
  memset(static_cast<void*>(live.blocks), 0, most_blocks * sizeof(void*));
  memset(live.sizes, 0, most_blocks * sizeof(uint32_t));
  random_numbers random(30);
  const size_t before = resident();
  constexpr size_t steps = 2 * turnovers * 8;
  size_t most = 0;
  size_t sum = 0;
  for (size_t step = 0; step < steps; ++step) {
    const double part = static_cast<double>(step) / (steps / 2);
    const size_t centre = centre_at(part < 1 ? part : 2 - part);
    for (size_t replaced = 0; replaced < live_bytes / 8;) {
      const size_t size = centre * 3 / 4 + random.below(centre / 2);
      while (live.bytes + size > live_bytes) live.drop(random.below(live.count));
      live.add(size);
      replaced += size;
    }
    const size_t now = growth(before, resident());
    most = now > most ? now : most;
    sum += now;
  }
  while (live.count != 0) live.drop(live.count - 1);
  const double ratio = static_cast<double>(most) / static_cast<double>(live_bytes);
  const double average = static_cast<double>(sum) / steps / static_cast<double>(live_bytes);
  TARN_CHECK(ratio <= bound, "peak of %.2f times the live bytes", ratio);
  TARN_CHECK(average <= bound_on_average, "%.2f times the live bytes on average", average);
  measured("%.2f times the live bytes on average, peak of %.2f", average, ratio);
}
