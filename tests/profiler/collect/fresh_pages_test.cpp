// SPDX-License-Identifier: MIT
// Until when a page counts as fresh after its fault.
#include "profiler/collect/fresh_pages.hpp"

#include <gtest/gtest.h>

namespace {

using namespace tarn::profiler;

constexpr std::uint64_t page = 0x10000;
constexpr std::uint64_t next = page + fresh_pages::page_bytes;

TEST(fresh_pages, a_page_is_fresh_until_its_successor_is_given) {
  fresh_pages pages;
  EXPECT_FALSE(pages.is_fresh(page, 5));
  pages.given(page + 100, 10, 1);
  EXPECT_TRUE(pages.is_fresh(page, 11));
  EXPECT_TRUE(pages.is_fresh(page, 1'000'000)) << "it is not known yet how long a page lasts";
  pages.given(next, 110, 1);
  EXPECT_TRUE(pages.is_fresh(page, 109)) << "a call that began before the successor was given";
  EXPECT_FALSE(pages.is_fresh(page, 111));
  EXPECT_TRUE(pages.is_fresh(next, 111));
}

TEST(fresh_pages, without_a_successor_a_page_is_used_up_after_eight_times_the_usual) {
  fresh_pages pages;
  pages.given(page, 0, 1);
  pages.given(next, 100, 1);
  EXPECT_TRUE(pages.is_fresh(next, 100 + 799));
  EXPECT_FALSE(pages.is_fresh(next, 100 + 801));
}

TEST(fresh_pages, a_page_that_is_given_again_is_fresh_again) {
  fresh_pages pages;
  pages.given(page, 0, 1);
  pages.given(next, 100, 1);
  pages.given(page, 200, 1);
  EXPECT_TRUE(pages.is_fresh(page, 210));
}

TEST(fresh_pages, the_first_sampled_block_uses_a_page_up) {
  fresh_pages pages;
  pages.given(page, 0, 1);
  pages.use_up(page);
  EXPECT_FALSE(pages.is_fresh(page, 1));
  pages.use_up(next);  // was never given: no effect
  pages.given(page, 10, 1);
  EXPECT_TRUE(pages.is_fresh(page, 11));
}

TEST(fresh_pages, a_fault_that_stands_for_four_gives_four_pages) {
  fresh_pages pages;
  pages.given(page, 10, 4);
  EXPECT_TRUE(pages.is_fresh(page + 3 * fresh_pages::page_bytes, 11));
  EXPECT_FALSE(pages.is_fresh(page + 4 * fresh_pages::page_bytes, 11));
  EXPECT_FALSE(pages.is_fresh(page - fresh_pages::page_bytes, 11));
}

}  // namespace
