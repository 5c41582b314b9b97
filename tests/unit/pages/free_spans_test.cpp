// SPDX-License-Identifier: MIT
// free_spans compared with a model: a std::map of spans, sorted by length and address.
#include "pages/free_spans.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

using half = free_spans::half;
using sorted_spans = std::map<std::pair<std::uint32_t, std::uintptr_t>, span*>;

TEST(free_spans, bins_are_in_order_of_length) {
  std::size_t last = 0;
  for (std::size_t pages = 1; pages < 300000; ++pages) {
    const std::size_t bin = free_spans::bin_of(pages);
    ASSERT_GE(bin, last) << pages;
    ASSERT_LE(bin, last + 1) << pages;
    last = bin;
  }
  EXPECT_LT(free_spans::bin_of(0xffffffffU), free_spans::bin_count);
  for (std::size_t pages = 1; pages < 64; ++pages) EXPECT_EQ(free_spans::bin_of(pages), pages);
}

class model {
 public:
  explicit model(std::size_t spans) : spans_(spans), inside_(spans) {}

  void step(std::mt19937& random) {
    const std::size_t i = random() % spans_.size();
    span& s = spans_[i];
    if (inside_[i]) {
      free_->remove(&s);
      sorted_of(s).erase({s.pages, s.start});
    } else {
      s.start = (i + 1) << 40;
      s.pages = static_cast<std::uint32_t>(1 + random() % (random() % 4 == 0 ? 100000 : 150));
      s.dirty_pages = static_cast<std::uint32_t>(random() % 2 == 0 ? 0 : 1 + random() % s.pages);
      free_->insert(&s);
      sorted_of(s)[{s.pages, s.start}] = &s;
    }
    inside_[i] = !inside_[i];
  }

  // `exact`: there are few enough spans that the bounded search of a bin sees all of them. Otherwise the span that is
  // found fits, and is in the request's own bin or in the first bin all of whose spans fit.
  void check(half which, std::size_t pages, bool exact) const {
    const sorted_spans& sorted = which == half::dirty ? dirty_ : clean_;
    const span* const found = free_->best_fit(which, pages);
    const auto best = sorted.lower_bound({static_cast<std::uint32_t>(pages), 0});
    if (best == sorted.end()) {
      ASSERT_EQ(found, nullptr);
    } else {
      ASSERT_NE(free_->best_fit(which, pages, 0, free_spans::all_spans), nullptr);
      const std::size_t own_bin = free_spans::bin_of(pages);
      const auto next = std::find_if(best, sorted.end(), [own_bin](const auto& entry) {
        return free_spans::bin_of(entry.second->pages) > own_bin;
      });
      if (found == nullptr) {
        ASSERT_FALSE(exact);
        ASSERT_EQ(next, sorted.end()) << "a span of a longer bin fits";
        return;
      }
      ASSERT_GE(found->pages, pages);
      ASSERT_EQ(found->dirty_pages != 0, which == half::dirty);
      const std::size_t bin = free_spans::bin_of(found->pages);
      ASSERT_TRUE(bin == own_bin || bin == free_spans::bin_of(next->second->pages));
      if (exact) {
        ASSERT_EQ(found, best->second);
      }
    }
    if (exact && which == half::dirty) check_dirty(pages);
    const span* const longest = free_->longest(which);
    ASSERT_EQ(longest == nullptr, sorted.empty());
    if (longest != nullptr) {
      ASSERT_EQ(free_spans::bin_of(longest->pages), free_spans::bin_of(sorted.rbegin()->second->pages));
    }
  }

  // Few spans: the shortest of those that are long enough and dirty enough is found, in whatever bin it is.
  void check_dirty(std::size_t pages) const {
    const std::size_t least = pages / 2 + 1;
    const auto best = std::find_if(dirty_.lower_bound({static_cast<std::uint32_t>(pages), 0}), dirty_.end(),
                                   [least](const auto& entry) { return entry.second->dirty_pages >= least; });
    ASSERT_EQ(free_->best_fit(half::dirty, pages, least), best != dirty_.end() ? best->second : nullptr);
  }

 private:
  sorted_spans& sorted_of(const span& s) { return s.dirty_pages != 0 ? dirty_ : clean_; }

