// SPDX-License-Identifier: MIT
// A command is its user's own by a key, not by the owner of the file that it stands in.
#include "cli/compare/own_command.hpp"

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

class own_command_test : public testing_support::folder_test {
 protected:
  void SetUp() override {
    if (const char* const named = std::getenv("XDG_STATE_HOME")) before_ = named;
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);
    command_.path = "/bin/true";
    command_.words = {"true", "a"};
    command_.directory = "/";
  }
  void TearDown() override {
    before_.empty() ? unsetenv("XDG_STATE_HOME") : setenv("XDG_STATE_HOME", before_.c_str(), 1);
  }
  std::string key() const { return folder_ + "/tarn/key"; }

  profiler::recorded_command command_;

 private:
  std::string before_;
};

TEST(siphash, agrees_with_its_authors) {
  std::uint8_t key[16];
  for (unsigned i = 0; i < 16; ++i) key[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(siphash(key, ""), "a3817f04ba25a8e66df67214c7550293");
  EXPECT_EQ(siphash(key, std::string_view("\0", 1)), "da87c1d86b99af44347659119b22fc45");
}

TEST_F(own_command_test, what_was_sealed_is_known_again_until_it_changes) {
  EXPECT_FALSE(is_own(command_));
  command_.seal = seal_of(command_);
  EXPECT_EQ(command_.seal.size(), 32U);
  EXPECT_TRUE(is_own(command_));
  profiler::recorded_command other = command_;
  other.words.back() = "b";
  EXPECT_FALSE(is_own(other));
  other = command_;
  other.variables.emplace_back("LD_PRELOAD", "/tmp/x.so");
  EXPECT_FALSE(is_own(other));
  other = command_;
  other.seal[0] = other.seal[0] == '0' ? '1' : '0';
  EXPECT_FALSE(is_own(other));
}

TEST_F(own_command_test, the_seal_is_in_the_file) {
  command_.seal = seal_of(command_);
  const std::string file = folder_ + "/p.prof";
  profiler::table_writer(file).append(profiler::command_table(command_));
  const auto read = profiler::load_command(file);
  ASSERT_TRUE(read);
  EXPECT_TRUE(is_own(*read));
}

TEST_F(own_command_test, another_user_s_key_is_none) {
  command_.seal = seal_of(command_);
  struct stat status = {};
  ASSERT_EQ(stat(key().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  ASSERT_EQ(chmod(key().c_str(), 0640), 0);
  EXPECT_FALSE(is_own(command_)) << "others could have read it";
  ASSERT_EQ(chmod(key().c_str(), 0600), 0);
  EXPECT_TRUE(is_own(command_));
  if (geteuid() == 0) {
    ASSERT_EQ(chown(key().c_str(), 65534, 65534), 0);
    EXPECT_FALSE(is_own(command_));
    EXPECT_EQ(seal_of(command_), "") << "it is not replaced either";
  }
  std::filesystem::remove(key());
  std::ofstream(folder_ + "/elsewhere") << std::string(16, 'k');
  chmod((folder_ + "/elsewhere").c_str(), 0600);
  std::filesystem::create_symlink(folder_ + "/elsewhere", key());
  EXPECT_EQ(seal_of(command_), "");
}

TEST_F(own_command_test, what_would_run_is_shown_in_printable_words) {
  command_.words.back() = "it's \x1b[2J";
  command_.variables.emplace_back("LD_PRELOAD", "/tmp/x.so");
  EXPECT_EQ(describe_command(command_), "in /: LD_PRELOAD='/tmp/x.so' /bin/true 'it'\\''s \\x1b[2J'");
  const std::string refusal = testing_support::refusal_of<cli_error>(
      [&] { require_consent("p.prof", "the command in it", describe_command(command_), false); });
  EXPECT_TRUE(refusal.starts_with("125 ") && refusal.ends_with(" | If you trust it: --trust-file"))
      << refusal;
  EXPECT_NE(refusal.find("/bin/true 'it'"), std::string::npos);
  require_consent("p.prof", "the command in it", describe_command(command_), true);
}

}  // namespace
}  // namespace tarn::cli
