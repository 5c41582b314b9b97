// SPDX-License-Identifier: MIT
#include "profiler/collect/fresh_pages.hpp"

#include <gtest/gtest.h>

namespace {

using namespace tarn::profiler;

constexpr std::uint64_t page = 0x10000;
constexpr std::uint64_t next = page + fresh_pages::page_bytes;

TEST(fresh_pages, a_page_is_fresh_until_its_successor_is_given) {
  fresh_pages pages;
  EXPECT_EQ(pages.weight_at(page, 5), 0);
  pages.given(page + 100, 10, 3);
  EXPECT_EQ(pages.weight_at(page, 11), 3);
  EXPECT_EQ(pages.weight_at(page, 1'000'000), 3) << "nothing is known yet of how long pages last";
  pages.given(next, 110, 1);
  EXPECT_EQ(pages.weight_at(page, 109), 3) << "a call that had begun before";
  EXPECT_EQ(pages.weight_at(page, 111), 0);
  EXPECT_EQ(pages.weight_at(next, 111), 1);
}

TEST(fresh_pages, without_a_successor_it_is_used_up_after_a_while) {
  fresh_pages pages;
  pages.given(page, 0, 1);
  pages.given(next, 100, 1);
  EXPECT_EQ(pages.weight_at(next, 100 + 799), 1);
  EXPECT_EQ(pages.weight_at(next, 100 + 801), 0);
}

TEST(fresh_pages, a_page_that_is_given_again_is_fresh_again) {
  fresh_pages pages;
  pages.given(page, 0, 1);
  pages.given(next, 100, 1);
  pages.given(page, 200, 1);
  EXPECT_EQ(pages.weight_at(page, 210), 1);
}

}  // namespace
