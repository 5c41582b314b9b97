// SPDX-License-Identifier: MIT
// Files for results: what happens to what was there before, and to what was not written completely.
#include "cli/show/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "../../folder_test.hpp"
#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

class output_file_test : public testing_support::folder_test {
 protected:
  std::string path() const { return folder_ + "/out"; }
  std::string content() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

std::string output_refusal(const auto& work) { return testing_support::refusal_of<cli_error>(work); }

void write_whole(const std::string& path, const std::string& text) {
  output_file out("-o", path);
  out.write(text);
  out.finish();
}

TEST_F(output_file_test, a_file_that_cannot_take_the_old_ones_place_is_an_error) {
  std::ofstream(path()) << "old";
  output_file out("-o", path());
  out.write("new");
  std::filesystem::remove(path());
  std::filesystem::create_directories(path() + "/not_empty");  // rename cannot replace it
  EXPECT_EQ(output_refusal([&] { out.finish(); }).substr(0, 3), "125");
}

TEST_F(output_file_test, what_was_there_stays_until_all_is_written) {
  std::ofstream(path()) << "what was there before";
  {
    output_file out("--json", path());
    EXPECT_EQ(content(), "what was there before");
    out.write("new ");
    out.write("text");
    EXPECT_EQ(content(), "what was there before");
    const int nameless = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (nameless >= 0) {  // where a file can be without a name, nothing is left if tarn is killed now
      ::close(nameless);
      EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
    }
    out.finish();
  }
  EXPECT_EQ(content(), "new text");
}

TEST_F(output_file_test, an_error_leaves_what_was_there_and_nothing_else) {
  std::ofstream(path()) << "what was there before";
  try {
    output_file out("-o", path());
    out.write("half of");
    throw std::runtime_error("an error");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(content(), "what was there before");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(output_file_test, a_replaced_file_keeps_its_rights_and_links_to_it) {
  std::ofstream(path()) << "old";
  std::filesystem::permissions(path(), std::filesystem::perms(0640));
  std::filesystem::create_symlink("out", folder_ + "/link");
  write_whole(folder_ + "/link", "new");
  EXPECT_EQ(content(), "new");
  EXPECT_EQ(std::filesystem::status(path()).permissions(), std::filesystem::perms(0640));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/link"));
  std::filesystem::create_hard_link(path(), folder_ + "/other");
  write_whole(folder_ + "/other", "for both");
  EXPECT_EQ(content(), "for both");
}

TEST_F(output_file_test, a_link_to_nothing_creates_what_it_leads_to) {
  std::filesystem::create_symlink("out", folder_ + "/link");
  { const output_file out("-o", folder_ + "/link"); }
  EXPECT_FALSE(std::filesystem::exists(path()));
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/link"));
  write_whole(folder_ + "/link", "new");
  EXPECT_EQ(content(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder_ + "/link"));
}

TEST_F(output_file_test, a_descriptor_gets_the_text_at_its_place) {
  std::ofstream(path()) << "old, longer than what is written";
  const int file = open(path().c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  EXPECT_EQ(::write(file, "A", 1), 1);
  write_whole("/dev/fd/" + std::to_string(file), "text");
  EXPECT_EQ(::write(file, "B", 1), 1);
  close(file);
  EXPECT_EQ(content(), "AtextB");
  const int reading = open(path().c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_NE(output_refusal([reading] {
              output_file("-o", "/dev/fd/" + std::to_string(reading));
            }).find("Bad file descriptor"),
            std::string::npos);
  close(reading);
}

TEST_F(output_file_test, what_the_command_reads_is_not_written_to) {
  std::ofstream(path()) << "a profile";
  std::filesystem::create_symlink("out", folder_ + "/link");
  note_input(path());
  for (const char* name : {"/out", "/link"}) {
    EXPECT_EQ(output_refusal([&] { output_file("-o", folder_ + name).write("x"); }),
              "2 -o " + folder_ + name +
                  ": this is the file that is read | Give another file name. Nothing was done.");
  }
  EXPECT_EQ(content(), "a profile");
}

TEST_F(output_file_test, a_file_that_got_nothing_is_removed_only_if_it_is_new) {
  { const output_file out("-o", path()); }
  EXPECT_FALSE(std::filesystem::exists(path()));
  std::ofstream(path()) << "old";
  { const output_file out("-o", path()); }
  EXPECT_EQ(content(), "old");
  std::filesystem::remove(path());
  write_whole(path(), "");
  EXPECT_TRUE(std::filesystem::exists(path())) << "an empty result is a result";
}

TEST_F(output_file_test, a_new_file_is_removed_if_the_work_fails) {
  try {
    output_file out("-o", path());
    out.write("half");
    throw 7;
  } catch (int) {
  }
  EXPECT_FALSE(std::filesystem::exists(path()));
}

TEST_F(output_file_test, a_name_that_cannot_be_written_to_is_refused_at_once) {
  EXPECT_EQ(
      output_refusal([] { output_file("--json", "/nowhere/at/all"); }),
      "125 --json /nowhere/at/all: cannot be written: No such file or directory | Give a file in a folder that you "
      "may write to. Nothing was done.");
  EXPECT_EQ(
      output_refusal([this] { output_file("-o", folder_); }),
      "125 -o " + folder_ +
          ": cannot be written: Is a directory | Give a file in a folder that you may write to. Nothing was done.");
}

TEST_F(output_file_test, a_full_disk_is_told) {
  EXPECT_EQ(
      output_refusal([] { output_file("-o", "/dev/full").write("text"); }),
      "125 -o /dev/full: the output cannot be written completely: No space left on device | Make room, or give "
      "another file name.");
  EXPECT_TRUE(std::filesystem::exists("/dev/full"));
}

TEST_F(output_file_test, a_closed_pipe_is_no_error_with_a_message) {
  const auto before = signal(SIGPIPE, SIG_IGN);
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  output_file out("-o", pipe);
  out.write("read by none yet");
  close(reader);
  EXPECT_THROW(out.write("more"), closed_pipe);
  signal(SIGPIPE, before);
}

}  // namespace
}  // namespace tarn::cli
