// SPDX-License-Identifier: MIT
// The copy of a profile that is still being written: its name, and what it never overwrites.
#include "cli/recording/profile_copy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "profiler/model/store_profile.hpp"

namespace tarn::cli {
namespace {

class profile_copy_test : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(mkdtemp(folder_.data()), nullptr);
    std::filesystem::current_path(folder_);
    profiler::profile p;
    p.meta = {{"program", "/bin/p"}};
    profiler::table_writer out("run.prof");
    profiler::store_profile(out, p);
  }
  void TearDown() override {
    std::filesystem::current_path(before_);
    std::filesystem::remove_all(folder_);
  }
  static std::string program_in(const std::string& path) {
    return profiler::load_profile(path).meta["program"];
  }

 private:
  std::filesystem::path before_ = std::filesystem::current_path();
  std::string folder_ = (std::filesystem::temp_directory_path() / "tarn-test-XXXXXX").string();
};

TEST_F(profile_copy_test, gets_the_next_free_name_in_the_present_folder) {
  std::ofstream("run-dump-1.prof") << "what was there before";
  EXPECT_EQ(copy_profile(std::filesystem::absolute("run.prof").string(), ""), "run-dump-2.prof");
  EXPECT_EQ(program_in("run-dump-2.prof"), "/bin/p");
  EXPECT_EQ(std::filesystem::file_size("run-dump-1.prof"), 21U);
}

TEST_F(profile_copy_test, a_given_name_is_taken) {
  std::ofstream("mine") << "what was there before";
  EXPECT_EQ(copy_profile("run.prof", "mine"), "mine");
  EXPECT_EQ(program_in("mine"), "/bin/p");
}

TEST_F(profile_copy_test, a_profile_is_not_overwritten_by_its_copy) {
  const auto size = std::filesystem::file_size("run.prof");
  std::filesystem::create_symlink("run.prof", "link");
  for (const char* same : {"run.prof", "./run.prof", "link"}) {
    try {
      copy_profile("run.prof", same);
      ADD_FAILURE() << same;
    } catch (const profiler::profile_error& error) {
      EXPECT_EQ(std::string(error.what()),
                std::string(same) + " is the file of the recording itself; name another file: -o FILE");
    }
    EXPECT_EQ(std::filesystem::file_size("run.prof"), size);
  }
}

TEST_F(profile_copy_test, a_profile_that_is_gone_is_named) {
  EXPECT_THROW(copy_profile("gone.prof", "copy"), profiler::profile_error);
}

}  // namespace
}  // namespace tarn::cli
