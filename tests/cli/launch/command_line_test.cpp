// SPDX-License-Identifier: MIT
// How a command line is split into tarn's options and the program with its arguments.
#include <gtest/gtest.h>

#include "cli/launch/command_line.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

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

TEST(command_line, no_value_is_taken_from_after_the_dashes) {
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
