// SPDX-License-Identifier: MIT
// object_depot: what all threads share of one size class: full magazines for hand-over, and the spans that
// have free objects.
//
// Owner: central. Thread safety: guarded by its lock; sections are a few pointer operations, whatever is
// moved. Invariants: full_count is the length of full, and <= the class's limit; listed holds the spans in
// state
//   `listed`, spare those in state `spare`; low marks are the least counts since the last period.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/units.hpp"
#include "central/magazine.hpp"
#include "os/mutex.hpp"
#include "pages/span.hpp"

namespace tarn {

struct depot_counters {
  std::atomic<std::uint64_t> refills{0};
  std::atomic<std::uint64_t> flushes{0};
  std::atomic<std::uint64_t> exchanges{0};
  std::atomic<std::uint64_t> spans_made{0};
  std::atomic<std::uint64_t> spans_freed{0};
};

class alignas(separation) object_depot {
 public:
  constexpr object_depot() = default;

  os::mutex lock{os::lock_rank::depot};
  depot_counters counters;

  // All guarded by lock.
  magazine* full = nullptr;
  // Written under the lock; read without it for a first look.
  std::atomic<std::uint32_t> full_count{0};
  std::uint32_t full_low = 0;
  span_list listed;  // spans with free objects
  span_list sparse;  // those of them seen to be mostly free
  span_list spare;
  std::uint32_t spare_count = 0;
  std::uint32_t spare_low = 0;

  void push_full(magazine* m) {
    m->next = full;
    full = m;
    full_count.store(full_count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  magazine* pop_full() {
    magazine* m = full;
    if (m == nullptr) return nullptr;
    full = m->next;
    const std::uint32_t left = full_count.load(std::memory_order_relaxed) - 1;
    full_count.store(left, std::memory_order_relaxed);
    full_low = left < full_low ? left : full_low;
    return m;
  }
  void push_spare(span* s) {
    s->state.store(span_state::spare, std::memory_order_relaxed);
    spare.push_front(s);
    ++spare_count;
  }
  span* pop_spare() {
    span* s = spare.pop_front();
    if (s == nullptr) return nullptr;
    --spare_count;
    spare_low = spare_count < spare_low ? spare_count : spare_low;
    return s;
  }
};

}  // namespace tarn
