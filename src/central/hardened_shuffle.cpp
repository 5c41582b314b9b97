// SPDX-License-Identifier: MIT
#include "central/hardened_shuffle.hpp"

#include <atomic>
#include <utility>

#include "os/process_random.hpp"

namespace tarn {
namespace {

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

void shuffle(void** slots, std::size_t count) {
  for (std::size_t i = count; i > 1; --i) std::swap(slots[i - 1], slots[random_number() % i]);
}

}  // namespace tarn
