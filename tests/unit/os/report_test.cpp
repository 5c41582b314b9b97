// SPDX-License-Identifier: MIT
// Lines written to files and to standard error. (os::fatal is tested in tests/death.)
#include "os/report.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "../../system_probes.hpp"
#include "self.hpp"

namespace tarn::os {
namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string new_path(const char* name) {
  return testing::TempDir() + "tarn_report_" + name + "_" + std::to_string(getpid());
}

TEST(report, appends_whole_lines) {
  const std::string path = new_path("append");
  text_buffer<64> line;
  line.put("one line\n");
  EXPECT_TRUE(append_to_file(path.c_str(), line));
  EXPECT_TRUE(append_to_file(path.c_str(), line));
  EXPECT_EQ(content_of(path), "one line\none line\n");
  unlink(path.c_str());
}

TEST(report, says_when_a_file_cannot_be_written) {
  text_buffer<64> line;
  line.put("x");
  EXPECT_FALSE(append_to_file("/no/such/folder/file", line));
  EXPECT_FALSE(append_to_file(testing::TempDir().c_str(), line));
}

TEST(report, a_line_goes_to_standard_error) {
  testing::internal::CaptureStderr();
  text_buffer<64> line;
  line.put("to standard error\n");
  write_line(line);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "to standard error\n");
}

// A program that has closed descriptor 2 may have a file of its own there.
TEST(report, a_notice_goes_to_the_standard_error_of_the_start_only) {
  const std::string path = new_path("notice");
  text_buffer<64> line;
  line.put("a notice\n");
  const int start = dup(2);
  const int file = open(path.c_str(), O_CREAT | O_RDWR, 0600);
  dup2(file, 2);
  write_notice(line);
  EXPECT_EQ(content_of(path), "");
  write_line(line);
  EXPECT_EQ(content_of(path), "a notice\n");
  dup2(start, 2);
  close(start);
  close(file);
  unlink(path.c_str());
}

TEST(report_child, writes_a_notice) {
  if (!testing_support::is_child()) return;
  text_buffer<64> line;
  line.put("a notice\n");
  write_notice(line);
}

TEST(report, a_notice_reaches_the_standard_error_of_the_start) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const std::string path = new_path("seen");
  const std::string command = "ENGINE_TEST_CHILD=1 '" + testing_support::own_path() +
                              "' --gtest_filter=report_child.writes_a_notice >/dev/null 2>'" + path + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(content_of(path), "a notice\n");
  unlink(path.c_str());
}

constexpr int first_duplicate = 500;

TEST(report, a_kept_standard_error_is_reached_after_its_close) {
  text_buffer<64> line;
  line.put("late\n");
  testing::internal::CaptureStderr();
  keep_standard_error();
  const int flags = fcntl(first_duplicate, F_GETFD);
  write_line(line);
  close(2);
  write_line(line);
  forget_standard_error();
  write_line(line);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "late\nlate\n") << "one by 2, one by the duplicate";
  EXPECT_EQ(flags, FD_CLOEXEC);
  EXPECT_EQ(fcntl(first_duplicate, F_GETFD), -1);
}

TEST(report, a_programs_file_under_the_duplicates_number_is_left_alone) {
  const std::string path = new_path("taken");
  text_buffer<64> line;
  line.put("must not be in it\n");
  testing::internal::CaptureStderr();
  keep_standard_error();
  const int file = open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  dup2(file, first_duplicate);
  close(2);
  write_line(line);
  forget_standard_error();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(content_of(path), "");
  EXPECT_NE(fcntl(first_duplicate, F_GETFD), -1) << "the program's file has been closed";
  close(first_duplicate);
  close(file);
  unlink(path.c_str());
}

TEST(report, without_a_standard_error_there_is_none_to_keep) {
  testing::internal::CaptureStderr();
  close(2);
  keep_standard_error();
  const int flags = fcntl(first_duplicate, F_GETFD);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(flags, -1);
}

// Runs in a process that was started without standard error, so that a file that it opens gets the descriptor 2.
TEST(report_child, opens_a_file_and_writes_a_line) {
  if (!testing_support::is_child()) return;
  const int file = open(std::getenv("REPORT_CHILD_FILE"), O_CREAT | O_WRONLY, 0600);
  ASSERT_EQ(file, 2);
  text_buffer<64> line;
  line.put("must not be in it\n");
  write_line(line);
  close(2);
}

TEST(report, nothing_is_written_where_there_was_no_standard_error) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const std::string path = new_path("closed");
  const std::string command = "ENGINE_TEST_CHILD=1 REPORT_CHILD_FILE='" + path + "' '" +
                              testing_support::own_path() +
                              "' --gtest_filter=report_child.opens* >/dev/null 2>&-";
  ASSERT_EQ(std::system(command.c_str()), 0);
  ASSERT_EQ(access(path.c_str(), F_OK), 0);
  EXPECT_EQ(content_of(path), "");
  unlink(path.c_str());
}

}  // namespace
}  // namespace tarn::os