  std::vector<span> spans_;
  std::vector<bool> inside_;
  std::unique_ptr<free_spans> free_ = std::make_unique<free_spans>();
  sorted_spans dirty_;
  sorted_spans clean_;
};

void run(std::size_t spans, int steps, bool exact) {
  model m(spans);
  std::mt19937 random(5);
  for (int i = 0; i < steps; ++i) {
    m.step(random);
    const std::size_t pages = 1 + random() % (random() % 4 == 0 ? 120000 : 160);
    m.check(random() % 2 == 0 ? half::dirty : half::clean, pages, exact);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(free_spans, few_spans_the_best_fit_is_exact) { run(32, 50000, true); }

TEST(free_spans, many_spans_the_fit_is_in_the_best_bin_or_the_next) { run(5000, 50000, false); }

TEST(free_spans, of_equals_the_lowest_address) {
  auto free = std::make_unique<free_spans>();
  span spans[20];
  for (std::size_t i = 0; i < 20; ++i) {
    spans[i].start = ((i * 7 % 20) + 1) << 30;
    spans[i].pages = 5;
    free->insert(&spans[i]);
  }
  for (std::size_t i = 1; i <= 20; ++i) {
    span* const s = free->best_fit(half::clean, 5);
    ASSERT_NE(s, nullptr);
    EXPECT_EQ(s->start, i << 30);
    free->remove(s);
  }
  EXPECT_EQ(free->best_fit(half::clean, 1), nullptr);
}

TEST(free_spans, spans_that_are_a_little_too_short_are_not_all_looked_at) {
  constexpr std::size_t count = 10000;
  auto free = std::make_unique<free_spans>();
  std::vector<span> spans(count + 1);
  for (std::size_t i = 0; i <= count; ++i) {
    spans[i].start = (i + 1) << 30;
    spans[i].pages = i == 0 ? 67 : 64;
    free->insert(&spans[i]);
  }
  EXPECT_EQ(free->best_fit(half::clean, 66), nullptr) << "the one that fits comes after all others";
  EXPECT_EQ(free->best_fit(half::clean, 66, 0, free_spans::all_spans), spans.data());
  spans[1].pages = 64;
  free->remove(&spans[1]);
  spans[1].pages = 72;
  free->insert(&spans[1]);
  EXPECT_EQ(free->best_fit(half::clean, 66), &spans[1]) << "a span of the next bin, where all fit";
}

TEST(free_spans, the_span_with_an_address_is_found_among_the_longest) {
  const auto free = std::make_unique<free_spans>();
  std::vector<span> spans(2 * free_spans::look_limit);
  for (std::size_t i = 0; i < spans.size(); ++i) {
    spans[i].start = (i + 1) << 30;
    spans[i].pages = 100 + 100 * static_cast<std::uint32_t>(i);
    free->insert(&spans[i]);
  }
  EXPECT_EQ(free->containing(spans.back().end() - 1), &spans.back());
  EXPECT_EQ(free->containing(spans.back().end()), nullptr);
  EXPECT_EQ(free->containing(spans.front().start), nullptr) << "half of them are longer";
}

TEST(free_spans, finds_a_broken_invariant) {
  const auto owner = std::make_unique<free_spans>();
  free_spans& spans = *owner;
  span s;
  s.pages = 3;
  spans.insert(&s);
  spans.validate(span_state::free);
  EXPECT_BROKEN(spans.validate(span_state::kept), "free_spans", "state_of_span == state", &spans);
  s.dirty_pages = 1;
  EXPECT_BROKEN(spans.validate(span_state::free), "free_spans", "half_of(s) == which", &spans);
  s.dirty_pages = 0;
  s.pages = 4;
  EXPECT_BROKEN(spans.validate(span_state::free), "free_spans", "bin_of(s->pages) == number", &spans);
  s.pages = 3;
  const_cast<span_list&>(spans.bin(free_spans::half::clean, 3)).remove(&s);
  EXPECT_BROKEN(spans.validate(span_state::free), "free_spans",
                "is_used(which, number) == !bin(which, number).empty()", &spans);
}

}  // namespace
}  // namespace tarn
