// SPDX-License-Identifier: MIT
// fault_watch: a process that faults in pages all the time, watched from outside. Skipped where perf_event_open is
// refused.
#include "profiler/collect/fault_watch.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <string>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {
namespace {

constexpr std::size_t touched_bytes = std::size_t{4} << 20;

[[gnu::noinline]] void touch_each_page(volatile char* bytes) {
  for (std::size_t at = 0; at < touched_bytes; at += 4096) bytes[at] = 1;
}

// A child that maps a block, touches it and gives it back, until it is killed.
class touching_child {
 public:
  touching_child() {
    process_ = fork();
    if (process_ != 0) return;
    while (true) {
      void* const block =
          mmap(nullptr, touched_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (block == MAP_FAILED) _exit(1);
      madvise(block, touched_bytes, MADV_NOHUGEPAGE);
      touch_each_page(static_cast<char*>(block));
      munmap(block, touched_bytes);
      usleep(1000);
    }
  }
  ~touching_child() {
    end();
    waitpid(process_, nullptr, 0);
  }
  touching_child(const touching_child&) = delete;
  touching_child& operator=(const touching_child&) = delete;
  void end() const { kill(process_, SIGKILL); }
  std::uint32_t process() const { return static_cast<std::uint32_t>(process_); }
  double faults() const { return read_process(process())->minor_faults; }

 private:
  pid_t process_ = -1;
};

bool never() { return false; }

// False: this system forbids it.
bool is_possible() {
  fault_events events;
  return events.open(
      {.everything = false, .mappings = true, .process = static_cast<std::uint32_t>(getpid())});
}

TEST(fault_watch, says_which_code_touched_how_much) {
  if (!is_possible()) GTEST_SKIP() << "no page faults of other processes here";
  const touching_child child;
  usleep(100000);
  const double before = child.faults();
  const profile seen = watch_faults(child.process(), 1.0, never);
  const double after = child.faults();
  double all = seen.unseen_faults;
  double of_function = 0;
  for (const site& one : seen.sites) {
    all += one.figures.faults;
    const auto frames = frames_of(seen, one.stack);
    if (!frames.empty() && frames.front().function.find("touch_each_page") != std::string::npos)
      of_function += one.figures.faults;
  }
  EXPECT_EQ(seen.mode, profile_mode::faults);
  EXPECT_GT(all, 0.7 * (after - before));
  EXPECT_LT(all, 1.3 * (after - before));
  EXPECT_GT(of_function, 0.9 * all);
  EXPECT_FALSE(seen.modules.empty());
}

TEST(fault_watch, ends_with_the_process_and_when_told_to) {
  if (!is_possible()) GTEST_SKIP() << "no page faults of other processes here";
  const touching_child child;
  const auto begin = std::chrono::steady_clock::now();
  int asked = 0;
  EXPECT_EQ(watch_faults(child.process(), 60, [&asked] { return ++asked > 10; }).mode, profile_mode::faults);
  asked = 0;
  watch_faults(child.process(), 60, [&] {
    if (++asked == 10) child.end();
    return asked > 10000;
  });
  EXPECT_LT(asked, 10000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
}

TEST(fault_watch, refuses_a_process_that_is_not_there) {
  constexpr std::uint32_t none = 4194303;
  EXPECT_THROW(watch_faults(none, 1, never), profile_error);
}

}  // namespace
}  // namespace tarn::profiler
