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

class warm_spans_test : public testing::Test {
 protected:
  span* make(std::size_t pages) {
    spans_.push_back(std::make_unique<span>());
    span* const s = spans_.back().get();
    s->pages = s->dirty_pages = static_cast<std::uint32_t>(pages);
    s->state.store(span_state::kept);
    return s;
  }
  // Frees a block of this length and asks for it again.
  void use_again(std::size_t pages) {
    EXPECT_FALSE(warm_.wants(pages));
    EXPECT_EQ(warm_.take(pages), nullptr);
  }

  std::vector<std::unique_ptr<span>> spans_;
  warm_spans warm_;
};

TEST_F(warm_spans_test, a_length_is_kept_once_it_was_freed_and_asked_for_again) {
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_FALSE(warm_.wants(mebibyte));
  EXPECT_FALSE(warm_.wants(mebibyte)) << "two are freed, and none is asked for";
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_TRUE(warm_.wants(mebibyte));
  EXPECT_FALSE(warm_.wants(2 * mebibyte)) << "each doubling has its own";
  EXPECT_TRUE(warm_.wants(mebibyte));
  EXPECT_FALSE(warm_.wants(mebibyte - 1));
  EXPECT_FALSE(warm_.wants(mebibyte)) << "another length was freed in between";
}

TEST_F(warm_spans_test, a_length_of_which_more_and_more_are_asked_for_is_not_kept) {
  EXPECT_FALSE(warm_.wants(mebibyte));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_TRUE(warm_.wants(mebibyte));
  for (int i = 0; i < 60; ++i) EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_FALSE(warm_.wants(mebibyte));
}

TEST_F(warm_spans_test, lengths_outside_the_range_are_never_kept) {
  for (const std::size_t pages : {std::size_t{0}, std::size_t{1}, warm_spans::least_pages - 1,
                                  warm_spans::most_pages + 1, std::size_t{1} << 31}) {
    use_again(pages);
    EXPECT_FALSE(warm_.wants(pages)) << pages;
  }
  for (const std::size_t pages : {warm_spans::least_pages, warm_spans::most_pages}) {
    use_again(pages);
    EXPECT_TRUE(warm_.wants(pages)) << pages;
  }
}

TEST_F(warm_spans_test, only_the_same_length_takes_a_span) {
  use_again(mebibyte);
  span* const s = make(mebibyte);
  EXPECT_TRUE(warm_.put(s));
  EXPECT_EQ(warm_.bytes(), 1 * mib);
  warm_.validate();
  EXPECT_EQ(warm_.take(mebibyte - 1), nullptr);
  EXPECT_EQ(warm_.take(mebibyte), s);
  EXPECT_EQ(warm_.take(mebibyte), nullptr);
  EXPECT_EQ(warm_.bytes(), 0U);
}

TEST_F(warm_spans_test, four_of_each_doubling_and_30_mib_in_all) {
  for (std::size_t pages = warm_spans::most_pages; pages >= warm_spans::least_pages; pages /= 2) {
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(warm_.put(make(pages)));
    EXPECT_FALSE(warm_.put(make(pages)));
  }
  EXPECT_EQ(warm_.bytes(), 30 * mib);
  warm_.validate();
  std::size_t taken = 0;
  while (const span* const s = warm_.take_any()) taken += s->bytes();
  EXPECT_EQ(taken, 30 * mib);
  EXPECT_EQ(warm_.bytes(), 0U);
}

TEST_F(warm_spans_test, a_span_has_one_taker) {
  constexpr int rounds = 20000;
  std::vector<std::atomic<int>> holders(4);
  for (std::size_t i = 0; i < holders.size(); ++i) {
    make(mebibyte)->start = i;
    EXPECT_TRUE(warm_.put(spans_[i].get()));
  }
  std::atomic<int> taken_twice{0};
  const auto use = [&](bool any) {
    for (int i = 0; i < rounds; ++i) {
      span* const s = any && i % 8 == 0 ? warm_.take_any() : warm_.take(mebibyte);
      if (s == nullptr) continue;
      if (holders[s->start].fetch_add(1) != 0) ++taken_twice;
      holders[s->start].fetch_sub(1);
      EXPECT_TRUE(warm_.put(s));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back(use, t == 0);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(taken_twice, 0);
  EXPECT_EQ(warm_.bytes(), 4 * mib);
  warm_.validate();
}

TEST_F(warm_spans_test, validate_finds_what_is_broken) {
  EXPECT_TRUE(warm_.put(make(mebibyte)));
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
