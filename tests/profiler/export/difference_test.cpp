// SPDX-License-Identifier: MIT
#include "profiler/export/difference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

TEST(difference, of_a_profile_and_itself_is_nothing) {
  const profile p = synthetic_profile();
  const difference changes = difference::between(p, p);
  for (const change& total : changes.totals) EXPECT_EQ(total.amount(), 0);
  for (const site_change& one : changes.sites) {
    for (const change& value : one.values) EXPECT_EQ(value.amount(), 0);
  }
  EXPECT_TRUE(exceeded(changes, change_limit::parse("site.cost>0%")).empty());
}

TEST(difference, lines_and_addresses_do_not_matter) {
  profile before = synthetic_profile(), after = before;
  for (stack_node& node : after.stacks) node.address += node.address == 0 ? 0 : 0x100000;
  after.symbols.clear();
  for (const auto& [address, frames] : before.symbols) {
    auto moved = frames;
    for (source_frame& frame : moved) frame.line += 7;
    after.symbols[address + 0x100000] = moved;
  }
  // Those without a symbol have moved.
  double moved = 0;
  for (const site_change& one : difference::between(before, after).sites)
    moved += std::abs(one.values[0].amount());
  EXPECT_LT(moved, 0.2 * cost_of_all(before).total());
}

TEST(difference, a_site_that_is_new_or_gone) {
  profile before = synthetic_profile(), after = before;
  after.sites.erase(after.sites.begin());
  difference changes = difference::between(before, after);
  EXPECT_EQ(exceeded(changes, change_limit::parse("site.cost<-99%")).size(), 1U);
  EXPECT_EQ(exceeded(changes, change_limit::parse("cost<-10%")).size(), 1U);
  EXPECT_TRUE(exceeded(changes, change_limit::parse("cost>-90%")).size() == 1U);
  changes = difference::between(after, before);
  const auto sentences = exceeded(changes, change_limit::parse("site.bytes>+20%"));
  ASSERT_EQ(sentences.size(), 1U);
  EXPECT_NE(sentences[0].find("is new"), std::string::npos);
}

TEST(difference, limits_in_units) {
  profile before, after;
  before.sites.resize(1);
  after.sites.resize(1);
  before.sites[0].figures.bytes = 100 << 20;
  after.sites[0].figures.bytes = 164 << 20;
  after.sites[0].figures.malloc_ns = 3e6;
  const difference changes = difference::between(before, after);
  const auto holds = [&changes](const char* text) {
    return !exceeded(changes, change_limit::parse(text)).empty();
  };
  EXPECT_TRUE(holds("bytes>+63M"));
  EXPECT_FALSE(holds("bytes>+64M"));
  EXPECT_FALSE(holds("bytes > 0.0625G"));
  EXPECT_TRUE(holds("bytes>60%"));
  EXPECT_FALSE(holds("bytes>64%"));
  EXPECT_TRUE(holds("cost>2.9ms"));
  EXPECT_FALSE(holds("cost>3000us"));
  EXPECT_TRUE(holds("cost>1000%"));  // there was none before
  EXPECT_FALSE(holds("peak>0%"));
}

TEST(difference, limits_that_are_none) {
  for (const char* text :
       {"", "cost", ">5%", "cost>", "cost>%", "cost>5%%", "cost>5x", "cost>inf", "cost>nan", "cost>1e999",
        "site.>5%", "sites.cost>5%", "cost=5%", "cost>>5%", "bytes>5s", "faults>5K"}) {
    EXPECT_THROW(change_limit::parse(text), std::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace tarn::profiler
