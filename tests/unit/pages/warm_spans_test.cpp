// SPDX-License-Identifier: MIT
// warm_spans: which lengths are kept, how many, and that a span has one taker.
#include "pages/warm_spans.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "broken_invariant.hpp"

namespace tarn {
namespace {

constexpr std::uint32_t mebibyte = (1 * mib) >> page_shift;
constexpr std::size_t no_limit = std::size_t{1} << 30;

class warm_spans_test : public testing::Test {
 protected:
  span* make(std::size_t pages) {
    spans_.push_back(std::make_unique<span>());
    span* const s = spans_.back().get();
    s->pages = s->dirty_pages = static_cast<std::uint32_t>(pages);
    s->state.store(span_state::kept);
    return s;
  }
  // How many spans of a length that becomes free are to be kept.
  std::size_t wanted(std::size_t pages, std::size_t most_pages = no_limit) {
    return warm_.places_for(pages, most_pages).most;
  }
  bool put(span* s) { return warm_spans::put(s, warm_.places_for(s->pages, no_limit)); }
  // Frees a block of this length and asks for it again, so often.
  void use_again(std::size_t pages, std::size_t times = 1) {
    EXPECT_EQ(wanted(pages), 0U);
    for (std::size_t i = 0; i < times; ++i) EXPECT_EQ(warm_.take(pages), nullptr);
  }

  std::vector<std::unique_ptr<span>> spans_;
  warm_spans warm_;
};

TEST_F(warm_spans_test, a_length_is_kept_once_it_was_freed_and_asked_for_again) {
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_EQ(wanted(mebibyte), 0U);
  EXPECT_EQ(wanted(mebibyte), 0U) << "two are freed, and none is asked for";
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_EQ(wanted(mebibyte), 1U);
  EXPECT_EQ(wanted(2 * mebibyte), 0U) << "each doubling has its own";
  EXPECT_EQ(wanted(mebibyte), 1U);
  EXPECT_EQ(wanted(mebibyte - 1), 0U);
  EXPECT_EQ(wanted(mebibyte), 0U) << "another length was freed in between";
}

TEST_F(warm_spans_test, as_many_are_kept_as_were_asked_for_again) {
  use_again(mebibyte, 3);
  EXPECT_EQ(wanted(mebibyte), 3U);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(put(make(mebibyte)));
  EXPECT_FALSE(put(make(mebibyte)));
  EXPECT_EQ(warm_.bytes(), 3 * mib);
  warm_.validate();
}

TEST_F(warm_spans_test, no_more_are_kept_than_the_owner_allows) {
  use_again(mebibyte, 3);
  EXPECT_EQ(wanted(mebibyte, 3 * mebibyte), 3U);
  EXPECT_EQ(wanted(mebibyte, 3 * mebibyte - 1), 2U);
  EXPECT_EQ(wanted(mebibyte, mebibyte - 1), 0U);
  EXPECT_EQ(wanted(mebibyte), 3U);
}

TEST_F(warm_spans_test, a_length_of_which_more_and_more_are_asked_for_is_not_kept) {
  use_again(mebibyte, warm_spans::ways);
  EXPECT_EQ(wanted(mebibyte), warm_spans::ways);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_EQ(wanted(mebibyte), 0U);
}

TEST_F(warm_spans_test, lengths_outside_the_range_are_never_kept) {
  for (const std::size_t pages : {std::size_t{0}, std::size_t{1}, warm_spans::least_pages - 1,
                                  warm_spans::most_pages + 1, std::size_t{1} << 31}) {
    use_again(pages);
    EXPECT_EQ(wanted(pages), 0U) << pages;
  }
  for (const std::size_t pages : {warm_spans::least_pages, warm_spans::most_pages}) {
    use_again(pages);
    EXPECT_EQ(wanted(pages), 1U) << pages;
  }
}

TEST_F(warm_spans_test, only_the_same_length_takes_a_span) {
  use_again(mebibyte);
  span* const s = make(mebibyte);
  EXPECT_FALSE(warm_.may_have_any());
  EXPECT_TRUE(put(s));
  EXPECT_TRUE(warm_.may_have_any());
  EXPECT_EQ(warm_.bytes(), 1 * mib);
  warm_.validate();
  EXPECT_EQ(warm_.take(mebibyte - 1), nullptr);
  EXPECT_EQ(warm_.take(mebibyte), s);
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_EQ(warm_.bytes(), 0U);
}

TEST_F(warm_spans_test, the_end_of_a_period_finds_all_and_forgets_what_was_asked_for) {
  std::size_t kept = 0;
  for (std::size_t pages = warm_spans::most_pages; pages >= warm_spans::least_pages; pages /= 2) {
    use_again(pages, 5);
    for (int i = 0; i < 5; ++i) {
      EXPECT_TRUE(put(make(pages)));
      kept += pages << page_shift;
    }
  }
  EXPECT_EQ(warm_.bytes(), kept);
  warm_.validate();
  std::size_t taken = 0;
  while (const span* const s = warm_.take_any()) taken += s->bytes();
  EXPECT_EQ(taken, kept);
  EXPECT_EQ(warm_.bytes(), 0U);
  EXPECT_FALSE(warm_.may_have_any());
  EXPECT_EQ(wanted(mebibyte), 0U);
  use_again(mebibyte);
  EXPECT_EQ(wanted(mebibyte), 1U);
}

TEST_F(warm_spans_test, a_span_has_one_taker) {
  constexpr int rounds = 20000;
  std::vector<std::atomic<int>> holders(4);
  use_again(mebibyte, holders.size());
  const warm_spans::places places = warm_.places_for(mebibyte, no_limit);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    make(mebibyte)->start = i;
    EXPECT_TRUE(warm_spans::put(spans_[i].get(), places));
  }
  std::atomic<int> taken_twice{0};
  const auto take_often = [&](bool any) {
    for (int i = 0; i < rounds; ++i) {
      span* const s = any && i % 8 == 0 ? warm_.take_any() : warm_.take(mebibyte);
      if (s == nullptr) continue;
      if (holders[s->start].fetch_add(1) != 0) ++taken_twice;
      holders[s->start].fetch_sub(1);
      EXPECT_TRUE(warm_spans::put(s, places));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(take_often, t == 0);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(taken_twice, 0);
  EXPECT_EQ(warm_.bytes(), 4 * mib);
  warm_.validate();
}

TEST_F(warm_spans_test, validate_finds_what_is_broken) {
  use_again(mebibyte);
  EXPECT_TRUE(put(make(mebibyte)));
  span* const s = spans_.back().get();
  s->dirty_pages = 1;
  EXPECT_BROKEN(warm_.validate(), "warm_spans",
                "s->pages == kept >> length_shift && s->dirty_pages == s->pages", &warm_);
  s->dirty_pages = s->pages;
  s->state.store(span_state::large);
  EXPECT_BROKEN(warm_.validate(), "warm_spans",
                "s->state.load(std::memory_order_relaxed) == span_state::kept", &warm_);
}

}  // namespace
}  // namespace tarn
