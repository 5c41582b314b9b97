// SPDX-License-Identifier: MIT
// page_map: from an address to its span, class and distance, and the backing of pages, across leaves.
#include "pages/page_map.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

constexpr std::size_t leaf_bytes = page_map::leaf_pages << page_shift;
// Any address below 2^48 is possible: the map never accesses the memory.
constexpr std::uintptr_t border = 40 * leaf_bytes;

class page_map_test : public testing::Test {
 protected:
  metadata_arena metadata_;
  std::unique_ptr<page_map> owner_ = std::make_unique<page_map>();
  page_map& map_ = *owner_;
};

struct span_at : span {
  span_at(std::uintptr_t first, std::uint32_t length) {
    start = first;
    pages = length;
  }
};

TEST_F(page_map_test, unknown_addresses_have_no_class_and_no_span) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 10000; ++i) {
    const std::uintptr_t address = random();
    EXPECT_EQ(map_.class_of(address), 0U);
    EXPECT_EQ(map_.span_of(address), nullptr);
  }
  EXPECT_EQ(map_.class_of(0), 0U);
  EXPECT_EQ(map_.class_of(~std::uintptr_t{0}), 0U);
}

TEST_F(page_map_test, addresses_beyond_48_bits_are_refused) {
  EXPECT_FALSE(map_.ensure(metadata_, std::uintptr_t{1} << 48, page_size));
  EXPECT_FALSE(map_.ensure(metadata_, (std::uintptr_t{1} << 48) - page_size, 2 * page_size));
  EXPECT_TRUE(map_.ensure(metadata_, (std::uintptr_t{1} << 48) - page_size, page_size));
}

TEST_F(page_map_test, a_span_across_leaves_is_known_in_each) {
  span_at s(border - 3 * page_size, 7);
  ASSERT_TRUE(map_.ensure(metadata_, s.start, s.bytes()));
  s.size_class = 9;
  map_.set_objects(&s, 128);
  for (std::uintptr_t at = s.start; at < s.end(); at += page_size / 2) {
    EXPECT_EQ(map_.class_of(at), 9U);
    EXPECT_EQ(map_.span_of(at), &s);
    EXPECT_EQ(map_.find(at).owner(at), &s);
  }
  EXPECT_EQ(map_.class_of(s.start - 1), 0U);
  EXPECT_EQ(map_.class_of(s.end()), 0U);
  map_.clear_objects(&s);
  for (std::uintptr_t at = s.start; at < s.end(); at += page_size) EXPECT_EQ(map_.class_of(at), 0U);
}

TEST_F(page_map_test, huge_pages_are_noted_across_leaves) {
  ASSERT_TRUE(map_.ensure(metadata_, border - leaf_bytes, 2 * leaf_bytes));
  EXPECT_FALSE(map_.note_huge(border - leaf_bytes, 2 * leaf_bytes, false)) << "none is at first";
  EXPECT_TRUE(map_.note_huge(border - page_size, 2 * page_size, true));
  EXPECT_FALSE(map_.note_huge(border - huge_page_size, 2 * huge_page_size, true)) << "both are";
  EXPECT_TRUE(map_.note_huge(border - huge_page_size - 1, 2, true)) << "the one before was not";
  EXPECT_TRUE(map_.note_huge(border, 1, false));
  EXPECT_FALSE(map_.note_huge(border - 1, 1, true)) << "only the one behind has changed";
  EXPECT_TRUE(map_.note_huge(border + huge_page_size - 1, 1, true));
}

// For all sizes that a class could have.
TEST_F(page_map_test, a_page_knows_where_objects_begin) {
  ASSERT_TRUE(map_.ensure(metadata_, border - 64 * page_size, 128 * page_size));
  for (std::size_t size = 8; size <= 256 * kib; size += size < 16     ? 8
                                                        : size < 4096 ? 16
                                                                      : size / 16 / 16 * 16) {
    for (const std::uint32_t pages : {1U, 2U, 3U, 8U, 63U}) {
      span_at s(border - 5 * page_size, pages);
      if (s.bytes() < size) continue;
      s.size_class = 96;
      map_.set_objects(&s, size);
      const std::uint64_t reciprocal = ~std::uint64_t{0} / size + 1;
      std::uintptr_t at = s.start;
      // Each byte of a short span; of a long one those at the ends of its objects, and some between.
      for (std::size_t step = 1; at < s.end(); at += step) {
        const page_map::entry page = map_.find(at);
        const std::size_t left = (s.end() - at) % size;
        const bool begins = left == 0;
        step = pages <= 3 || left <= 2 || left >= size - 2 ? 1 : std::min<std::size_t>(left - 2, 5);
        if (page.owner(at) != &s || page.size_class() != 96 || page.begins_object(at, reciprocal) != begins)
          break;
      }
      ASSERT_EQ(at, s.end()) << size << ", " << pages << " pages";
      map_.clear_objects(&s);
    }
  }
}

TEST_F(page_map_test, no_object_begins_in_a_page_without_a_class) {
  span_at s(border, 1);
  ASSERT_TRUE(map_.ensure(metadata_, s.start, s.bytes()));
  map_.set_ends(&s);
  for (const std::uintptr_t at : {s.start, s.start + 64, s.end(), std::uintptr_t{64}}) {
    EXPECT_FALSE(map_.find(at).begins_object(at, 0));
  }
}

TEST_F(page_map_test, ensure_makes_all_leaves_of_a_long_range) {
  const std::uintptr_t start = border + 5 * page_size;
  ASSERT_TRUE(map_.ensure(metadata_, start, 3 * leaf_bytes));
  span_at s(start, 1);
  for (std::size_t i = 0; i <= 3; ++i) {
    const std::uintptr_t at = start + i * leaf_bytes - (i == 3 ? page_size : 0);
    map_.set_span(at, &s);
    EXPECT_EQ(map_.span_of(at), &s);
  }
}

