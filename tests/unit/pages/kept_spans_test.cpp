// SPDX-License-Identifier: MIT
// kept_spans: spans ordered by length and by age.
#include "pages/kept_spans.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

class kept_spans_test : public testing::Test {
 protected:
  span* make(std::uint32_t pages) {
    spans_.push_back(std::make_unique<span>());
    span* const s = spans_.back().get();
    s->start = next_start_;
    s->pages = pages;
    next_start_ += std::uintptr_t{pages} << page_shift;
    return s;
  }
  [[nodiscard]] std::vector<span*> by_age() const {
    std::vector<span*> all;
    for (span* s = kept_.oldest(); s != nullptr; s = s->kept.newer) all.push_back(s);
    return all;
  }

  std::vector<std::unique_ptr<span>> spans_;
  std::uintptr_t next_start_ = std::uintptr_t{1} << 30;
  kept_spans kept_;
};

TEST_F(kept_spans_test, a_quarter_may_be_wasted) {
  EXPECT_TRUE(kept_spans::fits(100, 100));
  EXPECT_TRUE(kept_spans::fits(125, 100));
  EXPECT_FALSE(kept_spans::fits(126, 100));
  EXPECT_FALSE(kept_spans::fits(99, 100));
  EXPECT_TRUE(kept_spans::fits(10, 8));
  EXPECT_FALSE(kept_spans::fits(11, 8));
}

TEST_F(kept_spans_test, a_kept_span_counts_as_backed_and_leaves_no_trace) {
  span* const s = make(10);
  kept_.insert(s, 5, true);
  EXPECT_TRUE(s->kept.is_zero);
  EXPECT_EQ(s->state.load(), span_state::kept);
  EXPECT_EQ(s->dirty_pages, 10U);
  EXPECT_EQ(kept_.pages(), 10U);
  EXPECT_EQ(kept_.count(), 1U);
  kept_.remove(s);
  EXPECT_TRUE(kept_.empty());
  EXPECT_EQ(kept_.pages(), 0U);
  for (const std::uint64_t word : s->inline_bits) EXPECT_EQ(word, 0U);
}

TEST_F(kept_spans_test, the_shortest_that_is_long_enough) {
  for (const std::uint32_t pages : {1000U, 200U, 100U, 120U, 110U}) kept_.insert(make(pages), 0);
  EXPECT_EQ(kept_.best(90)->pages, 100U);
  EXPECT_EQ(kept_.best(101)->pages, 110U);
  EXPECT_EQ(kept_.best(121)->pages, 200U);
  EXPECT_EQ(kept_.best(201)->pages, 1000U);
  EXPECT_EQ(kept_.best(1001), nullptr);
}

TEST_F(kept_spans_test, by_age) {
  span* const a = make(10);
  span* const b = make(10);
  span* const c = make(10);
  span* const d = make(10);
  kept_.insert(a, 10);
  kept_.insert(b, 20);
  // The clock of another thread may be behind; the order of insertion stays.
  kept_.insert(c, 15);
  EXPECT_EQ(c->kept.since_ms, 20);
  kept_.insert_aged(d, 12);
  EXPECT_EQ(by_age(), (std::vector<span*>{a, d, b, c}));
  kept_.remove(a);
  EXPECT_EQ(kept_.oldest(), d);
  kept_.insert_aged(a, 5);
  EXPECT_EQ(kept_.oldest(), a);
  kept_.remove(b);
  kept_.remove(c);
  kept_.insert_aged(c, 99);
  EXPECT_EQ(by_age(), (std::vector<span*>{a, d, c}));
}

TEST_F(kept_spans_test, counts_what_fits) {
  for (int i = 0; i < 5; ++i) kept_.insert(make(100), 0);
  kept_.insert(make(130), 0);
  EXPECT_EQ(kept_.count_fitting(100, 3), 3U);
  EXPECT_EQ(kept_.count_fitting(100, 100), 5U);
  EXPECT_EQ(kept_.count_fitting(110, 100), 1U);
  EXPECT_EQ(kept_.count_fitting(131, 100), 0U);
}

TEST_F(kept_spans_test, many_in_and_out) {
  std::mt19937 random(1);
  std::vector<span*> inside;
  std::vector<span*> outside;
  for (int i = 0; i < 200; ++i) outside.push_back(make(static_cast<std::uint32_t>(8 + random() % 3000)));
  std::size_t pages = 0;
  for (std::int64_t step = 0; step < 20000; ++step) {
    auto& from = random() % 2 == 0 ? inside : outside;
    if (from.empty()) continue;
    std::swap(from[random() % from.size()], from.back());
    span* const s = from.back();
    from.pop_back();
    if (&from == &outside) {
      random() % 4 == 0 ? kept_.insert_aged(s, step / 2) : kept_.insert(s, step);
      inside.push_back(s);
      pages += s->pages;
    } else {
      kept_.remove(s);
      outside.push_back(s);
      pages -= s->pages;
    }
    ASSERT_EQ(kept_.pages(), pages);
    ASSERT_EQ(kept_.count(), inside.size());
  }
  const std::vector<span*> aged = by_age();
  ASSERT_EQ(aged.size(), inside.size());
  for (std::size_t i = 1; i < aged.size(); ++i) ASSERT_LE(aged[i - 1]->kept.since_ms, aged[i]->kept.since_ms);
}

TEST_F(kept_spans_test, finds_a_broken_invariant) {
  span* const older = make(2);
  span* const newer = make(2);
  kept_.insert(older, 5);
  kept_.insert(newer, 6);
  kept_.validate();
  newer->kept.older = nullptr;
  EXPECT_BROKEN(kept_.validate(), "kept_spans", "s->kept.older == last", &kept_);
  newer->kept.older = older;
  newer->kept.since_ms = 4;
  EXPECT_BROKEN(kept_.validate(), "kept_spans", "last == nullptr || last->kept.since_ms <= s->kept.since_ms",
                &kept_);
  newer->kept.since_ms = 6;
  newer->dirty_pages = 1;
  EXPECT_BROKEN(kept_.validate(), "kept_spans", "s->dirty_pages == s->pages", &kept_);
  newer->dirty_pages = 2;
  older->kept.newer = nullptr;
  EXPECT_BROKEN(kept_.validate(), "kept_spans", "newest_ == last", &kept_);
  older->kept.newer = newer;
  kept_.validate();
}

}  // namespace
}  // namespace tarn
