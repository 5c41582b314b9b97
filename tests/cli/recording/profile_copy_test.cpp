// SPDX-License-Identifier: MIT
// The copy of a profile that is still being written: its name, and what it never overwrites.
#include "cli/recording/profile_copy.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../../folder_test.hpp"
#include "../../refusal.hpp"
#include "cli/compare/own_command.hpp"
#include "cli/launch/scratch_file.hpp"
#include "profiler/model/recorded_command.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::cli {
namespace {

class profile_copy_test : public testing_support::folder_test {
 protected:
  void SetUp() override {
    std::filesystem::current_path(folder_);
    profiler::profile p;
    p.meta = {{"program", "/bin/p"}};
    profiler::table_writer out("run.prof");
    profiler::store_profile(out, p);
  }
  void TearDown() override { std::filesystem::current_path(before_); }
  static std::string program_in(const std::string& path) {
    return profiler::load_profile(path).meta["program"];
  }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
};

// As `tarn attach --dump` gets it: open.
std::string copy_of(const std::string& path, const std::string& to) {
  const open_file file(open(path.c_str(), O_RDONLY | O_NONBLOCK));
  return copy_profile(file.number(), 7, to, {getpid(), getuid(), getgid()});
}

std::string refusal(const std::string& path, const std::string& to) {
  return testing_support::refusal_of<profiler::profile_error>([&] { copy_of(path, to); });
}

TEST_F(profile_copy_test, gets_the_next_free_name_in_the_present_folder) {
  std::ofstream("tarn-7-dump-1.prof") << "what was there before";
  EXPECT_EQ(copy_of("run.prof", ""), "tarn-7-dump-2.prof");
  EXPECT_EQ(program_in("tarn-7-dump-2.prof"), "/bin/p");
  EXPECT_EQ(std::filesystem::file_size("tarn-7-dump-1.prof"), 21U);
}

TEST_F(profile_copy_test, does_not_follow_a_link_at_its_new_name) {
  std::filesystem::create_symlink("elsewhere", "tarn-7-dump-1.prof");
  EXPECT_EQ(copy_of("run.prof", ""), "tarn-7-dump-2.prof");
  EXPECT_FALSE(std::filesystem::exists("elsewhere"));
}

TEST_F(profile_copy_test, a_given_name_is_taken) {
  std::ofstream("mine") << "what was there before";
  EXPECT_EQ(copy_of("run.prof", "mine"), "mine");
  EXPECT_EQ(program_in("mine"), "/bin/p");
}

TEST_F(profile_copy_test, a_profile_is_not_overwritten_by_its_copy) {
  const auto size = std::filesystem::file_size("run.prof");
  std::filesystem::create_symlink("run.prof", "link");
  for (const char* same : {"run.prof", "./run.prof", "link"}) {
    EXPECT_EQ(refusal("run.prof", same),
              std::string(same) + " is the file of the recording itself; name another file: -o FILE");
    EXPECT_EQ(std::filesystem::file_size("run.prof"), size);
  }
}

TEST_F(profile_copy_test, a_file_that_is_no_profile_is_not_copied) {
  std::ofstream("text") << "no profile";
  ASSERT_EQ(mkfifo("pipe", 0600), 0);
  std::filesystem::create_directory("folder");
  for (const char* const each : {"text", "pipe", "folder", "/dev/null", "/dev/zero", "gone"}) {
    EXPECT_NE(refusal(each, ""), "no error") << each;
    EXPECT_NE(refusal(each, "named"), "no error") << each;
  }
  EXPECT_FALSE(std::filesystem::exists("tarn-7-dump-1.prof"));
  EXPECT_FALSE(std::filesystem::exists("named"));
}

TEST_F(profile_copy_test, a_damaged_profile_is_not_copied_in_part) {
  const auto middle = std::filesystem::file_size("run.prof");
  profiler::table_writer("run.prof", profiler::table_writer::start::go_on).append_json("more", "{}");
  std::fstream file("run.prof", std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(middle) - 1);
  file.put('\xff');
  file.close();
  EXPECT_NE(refusal("run.prof", "").find("is damaged after "), std::string::npos) << refusal("run.prof", "");
  EXPECT_FALSE(std::filesystem::exists("tarn-7-dump-1.prof"));
}

// What root's tarn copies of another user's profile belongs to root: it must not carry that user's command.
TEST_F(profile_copy_test, a_command_is_copied_only_if_this_user_has_recorded_it) {
  setenv("XDG_STATE_HOME", std::filesystem::current_path().c_str(), 1);
  profiler::recorded_command command{.path = "/bin/sh", .words = {"sh"}, .directory = "/"};
  for (const std::string& seal : {std::string(), std::string(32, '0'), seal_of(command)}) {
    command.seal = seal;
    profiler::table_writer("run.prof", profiler::table_writer::start::go_on)
        .append(profiler::command_table(command));
    std::filesystem::remove("copy");
    EXPECT_EQ(profiler::load_command(copy_of("run.prof", "copy")).has_value(), is_own(command)) << seal;
    EXPECT_EQ(program_in("copy"), "/bin/p");
  }
  unsetenv("XDG_STATE_HOME");
}

}  // namespace
}  // namespace tarn::cli
