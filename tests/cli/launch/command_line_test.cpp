// SPDX-License-Identifier: MIT
// How a command line is split into tarn's options and the program with its arguments.
#include <gtest/gtest.h>

#include "../../refusal.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

constexpr exit_meaning some_exits[] = {{0, "done"}, usage_exit, program_exit};
constexpr command_text some_text = {.name = "some",
                                    .summary = "What.",
                                    .usage = "some ...",
                                    .examples = "  an example\n",
                                    .notes = "The end.\n",
                                    .exits = some_exits};

struct some_command : command {
  some_command() : command(some_text) {
    option("-n,--number N", number, "A number");
    option("--kind KIND", kind, "A word", one_of({"red", "green"}));
    option("--part SHARE", part, "A share", number_above_zero());
    option("--size SIZE", size, "A size", byte_size(1024, 1 << 20));
    CLI::Option* const flag = add_flag("--stats", stats, "A flag");
    add_flag("--other", other, "Another flag")->excludes(flag);
    option("word WORD", word, "What it is about")->required();
  }
  int number = 0;
  double part = 1;
  bool stats = false;
  bool other = false;
  std::string kind = "red";
  std::string size = "1K";
  std::string word;
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
  for (const char* part :
       {"Usage: some ...", "-n,--number N", "A number", "The end.", "Exit codes:\n  0      done\n", "  other",
        "Examples:\n  an example\n", "--color WHEN", "-V,--version"})
    EXPECT_NE(help.find(part), std::string::npos) << help;
  EXPECT_EQ(help.find("--stats N"), std::string::npos) << help;
}

TEST(command_line, no_value_is_taken_from_after_the_dashes) {
  const command_line line = split_command_line({"-n", "--", "ls"}, app);
  EXPECT_EQ(line.options, std::vector<std::string>{"-n"});
  EXPECT_EQ(line.program, std::vector<std::string>{"ls"});
}

// How the words are refused, behind the exit code of all such refusals.
std::string refusal_of(const std::vector<std::string>& words) {
  some_command other;
  const std::string refusal = testing_support::refusal_of<cli_error>([&] { parse_options(other, words); });
  EXPECT_TRUE(refusal.starts_with("2 ")) << refusal;
  return refusal.substr(2);
}

TEST(command_line, every_mistake_has_a_message_of_its_own) {
  const std::string see = "See: tarn some --help";
  EXPECT_EQ(refusal_of({"w", "--stat"}),
            "unknown option '--stat' | Did you mean '--stats'? All options: tarn some --help");
  EXPECT_EQ(refusal_of({"w", "-stats"}),
            "unknown option '-stats' | Did you mean '--stats'? All options: tarn some --help");
  EXPECT_EQ(refusal_of({"w", "-x"}), "unknown option '-x' | All options: tarn some --help");
  EXPECT_EQ(refusal_of({"w", "--zzzzzz=3"}), "unknown option '--zzzzzz' | All options: tarn some --help");
  EXPECT_EQ(refusal_of({"w", "--number"}), "--number needs a value | --number N: A number");
  EXPECT_EQ(refusal_of({"w", "-n"}), "-n needs a value | -n N: A number");
  EXPECT_EQ(refusal_of({"w", "--number="}), "--number needs a value | --number N: A number");
  EXPECT_EQ(refusal_of({"w", "--stats=1"}), "--stats takes no value | " + see);
  EXPECT_EQ(refusal_of({"w", "-n", "-3"}),
            "--number: must be a whole number of at least 0, not '-3' | " + see);
  EXPECT_EQ(refusal_of({"w", "-n", "3x"}),
            "--number: must be a whole number of at least 0, not '3x' | " + see);
  EXPECT_EQ(refusal_of({"w", "--part", "0"}), "--part: must be a number above 0, not '0' | " + see);
  EXPECT_EQ(refusal_of({"w", "--part", "nan"}), "--part: must be a number above 0, not 'nan' | " + see);
  EXPECT_EQ(refusal_of({"w", "--size", "2M"}),
            "--size: must be a size from 1 KiB to 1 MiB, not '2M' | " + see);
  EXPECT_EQ(refusal_of({"w", "--size", "much"}),
            "--size: must be a size from 1 KiB to 1 MiB, not 'much' | " + see);
  EXPECT_EQ(refusal_of({"w", "--kind", "gren"}),
            "--kind: must be red or green, not 'gren' | Did you mean 'green'? " + see);
  EXPECT_EQ(refusal_of({"w", "--stats", "--other"}),
            "--stats and --other cannot be used together | Omit one of them.");
  EXPECT_EQ(refusal_of({}), "WORD is missing | Usage: some ...");
  EXPECT_EQ(refusal_of({"w", "more"}), "unexpected word 'more' | Usage: some ...");
}

TEST(command_line, what_is_accepted) {
  some_command other;
  EXPECT_TRUE(parse_options(other, {"-n5", "--kind=green", "w", "--stats", "-n", "7", "--size", "64K"}));
  EXPECT_EQ(other.number, 7) << "the last value counts";
  EXPECT_EQ(other.kind + other.word + other.size, "greenw64K");
  EXPECT_TRUE(other.stats);
}

TEST(command_line, the_definition_is_that_which_parses) {
  std::string names;
  const auto run = [](const std::vector<std::string>& words) {
    some_command one;
    return parse_options(one, words) ? 1 : 0;
  };
  define_command(run, [&names](const command& one) {
    for (const CLI::Option* option : one.get_options()) names += option->get_name() + " ";
    EXPECT_EQ(one.words_of(one.get_option("--kind")), (std::vector<std::string>{"red", "green"}));
  });
  EXPECT_EQ(names, "--help --color --version --number --kind --part --size --stats --other word ");
  EXPECT_EQ(run({"w"}), 1) << "parsed again after the definition was taken";
}

}  // namespace
}  // namespace tarn::cli
