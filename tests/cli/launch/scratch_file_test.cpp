// SPDX-License-Identifier: MIT
// Temporary files: where they are, how long they stay, and what is said when there is no room.
#include "cli/launch/scratch_file.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

class scratch_file_test : public testing::Test {
 protected:
  void SetUp() override { unsetenv("TMPDIR"); }
  void TearDown() override { before_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", before_.c_str(), 1); }

 private:
  std::string before_ = getenv("TMPDIR") == nullptr ? "" : getenv("TMPDIR");
};

constexpr const char* advice = " | Make room there, or set TMPDIR to a folder that you may write to.";

std::string file_refusal(const std::string& text) {
  return testing_support::refusal_of<cli_error>([&] { scratch_file{text}; });
}

TEST_F(scratch_file_test, has_its_text_as_long_as_its_object_lives) {
  std::string path;
  {
    const scratch_file file("two\nlines");
    path = file.path();
    EXPECT_TRUE(path.starts_with("/tmp/tarn-"));
    std::ifstream in(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "two\nlines");
    const auto rights = std::filesystem::status(path).permissions();
    EXPECT_EQ(rights, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(scratch_file_test, tmpdir_counts_if_it_is_a_whole_path) {
  setenv("TMPDIR", "/dev/shm", 1);
  EXPECT_TRUE(scratch_file("").path().starts_with("/dev/shm/tarn-"));
  for (const char* relative : {"", "here", "./here"}) {
    setenv("TMPDIR", relative, 1);
    EXPECT_TRUE(scratch_file("").path().starts_with("/tmp/tarn-")) << relative;
  }
}

TEST_F(scratch_file_test, a_folder_that_is_not_there_is_named) {
  setenv("TMPDIR", "/nowhere/at/all", 1);
  const std::string refusal = file_refusal("text");
  EXPECT_TRUE(refusal.starts_with("125 cannot make /nowhere/at/all/tarn-")) << refusal;
  EXPECT_TRUE(refusal.ends_with(std::string(": No such file or directory") + advice)) << refusal;
}

// A limit of the file size stands for a full disk: a part of the text is written, and no error number is set.
TEST_F(scratch_file_test, a_file_that_is_cut_off_is_removed) {
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 10;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  errno = 0;
  const std::string refusal = file_refusal("more than ten bytes");
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_TRUE(refusal.ends_with(std::string(": No space left on device") + advice)) << refusal;
  const std::string path = refusal.substr(16, refusal.find(':') - 16);
  EXPECT_FALSE(std::filesystem::exists(path)) << path;
}

}  // namespace
}  // namespace tarn::cli
