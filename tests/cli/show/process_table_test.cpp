// SPDX-License-Identifier: MIT
// The processes of a tree as tables and as JSON.
#include "cli/show/process_table.hpp"

#include <gtest/gtest.h>

namespace tarn::cli {
namespace {

profiler::process_summary process_of(std::uint32_t pid, const std::string& command, double cost_ns) {
  profiler::process_summary one;
  one.process = pid;
  one.command = command;
  one.allocations = 10;
  one.bytes = 1024;
  one.faults = 2;
  one.cpu_ns = 2 * cost_ns;
  one.charged.malloc_ns = cost_ns;
  return one;
}

TEST(process_table, the_processes_beyond_the_most_are_one_row) {
  profiler::process_summary first = process_of(7, "cc1", 6e6);
  first.arguments = {"cc1", "-O2", "a.c"};
  first.path = "a.prof";
  profiler::process_summary group = process_of(0, "sh", 3e6);
  group.images = 5;
  const std::string text =
      render_processes({first, group, process_of(9, "as", 5e5), process_of(11, "ld", 5e5)}, 2, true, 0);
  EXPECT_EQ(text,
            "  cost  share  CPU time  allocations  faults  pid  command               file\n"
            "  6 ms   30 %     12 ms           10       2    7  cc1 -O2 a.c           a.prof\n"
            "  3 ms   15 %      6 ms           10       2    -  sh (5 processes)      -\n"
            "  1 ms  5.0 %      2 ms           20       4    -  others (2 processes)  -\n");
  EXPECT_EQ(render_processes({first}, 5, false, 20), "  cost  share  CP...\n  6 ms   50 %    ...\n");
}

TEST(process_table, a_long_command_is_cut_before_the_number_of_its_children) {
  profiler::process_summary one = process_of(7, std::string(100, 'x'), 1);
  one.images = 4;
  EXPECT_NE(render_processes({one}, 1, false, 0).find("  " + std::string(27, 'x') + "... + 3 small\n"),
            std::string::npos);
}

TEST(process_table, names_cannot_change_the_terminal) {
  profiler::process_summary one = process_of(7, "a\x1b[2J\nb", 1);
  one.path = "c\x1b[2J";
  EXPECT_EQ(render_processes({one}, 1, true, 0).find('\x1b'), std::string::npos);
  EXPECT_EQ(as_json(one).dump().find("\\u001b"), std::string::npos);
}

TEST(process_table, json_leaves_out_what_is_not_known) {
  const nlohmann::json one = as_json(process_of(0, "sh", 5));
  EXPECT_TRUE(one["pid"].is_null());
  EXPECT_TRUE(one["parent"].is_null());
  EXPECT_TRUE(one["file"].is_null());
  EXPECT_EQ(one["cost_ns"], 5);
}

TEST(process_table, processes_of_a_profile_are_sorted_by_cost) {
  std::vector<profiler::profile> figures(3);
  for (std::size_t index = 0; index < 3; ++index) {
    figures[index].meta = {{"pid", index + 1}, {"command", "p"}};
    figures[index].sites.resize(1);
    figures[index].sites[0].figures.malloc_ns = index == 1 ? 9 : 5;
  }
  figures[2].meta["processes"] = 4;  // those of one name
  const auto all = processes_in(figures);
  EXPECT_EQ(all[0].process, 2U);
  EXPECT_EQ(all[1].process, 1U);
  EXPECT_EQ(all[2].process, 0U) << "several processes have no number";
  EXPECT_EQ(sum_of(all).images, 6);
  EXPECT_EQ(sum_of({}).images, 0);
}

TEST(tree_verdict, says_what_no_process_in_the_table_has_taken) {
  const std::vector<profiler::process_summary> all = {process_of(7, "cc1", 6e6), process_of(8, "as", 4e6)};
  EXPECT_EQ(render_tree(all, 0, 0).substr(0, 143),
            "2 processes: 20 allocations of 2 KiB; memory cost about 10 ms of 20 ms processor time\n"
            "  in malloc and free 10 ms; afterwards in the kernel 0 ns");
  EXPECT_EQ(render_tree(all, 21e6, 0).find("not in the table"), std::string::npos) << "less than 5 %";
  EXPECT_NE(render_tree(all, 30e6, 0).find("of 30 ms processor time\n"), std::string::npos);
  EXPECT_NE(render_tree(all, 30e6, 0).find("\n  not in the table: 10 ms of processor time: "),
            std::string::npos);
}

TEST(tree_verdict, its_json_is_the_sum_and_the_processes) {
  const nlohmann::json tree = tree_as_json({process_of(7, "cc1", 6), process_of(8, "as", 4)});
  EXPECT_EQ(tree["cost_ns"], 10);
  EXPECT_EQ(tree["processes"], 2);
  EXPECT_FALSE(tree.contains("pid"));
  EXPECT_EQ(tree["table"][1]["command"], "as");
}

}  // namespace
}  // namespace tarn::cli
