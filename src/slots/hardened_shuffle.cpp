// SPDX-License-Identifier: MIT
#include "slots/hardened_shuffle.hpp"

#include <atomic>
#include <bit>
#include <cstring>

#include "os/process_random.hpp"
#include "slots/size_class.hpp"

namespace tarn {
namespace {

constexpr std::size_t runs = 4;
// random_number() returns 48 random bits.
constexpr std::size_t draws_per_number = 48 / std::bit_width(runs - 1);

std::atomic<std::uint32_t> threads_seeded{0};
thread_local constinit std::uint64_t state = 0;

}  // namespace

// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
std::uint64_t random_number() {
  if (state == 0) {
    const std::uint32_t index = threads_seeded.fetch_add(1, std::memory_order_relaxed);
    state = os::process_random(os::random_purpose::slot_choice, index) | 1;
  }
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (state * 0x2545f4914f6cdd1dU) >> 16;
}

void riffle(void** slots, std::size_t count) {
  void* from[largest_magazine];
  std::memcpy(static_cast<void*>(from), static_cast<const void*>(slots), count * sizeof(void*));
  std::size_t next[runs];
  std::size_t end[runs];
  for (std::size_t r = 0; r < runs; ++r) {
    next[r] = count * r / runs;
    end[r] = count * (r + 1) / runs;
  }
  std::uint64_t random = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % draws_per_number == 0) random = random_number();
    std::size_t r = random % runs;
    random /= runs;
    while (next[r] == end[r]) r = (r + 1) % runs;
    slots[i] = from[next[r]++];
  }
}

}  // namespace tarn
