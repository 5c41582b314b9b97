// SPDX-License-Identifier: MIT
// Lines written to files and to standard error. (os::fatal is tested in tests/death.)
#include "os/report.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>

#include "../../child_status.hpp"
#include "../../system_probes.hpp"
#include "os/own_file.hpp"
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

TEST(report, a_file_beyond_the_limit_is_not_written) {
  const std::string path = new_path("limit");
  const int status = testing_support::child_status([&path] {
    const rlimit limit = {4, 4};
    setrlimit(RLIMIT_FSIZE, &limit);
    text_buffer<16> text;
    text.put("four");
    return append_to_file(path.c_str(), text) && !append_to_file(path.c_str(), text) ? 7 : 1;
  });
  unlink(path.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST(report, a_pipe_that_nobody_reads_ends_nobody) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(write_all(ends[1], "x", 1), -EPIPE);
  sigset_t waiting;
  sigpending(&waiting);
  EXPECT_FALSE(sigismember(&waiting, SIGPIPE));
  // One that the program has waiting stays.
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  raise(SIGPIPE);
  EXPECT_EQ(write_all(ends[1], "x", 1), -EPIPE);
  constexpr timespec now{};
  EXPECT_EQ(sigtimedwait(&blocked, nullptr, &now), SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
}

TEST(report, a_reader_that_has_stopped_does_not_stop_the_program) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int status = testing_support::child_status([&ends] {
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const std::string page(4096, 'x');
    while (::write(ends[1], page.data(), page.size()) > 0) {
    }
    fcntl(ends[1], F_SETFL, 0);
    dup2(ends[1], 2);
    alarm(20);
    text_buffer<16> text;
    write_line(text.put("line\n"));
    return 7;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  close(ends[0]);
  close(ends[1]);
}

TEST(report, a_limit_that_nobody_has_asked_for_ends_nobody) {
  const std::string path = new_path("unasked");
  const int status = testing_support::child_status([&path] {
    const rlimit limit = {4, 4};
    setrlimit(RLIMIT_FSIZE, &limit);
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return write_all(file, "four and more", 13) == -EFBIG ? 7 : 1;
  });
  unlink(path.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

TEST(report, a_fifo_that_nobody_reads_keeps_nobody) {
  const std::string path = new_path("fifo");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  text_buffer<16> text;
  EXPECT_FALSE(append_to_file(path.c_str(), text.put("line\n")));
  unlink(path.c_str());
}

}  // namespace
}  // namespace tarn::os
