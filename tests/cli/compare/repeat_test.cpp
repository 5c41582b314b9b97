// SPDX-License-Identifier: MIT
// A program is started again as it was started; what has changed since is refused or told.
#include "cli/compare/repeat.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../../folder_test.hpp"
#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::cli {
namespace {

class repeat_test : public testing_support::folder_test {
 protected:
  void SetUp() override {
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
    std::ofstream(program()) << "#!/bin/sh\n";
    input_ = dup(STDIN_FILENO);
    take_input("/dev/null");
  }
  void TearDown() override {
    input_ >= 0 ? dup2(input_, STDIN_FILENO) : close(STDIN_FILENO);
    if (input_ >= 0) close(input_);
    unsetenv("XDG_STATE_HOME");
    std::filesystem::current_path("/");
    std::filesystem::current_path(before_);
  }

  std::string program() const { return folder_ + "/program"; }
  std::string file() const { return folder_ + "/p.prof"; }
  static void take_input(const std::string& path) {
    const int opened = open(path.c_str(), O_RDONLY);
    ASSERT_GE(opened, 0) << path;
    dup2(opened, STDIN_FILENO);
    close(opened);
  }

  // What the profile of this start refuses; the program has ended as `end` says.
  std::string refusal(const profiler::recorded_command& command, const nlohmann::json& end = {{"status", 0}},
                      const repeat_wishes& wishes = {}) const {
    profiler::table_writer(file()).append(profiler::command_table(command));
    profiler::profile p;
    p.meta = {{"exit", end}};
    return refusal_of(p, wishes);
  }
  std::string refusal_of(const profiler::profile& p, const repeat_wishes& wishes = {}) const {
    try {
      load_repeatable(file(), p, wishes);
    } catch (const cli_error& error) {
      EXPECT_EQ(error.code(), exit_code::refused);
      return error.what();
    }
    return "no error";
  }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  int input_ = -1;
};

TEST_F(repeat_test, describes_the_start) {
  std::ofstream(folder_ + "/in") << "input";
  take_input(folder_ + "/in");
  lseek(STDIN_FILENO, 2, SEEK_SET);
  std::filesystem::current_path(folder_);
  setenv("MALLOC_ARENA_MAX", "1", 1);
  setenv("A_SECRET", "swordfish", 1);
  const profiler::recorded_command command = describe_start("./program", {"program", "-x"});
  unsetenv("MALLOC_ARENA_MAX");
  unsetenv("A_SECRET");
  EXPECT_TRUE(std::filesystem::equivalent(command.path, program()));
  EXPECT_TRUE(command.path.starts_with("/"));
  EXPECT_EQ(command.identity.size, 10U);
  EXPECT_EQ(command.words, (std::vector<std::string>{"program", "-x"}));
  EXPECT_TRUE(std::filesystem::equivalent(command.directory, folder_));
  EXPECT_EQ(command.input, profiler::input_kind::file);
  EXPECT_EQ(command.input_offset, 2U);
  EXPECT_EQ(command.input_identity.size, 5U);
  EXPECT_NE(std::find(command.variables.begin(), command.variables.end(),
                      std::pair<std::string, std::string>("MALLOC_ARENA_MAX", "1")),
            command.variables.end());
  EXPECT_EQ(command.digests.at("A_SECRET"), profiler::digest_of("swordfish"));
  for (const auto& [name, value] : command.variables)
    EXPECT_EQ(value.find("swordfish"), std::string::npos) << name;
}

TEST_F(repeat_test, no_input_and_that_of_a_pipe) {
  EXPECT_EQ(describe_start(program(), {"p"}).input, profiler::input_kind::nothing);
  take_input("/dev/zero");
  EXPECT_EQ(describe_start(program(), {"p"}).input, profiler::input_kind::device);
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  const int both = open((folder_ + "/pipe").c_str(), O_RDWR);
  take_input(folder_ + "/pipe");
  close(both);
  const profiler::recorded_command command = describe_start(program(), {"p"});
  EXPECT_EQ(command.input, profiler::input_kind::pipe);
  EXPECT_EQ(input_refusal(command), "its standard input was a pipe, whose content is not recorded");
  EXPECT_EQ(refusal(command), input_refusal(command));
  EXPECT_EQ(refusal(command, {{"status", 0}}, {"/dev/null", false}), "no error") << "another input is given";
}

TEST_F(repeat_test, the_same_program_is_needed) {
  const profiler::recorded_command command = describe_start(program(), {"p"});
  EXPECT_EQ(refusal(command), "no error");
  std::ofstream(program(), std::ios::app) << "exit 1\n";
  EXPECT_EQ(refusal(command), "the program " + program() + " has changed since it was recorded");
  std::filesystem::remove(program());
  EXPECT_EQ(refusal(command),
            "the program " + program() + " does not exist any more: No such file or directory");
}

TEST_F(repeat_test, the_same_input_is_needed) {
  std::ofstream(folder_ + "/in") << "input";
  take_input(folder_ + "/in");
  const profiler::recorded_command command = describe_start(program(), {"p"});
  EXPECT_EQ(refusal(command), "no error");
  std::ofstream(folder_ + "/in") << "other input";
  EXPECT_EQ(refusal(command),
            "its standard input " + command.input_path + " has changed since it was recorded");
  std::filesystem::remove(folder_ + "/in");
  EXPECT_EQ(refusal(command), "its standard input " + command.input_path +
                                  " does not exist any more: No such file or directory");
}

TEST_F(repeat_test, a_run_that_failed_is_repeated_for_servers_alone) {
  const profiler::recorded_command command = describe_start(program(), {"p"});
  EXPECT_EQ(refusal(command, {{"status", 3}}), "the program ended with status 3 when it was recorded");
  EXPECT_EQ(refusal(command, {{"signal", 15}}), "the program was ended by signal 15 when it was recorded");
  EXPECT_EQ(refusal(command, nlohmann::json::object()),
            "the program ended with status ? when it was recorded");
  EXPECT_TRUE(refusal(command, nullptr).starts_with("the profile does not say how the program ended"));
  EXPECT_EQ(refusal(command, {{"signal", 15}}, {"", true}), "no error");
}

TEST_F(repeat_test, a_command_of_somebody_else_needs_consent) {
  profiler::recorded_command command = describe_start(program(), {"p"});
  EXPECT_EQ(refusal(command), "no error");
  command.seal.clear();
  EXPECT_NE(refusal(command).find("the command in it would run with your rights"), std::string::npos);
  repeat_wishes trusting;
  trusting.trusted = true;
  EXPECT_EQ(refusal(command, {{"status", 0}}, trusting), "no error");
  command.path = "/nowhere";
  EXPECT_NE(refusal(command).find("would run with your rights"), std::string::npos)
      << "before the path is looked at";
}

TEST_F(repeat_test, a_profile_without_a_command) {
  profiler::table_writer(file()).append_json("meta", "{}");
  EXPECT_EQ(refusal_of({}), file() + " does not say how its program was started");
}

TEST_F(repeat_test, restores_the_directory_and_what_allocators_read) {
  setenv("MALLOC_ARENA_MAX", "1", 1);
  setenv("OTHER_ONE", "before", 1);
  std::filesystem::current_path(folder_);
  const profiler::recorded_command command = describe_start(program(), {"p"});
  std::filesystem::current_path("/");
  setenv("MALLOC_ARENA_MAX", "2", 1);
  setenv("MALLOC_CHECK_", "3", 1);
  setenv("OTHER_ONE", "after", 1);
  setenv("TERM", "another", 1);
  std::vector<std::string> notes;
  const run_settings settings = restore_start(command, {}, notes);
  EXPECT_EQ(settings.input, "/dev/null");
  EXPECT_TRUE(std::filesystem::equivalent(".", folder_));
  EXPECT_STREQ(getenv("MALLOC_ARENA_MAX"), "1");
  EXPECT_EQ(getenv("MALLOC_CHECK_"), nullptr);
  EXPECT_STREQ(getenv("OTHER_ONE"), "after");
  unsetenv("MALLOC_ARENA_MAX");
  unsetenv("OTHER_ONE");
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(
      notes[0],
      "these environment variables have changed since the recording; the program runs with their present values: "
      "OTHER_ONE");
  profiler::recorded_command gone = command;
  gone.directory = "/nowhere";
  EXPECT_TRUE(
      testing_support::refusal_of<cli_error>([&] {
        restore_start(gone, {}, notes);
      }).starts_with("125 its working directory /nowhere cannot be entered: No such file or directory |"));
}

TEST_F(repeat_test, the_input_is_that_of_the_recording_or_the_given_one) {
  profiler::recorded_command command = describe_start(program(), {"p"});
  command.input = profiler::input_kind::file;
  command.input_path = "/in";
  command.input_offset = 5;
  std::vector<std::string> notes;
  EXPECT_EQ(restore_start(command, {}, notes).input, "/in");
  EXPECT_EQ(restore_start(command, {}, notes).input_offset, 5);
  std::filesystem::current_path("/");
  command.directory = folder_;
  EXPECT_EQ(restore_start(command, {"other", false}, notes).input, "/other")
      << "relative to where tarn was started";
}

}  // namespace
}  // namespace tarn::cli