TEST_F(page_map_test, ends_only) {
  span_at s(border - 2 * page_size, 5);
  ASSERT_TRUE(map_.ensure(metadata_, s.start, s.bytes()));
  map_.set_ends(&s);
  EXPECT_EQ(map_.span_of(s.start), &s);
  EXPECT_EQ(map_.span_of(s.end() - 1), &s);
  EXPECT_EQ(map_.span_of(s.start + 2 * page_size), nullptr);
}

TEST_F(page_map_test, backing_is_counted_across_leaves) {
  ASSERT_TRUE(map_.ensure(metadata_, border - 10 * page_size, 20 * page_size));
  const std::uintptr_t start = border - 10 * page_size;
  EXPECT_EQ(map_.count_dirty(start, 20), 0U);
  map_.set_backing(border - 2 * page_size, 5, page_backing::young);
  map_.set_backing(border + 4 * page_size, 2, page_backing::old);
  EXPECT_EQ(map_.count_dirty(start, 20), 7U);
  EXPECT_EQ(map_.count_dirty(border, 3), 3U);
  EXPECT_EQ(map_.backing(border - 2 * page_size), page_backing::young);
  EXPECT_EQ(map_.backing(border + 5 * page_size), page_backing::old);
  EXPECT_EQ(map_.backing(border + 3 * page_size), page_backing::clean);
  map_.set_backing(start, 20, page_backing::clean);
  EXPECT_EQ(map_.count_dirty(start, 20), 0U);
}

TEST_F(page_map_test, halves_of_pages_are_dropped_once_until_their_span_is_used_again) {
  ASSERT_TRUE(map_.ensure(metadata_, border - 10 * page_size, 20 * page_size));
  span s;
  s.start = border - 4 * page_size;
  s.pages = 8;
  constexpr std::uintptr_t half = page_size / 2;
  map_.begin_dropped(s.start + half, s.start + 2 * page_size + 1);  // 3 halves
  EXPECT_EQ(map_.dropped_bytes(), 3 * half);
  map_.begin_dropped(s.start, s.start + page_size);  // one more
  map_.begin_dropped(border + 1, border + page_size);
  EXPECT_EQ(map_.dropped_bytes(), 5 * half);
  EXPECT_EQ(map_.dropped_bytes(&s), 5 * half);
  map_.end_dropped(&s);
  map_.end_dropped(&s);
  EXPECT_EQ(map_.dropped_bytes(), 0U);
  EXPECT_EQ(map_.dropped_bytes(&s), 0U);
  EXPECT_EQ(map_.backing(border), page_backing::young);
}

TEST_F(page_map_test, the_first_dirty_page_is_found_across_leaves) {
  ASSERT_TRUE(map_.ensure(metadata_, border - 30 * page_size, 60 * page_size));
  const std::uintptr_t start = border - 27 * page_size;
  EXPECT_EQ(map_.first_dirty(start, 50), start + 50 * page_size);
  for (std::size_t i = 50; i-- > 0;) {
    map_.set_backing(start + i * page_size, 1, page_backing::old);
    EXPECT_EQ(map_.first_dirty(start, 50), start + i * page_size);
    EXPECT_EQ(map_.first_dirty(start, i), start + i * page_size) << "a clean page was found";
  }
}

TEST_F(page_map_test, the_first_clean_page_is_found_across_leaves) {
  ASSERT_TRUE(map_.ensure(metadata_, border - 30 * page_size, 60 * page_size));
  const std::uintptr_t start = border - 27 * page_size;
  map_.set_backing(start, 50, page_backing::young);
  EXPECT_EQ(map_.first_clean(start, 50), start + 50 * page_size);
  for (std::size_t i = 50; i-- > 0;) {
    map_.set_backing(start + i * page_size, 1, page_backing::clean);
    EXPECT_EQ(map_.first_clean(start, 50), start + i * page_size);
    EXPECT_EQ(map_.first_clean(start, i), start + i * page_size) << "a dirty page was found";
  }
}

TEST_F(page_map_test, threads_that_make_one_leaf_get_the_same_one) {
  span_at s(border, 1);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, &s, &failures] {
      const std::uintptr_t mine = border + t * page_size;
      if (!map_.ensure(metadata_, mine, page_size)) failures.fetch_add(1);
      map_.set_span(mine, &s);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failures.load(), 0);
  for (unsigned t = 0; t < 4; ++t) EXPECT_EQ(map_.span_of(border + t * page_size), &s);
}

TEST_F(page_map_test, finds_a_broken_invariant) {
  alignas(span) span_at s(border - page_size, 3);
  alignas(span) span_at other(s.start, 3);
  ASSERT_TRUE(map_.ensure(metadata_, s.start, s.bytes()));
  s.size_class = 1;
  map_.set_objects(&s, 48);
  map_.validate(&s, 1, 48);
  EXPECT_BROKEN(map_.validate(&s, 2, 48), "page_map", "e.size_class() == size_class", &s);
  EXPECT_BROKEN(map_.validate(&s, 1, 64), "page_map", "e.check_ == check", &s);
  EXPECT_BROKEN(map_.validate(&other, 1, 48), "page_map", "e.owner(at) == s", &other);
  if constexpr (TARN_CHECKS) {
    EXPECT_BROKEN(map_.set_span(s.start, &other), "page_map", "class_of(address) == 0", &other);
  }
}

}  // namespace
}  // namespace tarn
