// SPDX-License-Identifier: MIT
// How a command line is split into tarn's options and the program with its arguments.
#include <gtest/gtest.h>

#include "cli/launch/command_line.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

struct some_command : command {
  some_command() : command("some", "What.", "some ...", "The end.") {
    option("-n,--number N", number, "A number");
    add_flag("--stats", stats, "A flag");
  }
  int number = 0;
  bool stats = false;
};
const some_command app;

TEST(command_line, splits_at_the_dashes_or_the_first_plain_word) {
  const command_line dashed = split_command_line({"-n", "5", "--", "ls", "-l", "--"}, app);
  EXPECT_EQ(dashed.options, (std::vector<std::string>{"-n", "5"}));
  EXPECT_EQ(dashed.program, (std::vector<std::string>{"ls", "-l", "--"}));
  const command_line plain = split_command_line({"--stats", "ls", "--stats"}, app);
  EXPECT_EQ(plain.options, std::vector<std::string>{"--stats"});
  EXPECT_EQ(plain.program, (std::vector<std::string>{"ls", "--stats"}));
}

TEST(command_line, the_help_has_the_usage_the_values_and_the_end) {
  const std::string help = app.help();
  for (const char* part : {"Usage: some ...", "-n,--number N", "A number", "The end."})
    EXPECT_NE(help.find(part), std::string::npos) << help;
  EXPECT_EQ(help.find("--stats N"), std::string::npos) << help;
}

TEST(command_line, with_takes_several) {
  const command_line line = split_command_line({"--with", "a=/a.so", "b=/b.so", "prog", "x=y"}, app);
  EXPECT_EQ(line.options, (std::vector<std::string>{"--with", "a=/a.so", "b=/b.so"}));
  EXPECT_EQ(line.program, (std::vector<std::string>{"prog", "x=y"}));
}

TEST(command_line, no_value_is_taken_from_after_the_dashes) {
  const command_line line = split_command_line({"-n", "--", "ls"}, app);
  EXPECT_EQ(line.options, std::vector<std::string>{"-n"});
  EXPECT_EQ(line.program, std::vector<std::string>{"ls"});
}

TEST(command_line, unknown_options_are_errors_with_advice) {
  some_command other;
  try {
    parse_options(other, {"--stat"}, exit_code::usage);
    FAIL() << "accepted";
  } catch (const cli_error& error) {
    EXPECT_EQ(error.code(), exit_code::usage);
    EXPECT_NE(error.advice().find("--stats"), std::string::npos);
  }
}

}  // namespace
}  // namespace tarn::cli
