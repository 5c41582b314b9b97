// SPDX-License-Identifier: MIT
// A plan as the preloaded library reads it, and what the library reports.
#include "cli/compare/applied_plan.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../../folder_test.hpp"
#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

// A folder that stands for one with libtarn and the library of plans.
class applied_plan_test : public testing_support::folder_test {
 protected:
  void SetUp() override {
    for (const char* name : {"libtarn.so", "libtarn_apply.so"})
      std::filesystem::copy_file("/proc/self/exe", folder_ + "/" + name);
    setenv("TARN_LIBRARY", (folder_ + "/libtarn.so").c_str(), 1);
  }
  void TearDown() override { unsetenv("TARN_LIBRARY"); }
};

std::string variable_of(const contender& who, const std::string& name) {
  for (const auto& [each, value] : who.variables) {
    if (each == name) return value;
  }
  return {};
}

profiler::plan plan_with(std::size_t groups) {
  profiler::plan plan;
  for (std::size_t group = 0; group < groups; ++group) {
    plan.sites.push_back({.size = 64,
                          .group = static_cast<std::uint32_t>(1000 + group),
                          .frames = {{"/bin/p", "ab12", 0x4f}, {"/opt/a:b", "", 0x1000}}});
  }
  return plan;
}

TEST_F(applied_plan_test, sites_are_lines_of_their_groups) {
  profiler::plan plan = plan_with(2);
  plan.sites[1].use = profiler::plan_use::buffers;
  plan.sites[1].size = 0;
  plan.sites.push_back(plan.sites[0]);
  plan.variables = {{"NAME", "value"}};
  const applied_plan applied(plan);
  const contender who = applied.as_contender("pools");
  EXPECT_EQ(who.name, "pools");
  EXPECT_EQ(std::filesystem::path(who.library).filename(), "libtarn_apply.so");
  EXPECT_EQ(variable_of(who, "NAME"), "value");
  std::ifstream in(variable_of(who, "TARN_APPLY"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}),
            "pool 0 64 bab12:4f n613a62:1000\n"
            "buffers 1 0 bab12:4f n613a62:1000\n"
            "pool 0 64 bab12:4f n613a62:1000\n");
  applied.remove_files();
  EXPECT_FALSE(std::filesystem::exists(variable_of(who, "TARN_APPLY")));
}

TEST_F(applied_plan_test, there_are_32_groups_at_most) {
  EXPECT_NO_THROW(applied_plan(plan_with(32)));
  EXPECT_TRUE(testing_support::refusal_of<cli_error>([] {
                applied_plan(plan_with(33));
              }).starts_with("125 the plan has more than 32 groups of sites |"));
}

TEST_F(applied_plan_test, reports_of_several_processes_are_one) {
  const profiler::plan plan = plan_with(1);
  const applied_plan applied(plan);
  EXPECT_EQ(applied.report().processes, 0);
  std::ofstream(variable_of(applied.as_contender(""), "TARN_APPLY_REPORT"))
      << "sites 1 3\ngroup 0 10\ngroup 1 5\nsites 2 3\ngroup 0 7\n";
  const site_report report = applied.report();
  EXPECT_EQ(report.processes, 2);
  EXPECT_EQ(report.found, 2);
  EXPECT_EQ(report.all, 3);
  EXPECT_EQ(report.blocks, (std::map<std::size_t, double>{{0, 17}, {1, 5}}));
}

// The program may write to the file, too.
TEST_F(applied_plan_test, a_report_of_groups_that_cannot_be_is_left_out) {
  const profiler::plan plan = plan_with(1);
  const applied_plan applied(plan);
  std::ofstream(variable_of(applied.as_contender(""), "TARN_APPLY_REPORT"))
      << "group 31 1\ngroup 32 1\ngroup -1 1\ngroup 1e300 1\ngroup nonsense\ngroup 0 1\n";
  EXPECT_EQ(applied.report().blocks, (std::map<std::size_t, double>{{31, 1}}));
}

TEST_F(applied_plan_test, a_plan_without_sites_needs_no_layer) {
  profiler::plan plan;
  EXPECT_EQ(applied_plan(plan).as_contender("").library, "");
  EXPECT_EQ(std::filesystem::path(applied_plan(plan, true).as_contender("").library).filename(),
            "libtarn_apply.so");
  plan.on_tarn = true;
  EXPECT_EQ(std::filesystem::path(applied_plan(plan).as_contender("").library).filename(), "libtarn.so");
}

TEST_F(applied_plan_test, the_folder_tarn_below_serves_too) {
  std::filesystem::create_directory(folder_ + "/tarn");
  std::filesystem::rename(folder_ + "/libtarn_apply.so", folder_ + "/tarn/libtarn_apply.so");
  const profiler::plan plan = plan_with(1);
  EXPECT_EQ(applied_plan(plan).as_contender("").library, folder_ + "/tarn/libtarn_apply.so");
}

TEST_F(applied_plan_test, both_libraries_lie_in_one_folder) {
  std::filesystem::remove(folder_ + "/libtarn_apply.so");
  const profiler::plan plan = plan_with(1);
  EXPECT_TRUE(testing_support::refusal_of<cli_error>([&] {
                applied_plan(plan).as_contender("");
              }).starts_with("125 libtarn_apply.so is not in the folder of " + folder_ + "/libtarn.so |"));
}

}  // namespace
}  // namespace tarn::cli
