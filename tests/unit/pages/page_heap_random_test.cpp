// SPDX-License-Identifier: MIT
// page_heap: random steps, with its invariants and the content of live spans checked after each.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "page_heap_fixture.hpp"

namespace tarn {
namespace {

class page_heap_random_test : public page_heap_fixture {};

struct stamped {
  span* s;
  unsigned char stamp;
};

class random_walk {
 public:
  random_walk(page_heap& heap, const page_map& map, unsigned seed) : heap_(heap), map_(map), random_(seed) {}

  void step() {
    switch (random_() % 16) {
      case 0: heap_.age(); break;
      case 1:
        if (random_() % 8 == 0) heap_.trim((random_() % 512) << page_shift);
        break;
      case 2:
      case 3: resize(); break;
      default:
        if (live_.size() < 60 || random_() % 2 == 0) take();
        if (live_.size() > 90 || random_() % 2 == 0) drop(random_() % (live_.size() + 1));
    }
  }
  void drop_all() {
    while (!live_.empty()) drop(0);
  }
  [[nodiscard]] std::size_t live_bytes() const {
    std::size_t bytes = 0;
    for (const stamped& b : live_) bytes += b.s->bytes();
    return bytes;
  }

 private:
  void mark(const stamped& b) {
    *reinterpret_cast<unsigned char*>(b.s->start) = b.stamp;
    *reinterpret_cast<unsigned char*>(b.s->end() - 1) = b.stamp;
  }
  void expect_marked(const stamped& b) {
    ASSERT_EQ(b.s->dirty_pages, map_.count_dirty(b.s->start, b.s->pages));
    ASSERT_EQ(byte_at(b.s->start), b.stamp);
    ASSERT_EQ(byte_at(b.s->end() - 1), b.stamp);
  }
  void take() {
    const std::size_t pages = 1 + random_() % (random_() % 8 == 0 ? 3000 : 60);
    const std::size_t alignment = random_() % 4 == 0 ? std::size_t{1} << (random_() % 10) : 1;
    const auto from = random_() % 4 == 0 ? source::warm : source::any;
    span* const s = heap_.allocate(pages, alignment, span_state::large, from,
                                   random_() % 2 == 0 ? use::dense : use::sparse);
    if (s == nullptr) {
      ASSERT_EQ(from, source::warm);
      return;
    }
    ASSERT_EQ(s->pages, pages);
    ASSERT_EQ(s->start % (alignment << page_shift), 0U);
    for (const stamped& other : live_) {
      ASSERT_TRUE(s->end() <= other.s->start || other.s->end() <= s->start) << "handed out twice";
    }
    live_.push_back({s, static_cast<unsigned char>(random_())});
    mark(live_.back());
  }
  void drop(std::size_t i) {
    if (i >= live_.size()) return;
    expect_marked(live_[i]);
    if (random_() % 8 == 0) {
      heap_.release_to_system(live_[i].s);
    } else {
      heap_.deallocate(live_[i].s, page_backing::young);
    }
    live_[i] = live_.back();
    live_.pop_back();
  }
  void resize() {
    if (live_.empty()) return;
    stamped b = live_[random_() % live_.size()];
    expect_marked(b);
    const std::size_t before = b.s->pages;
    if (before > 1 && random_() % 2 == 0) {
      const std::size_t pages = 1 + random_() % (before - 1);
      ASSERT_TRUE(heap_.shrink(b.s, pages));
      ASSERT_EQ(b.s->pages, pages);
    } else if (before > 1 && random_() % 2 == 0) {
      const std::size_t pages = 1 + random_() % (before - 1);
      span* const rest = heap_.split(b.s, pages);
      ASSERT_NE(rest, nullptr);
      live_.push_back({rest, static_cast<unsigned char>(random_())});
      mark(live_.back());
      mark(b);
      return;
    } else {
      const std::size_t pages = before + 1 + random_() % 40;
      const bool extended = heap_.extend(b.s, pages);
      ASSERT_EQ(b.s->pages, extended ? pages : before);
    }
    mark(b);
  }

  page_heap& heap_;
  const page_map& map_;
  std::mt19937 random_;
  std::vector<stamped> live_;
};

TEST_F(page_heap_random_test, random_steps_keep_every_invariant) {
  for (unsigned seed = 1; seed <= 3; ++seed) {
    random_walk walk(heap_, map_, seed);
    for (int i = 0; i < 6000; ++i) {
      walk.step();
      check();
      ASSERT_EQ(heap_.stats().in_use, walk.live_bytes());
      if (HasFatalFailure()) FAIL() << "seed " << seed << ", step " << i;
    }
    walk.drop_all();
    EXPECT_EQ(heap_.stats().in_use, 0U);
    heap_.trim(0);
    EXPECT_EQ(heap_.dirty_bytes(), 0U);
    check();
  }
}

}  // namespace
}  // namespace tarn
