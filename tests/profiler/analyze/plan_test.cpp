// SPDX-License-Identifier: MIT
// Plans for `tarn run --plan`: which frames identify a site, writing and reading, errors in plan files.
#include "profiler/analyze/plan.hpp"

#include <gtest/gtest.h>

#include <string>

#include "../../refusal.hpp"
#include "profiler/format/table_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

// Two sites that call malloc through the same wrapper, from two callers.
profile two_callers() {
  profile p;
  p.meta = {{"program", "/bin/p"}};
  p.modules = {{"/bin/p", "abcd01", 0x400000, 0x500000, 0x1000}, {"/lib/l.so", "", 0x700000, 0x800000, 0}};
  p.stacks = {{0, 0}, {0, 0x400100}, {0, 0x400200}, {1, 0x700010}, {2, 0x700010}};
  for (const std::uint32_t stack : {3U, 4U}) {
    site one{.stack = stack, .sizes = {{64, 1000, true}}};
    one.figures.allocations = 1000;
    p.sites.push_back(one);
  }
  return p;
}

advice pool_for(std::vector<std::uint32_t> sites) {
  advice one{.kind = advice_kind::typed_pool, .sites = std::move(sites), .headline = "pool"};
  one.site = one.sites.front();
  return one;
}

TEST(plan, has_the_fewest_frames_that_distinguish_the_site) {
  const profile p = two_callers();
  const plan one = plan_of(p, {pool_for({0})});
  ASSERT_EQ(one.sites.size(), 1U);
  ASSERT_EQ(one.sites[0].frames.size(), 2U);
  EXPECT_EQ(one.sites[0].frames[0].module, "/lib/l.so");
  EXPECT_EQ(one.sites[0].frames[0].offset, 0x10U);
  EXPECT_EQ(one.sites[0].frames[1].build_id, "abcd01");
  EXPECT_EQ(one.sites[0].frames[1].offset, 0x1100U);
  const plan both = plan_of(p, {pool_for({0, 1})});
  ASSERT_EQ(both.sites.size(), 1U);  // the frame that they share names both
  EXPECT_EQ(both.sites[0].frames.size(), 1U);
}

TEST(plan, variables_and_pools_do_not_mix) {
  advice tunable;
  tunable.kind = advice_kind::tunable;
  tunable.headline = "tunable";
  tunable.variables = {{"GLIBC_TUNABLES", "x"}};
  const plan first = plan_of(two_callers(), {tunable, pool_for({0})});
  EXPECT_EQ(first.variables.size(), 1U);
  EXPECT_TRUE(first.sites.empty());
  const plan chosen = plan_of(two_callers(), {tunable, pool_for({0})}, 1);
  EXPECT_TRUE(chosen.variables.empty());
  EXPECT_EQ(chosen.sites.size(), 1U);
  EXPECT_TRUE(chosen.on_tarn);
}

TEST(plan, comes_back_as_it_was_written) {
  const profile p = synthetic_profile();
  const std::vector<advice> all = advise(p, {0.0001, 50});
  for (int number = -1; number < static_cast<int>(all.size()); ++number) {
    const plan one = plan_of(p, all, number);
    const plan back = read_plan(write_plan(one), "plan.json");
    EXPECT_EQ(write_plan(back), write_plan(one));
    EXPECT_EQ(back.sites.size(), one.sites.size());
  }
}

TEST(plan, says_what_is_wrong_with_a_file) {
  const auto problem = [](const std::string& text) {
    return testing_support::refusal_of<profile_error>([&] { read_plan(text, "plan.json"); });
  };
  EXPECT_NE(problem("").find("not JSON"), std::string::npos);
  EXPECT_NE(problem("{}").find("not a plan"), std::string::npos);
  EXPECT_NE(problem("[1]").find("not a plan"), std::string::npos);
  EXPECT_NE(problem(R"({"tarn_plan": 2})").find("another version"), std::string::npos);
  EXPECT_NE(problem(R"({"tarn_plan": 1, "sites": [{"use": "magic", "frames": []}]})").find("'magic'"),
            std::string::npos);
  EXPECT_NE(problem(R"({"tarn_plan": 1, "sites": [{"use": "pool", "size": 0, "frames": []}]})").find("size"),
            std::string::npos);
  EXPECT_NE(
      problem(R"({"tarn_plan": 1, "sites": [{"use": "pool", "size": 8, "frames": []}]})").find("frames"),
      std::string::npos);
  EXPECT_NE(
      problem(
          R"({"tarn_plan": 1, "sites": [{"use": "pool", "size": 8, "frames": [{"module": "a", "offset": "x y"}]}]})")
          .find("not an offset"),
      std::string::npos);
  EXPECT_NE(problem(R"({"tarn_plan": 1, "sites": 7})").find("plan.json"), std::string::npos);
  EXPECT_NE(problem(R"({"tarn_plan": 1, "variables": {"A=B": "c"}})").find("variable"), std::string::npos);
}

}  // namespace
}  // namespace tarn::profiler
