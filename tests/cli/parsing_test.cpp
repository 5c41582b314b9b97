// SPDX-License-Identifier: MIT
// What the command reads from others: the loader's trace, the library's report, its own arguments.
#include <gtest/gtest.h>

#include "cli_error.hpp"
#include "command_line.hpp"
#include "exit_statistics.hpp"
#include "preload_check.hpp"

namespace tarn::cli {
namespace {

TEST(loader_trace, objects_in_order_and_missing_ones) {
  const loader_trace trace = parse_loader_trace(
      "\tlinux-vdso.so.1 (0x00007ffd1e5f2000)\n"
      "\t/opt/lib/libtarn.so.1 (0x00007f0000000000)\n"
      "\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f0000001000)\n"
      "\tlibgone.so.3 => not found\n"
      "\t/lib64/ld-linux-x86-64.so.2 (0x00007f0000002000)\n",
      "");
  EXPECT_EQ(trace.objects,
            (std::vector<std::string>{"/opt/lib/libtarn.so.1", "/lib/x86_64-linux-gnu/libm.so.6",
                                      "/lib64/ld-linux-x86-64.so.2"}));
  EXPECT_EQ(trace.missing, std::vector<std::string>{"libgone.so.3"});
}

TEST(loader_trace, paths_with_blanks_and_nonsense) {
  const loader_trace trace =
      parse_loader_trace("\tlibx.so => /my libs/libx.so (0x00007f00)\n\n \ngarbage\n", "oops");
  EXPECT_EQ(trace.objects, std::vector<std::string>{"/my libs/libx.so"});
  EXPECT_EQ(trace.complaints, "oops");
  EXPECT_TRUE(is_system_libc("/lib/libc.so.6"));
  EXPECT_FALSE(is_system_libc("/lib/libjemalloc.so.2"));
}

TEST(exit_statistics, sums_over_processes_and_counts_damage) {
  const exit_statistics sums = parse_exit_statistics(
      "{\"returned\": 4096, \"pid\": 1}\n"
      "{\"returned\": 8192, \"pid\": 2}\n"
      "{\"returned\": \"many\"}\n"
      "{\"pid\": 3}\n"
      "{\"retur");
  EXPECT_EQ(sums.processes, 2U);
  EXPECT_EQ(sums.returned, 12288U);
  EXPECT_EQ(sums.damaged_lines, 3U);
  EXPECT_EQ(parse_exit_statistics("").processes, 0U);
  EXPECT_EQ(read_exit_statistics("/nonexistent").processes, 0U);
}

TEST(command_line, splits_at_the_dashes_or_the_first_plain_word) {
  const command_line dashed = split_command_line({"-n", "5", "--", "ls", "-l", "--"}, {"-n"});
  EXPECT_EQ(dashed.options, (std::vector<std::string>{"-n", "5"}));
  EXPECT_EQ(dashed.program, (std::vector<std::string>{"ls", "-l", "--"}));
  const command_line plain = split_command_line({"--stats", "ls", "--stats"}, {});
  EXPECT_EQ(plain.options, std::vector<std::string>{"--stats"});
  EXPECT_EQ(plain.program, (std::vector<std::string>{"ls", "--stats"}));
}

TEST(command_line, with_takes_several) {
  const command_line line = split_command_line({"--with", "a=/a.so", "b=/b.so", "prog", "x=y"}, {});
  EXPECT_EQ(line.options, (std::vector<std::string>{"--with", "a=/a.so", "b=/b.so"}));
  EXPECT_EQ(line.program, (std::vector<std::string>{"prog", "x=y"}));
}

TEST(command_line, a_value_is_not_taken_from_behind_the_dashes) {
  const command_line line = split_command_line({"-n", "--", "ls"}, {"-n"});
  EXPECT_EQ(line.options, std::vector<std::string>{"-n"});
  EXPECT_EQ(line.program, std::vector<std::string>{"ls"});
}

TEST(command_line, unknown_options_are_errors_with_advice) {
  CLI::App app{"", "run"};
  bool statistics = false;
  app.add_flag("--stats", statistics);
  try {
    parse_options(app, {"--stat"}, exit_code::usage);
    FAIL() << "accepted";
  } catch (const cli_error& error) {
    EXPECT_EQ(error.code(), exit_code::usage);
    EXPECT_NE(error.advice().find("--stats"), std::string::npos);
  }
}

}  // namespace
}  // namespace tarn::cli
