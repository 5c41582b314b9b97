// SPDX-License-Identifier: MIT
// attached_process: libraries that are no recorder, and processes that end. tests/cli/attach_test.py has the recorder.
#include "profiler/attach/attached_process.hpp"

#include <gtest/gtest.h>

#include <string>

#include "../../refusal.hpp"
#include "tests/profiler/attach/child_process.hpp"

namespace tarn::profiler {
namespace {

std::string said_when_attaching(pid_t process, const std::string& library) {
  return testing_support::refusal_of<attach_error>(
      [&] { attached_process(process, library, "/proc/self/fd/0", [] { return true; }); });
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(attached_process, a_library_that_is_no_recorder_is_refused_and_the_process_goes_on) {
  if (ptrace_is_refused()) GTEST_SKIP() << "ptrace is refused";
  const child_process child(do_rounds);
  const std::string missing = said_when_attaching(child.id(), "/nowhere/at/all.so");
  EXPECT_TRUE(has(missing, "cannot load the recorder: /nowhere/at/all.so") && has(missing, "readable"))
      << missing;
  EXPECT_TRUE(child.goes_on());
  const std::string foreign = said_when_attaching(child.id(), "libm.so.6");
  EXPECT_TRUE(has(foreign, "a recorder of another version")) << foreign;
  EXPECT_TRUE(child.goes_on());
  const std::string too_long = said_when_attaching(child.id(), std::string(8192, 'x'));
  EXPECT_FALSE(has(too_long, "no error"));
  EXPECT_TRUE(child.goes_on());
}

TEST(attached_process, a_process_that_is_not_there_is_named) {
  const std::string said = said_when_attaching(0x7ffffffe, "libm.so.6");
  EXPECT_EQ(said, "process 2147483646 has ended, or does not exist | List the processes: ps -e");
}

TEST(attached_process, a_process_that_ends_while_it_is_waited_for_is_gone) {
  if (ptrace_is_refused()) GTEST_SKIP() << "ptrace is refused";
  child_process child([](child_process::shared_state&) { _exit(3); });
  child.comes_to('Z');
  EXPECT_TRUE(has(said_when_attaching(child.id(), "libm.so.6"), "has ended"));
  EXPECT_EQ(WEXITSTATUS(child.wait_for_end()), 3);
}

}  // namespace
}  // namespace tarn::profiler
