// SPDX-License-Identifier: MIT
// central_fixture: a central of a separate engine, from which tests take objects as caches do.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "own_engine.hpp"
#include "slots/central.hpp"
#include "slots/hardened_fence.hpp"
#include "slots/objects.hpp"

namespace tarn::testing_support {

constexpr unsigned small = 5;  // objects of 64 bytes

class central_fixture : public testing::Test {
 protected:
  magazine* new_magazine() { return central_.magazines().allocate(engine_->metadata, 2); }

  // Takes `count` objects. Returns them in the order in which a cache would hand them out.
  std::vector<void*> take(unsigned size_class, std::size_t count, unsigned home = 0) {
    std::vector<void*> out;
    while (out.size() < count) {
      magazine* const m = new_magazine();
      const std::size_t most =
          std::min<std::size_t>({count - out.size(), m->capacity, class_info(size_class).magazine});
      const std::size_t got = central_.refill(size_class, m, most, home);
      EXPECT_NE(got, 0U);
      if (got == 0) break;
      for (std::size_t slot = got; slot > 0; --slot) out.push_back(m->slots[slot]);
      m->count = 0;
      central_.magazines().deallocate(m);
    }
    return out;
  }

  void give(unsigned size_class, std::vector<void*> objects) {
    for (std::size_t i = 0; i < objects.size(); i += largest_magazine) {
      central_.flush(size_class, objects.data() + i, std::min(largest_magazine, objects.size() - i));
    }
  }

  span* span_of(const void* object) { return engine_->map.span_of(address_of(object)); }
  bool is_in_span(const void* object) {
    const span* s = span_of(object);
    EXPECT_EQ(s->free_objects, objects::count_free(s));
    const std::size_t index = objects::index_of(s, address_of(object));
    EXPECT_EQ(objects::at(s, index), object);
    return objects::is_free(s, index);
  }
  // Without the fences of the hardened build.
  std::size_t in_use() { return engine_->heap.stats().in_use - ((fences() - fences_before_) << page_shift); }
  static std::size_t fences() {
    if constexpr (hardened_build) return hardened_fence::pages();
    return 0;
  }

  const std::size_t fences_before_ = fences();

  std::unique_ptr<own_engine> engine_ = make_engine();
  central& central_ = engine_->central_tier;
};

}  // namespace tarn::testing_support
