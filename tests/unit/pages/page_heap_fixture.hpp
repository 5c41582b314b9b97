// SPDX-License-Identifier: MIT
// page_heap_fixture: a page heap of its own for each test, and what the tests of its parts share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "own_engine.hpp"
#include "pages/page_heap.hpp"

namespace tarn {

using source = page_heap::source;
using use = page_heap::use;

class page_heap_fixture : public testing::Test {
 protected:
  // Null: there is no such span.
  span* try_take(std::size_t pages, std::size_t alignment = 1, source from = source::any,
                 use how = use::dense) {
    return heap_.allocate(pages, alignment, span_state::large, from, how);
  }
  // Ends the test if there is none.
  span* take(std::size_t pages, std::size_t alignment = 1, source from = source::any, use how = use::dense) {
    span* const s = try_take(pages, alignment, from, how);
    if (s == nullptr) throw std::runtime_error("no span of " + std::to_string(pages) + " pages");
    return s;
  }

  // Whether the spans fill one range. Under ThreadSanitizer they lie in several reservations.
  static bool are_neighbours(const std::vector<span*>& spans) {
    std::uintptr_t low = UINTPTR_MAX;
    std::uintptr_t high = 0;
    std::size_t bytes = 0;
    for (const span* const s : spans) {
      low = std::min(low, s->start);
      high = std::max(high, s->end());
      bytes += s->bytes();
    }
    return high - low == bytes;
  }

  void check() {
    heap_.validate();
    const page_heap_stats s = heap_.stats();
    ASSERT_EQ(s.reserved, s.in_use + s.free_dirty + s.free_clean);
    ASSERT_EQ(s.free_dirty, heap_.dirty_bytes());
  }

  // The whole reservation is one free span: a page taken from its low end can be extended over all of it.
  void expect_all_in_one() {
    heap_.trim(0);
    span* const whole = take(1);
    EXPECT_TRUE(heap_.extend(whole, heap_.stats().reserved >> page_shift));
    heap_.release_to_system(whole);
  }

  std::unique_ptr<testing_support::own_engine> engine_ = testing_support::make_engine();
  page_heap& heap_ = engine_->heap;
  page_map& map_ = engine_->map;
};

inline void fill(const span* s, int value) {
  std::memset(reinterpret_cast<void*>(s->start), value, s->bytes());
}
inline unsigned char byte_at(std::uintptr_t address) {
  return *reinterpret_cast<volatile unsigned char*>(address);
}

}  // namespace tarn
