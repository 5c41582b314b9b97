// SPDX-License-Identifier: MIT
// fault_events: records of page faults of a process that takes many, and samples of the clock in one that computes.
// Tests are skipped where perf_event_open is refused.
#include "profiler/collect/fault_events.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>

#include "profiler/proc/proc_status.hpp"

namespace tarn::profiler {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t pages = 50000;

// A child process that takes one fault for each of its pages: the first half after one byte through the pipe, the
// second half after another. go_half() sends one byte, go() both.
class faulting_child {
 public:
  // `work`: number of loop steps before each fault.
  explicit faulting_child(int work = 0) : work_(work) {
    EXPECT_EQ(pipe(go_), 0);
    process_ = fork();
    if (process_ == 0) _exit(run());
    close(go_[0]);
  }
  ~faulting_child() {
    close(go_[1]);
    waitpid(process_, nullptr, 0);
  }
  faulting_child(const faulting_child&) = delete;
  faulting_child& operator=(const faulting_child&) = delete;

  pid_t process() const { return process_; }
  void go() { EXPECT_EQ(write(go_[1], "xx", 2), 2); }
  void go_half() { EXPECT_EQ(write(go_[1], "x", 1), 1); }
  bool has_ended() {
    return waitid(P_PID, static_cast<id_t>(process_), &state_, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           state_.si_pid != 0;
  }

 private:
  int run() const {
    close(go_[1]);
    // The kernel reports what a processor's buffer has lost with the next record on that processor: stay on one.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0) return 1;
    void* memory =
        mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, pages * page_bytes, MADV_NOHUGEPAGE);
    auto* bytes = static_cast<volatile unsigned char*>(memory);
    for (std::size_t page = 0; page < pages; ++page) {
      char letter = 0;
      if (page % (pages / 2) == 0 && read(go_[0], &letter, 1) != 1) return 1;
      for (volatile int step = 0; step < work_;) step = step + 1;
      bytes[page * page_bytes] = 1;
    }
    return 0;
  }

  int work_ = 0;
  int go_[2] = {-1, -1};
  pid_t process_ = -1;
  siginfo_t state_ = {};
};

struct told {
  double records = 0;
  double weight = 0;
};

told faults_of_child(const fault_settings& wanted, bool& refused) {
  faulting_child child;
  fault_settings settings = wanted;
  settings.process = static_cast<std::uint32_t>(child.process());
  fault_events events;
  refused = !events.open(settings);
  told result;
  if (refused) return result;
  child.go();
  for (bool ended = false; !ended;) {
    ended = child.has_ended();
    kernel_events taken;
    events.take(taken);
    for (const page_fault& fault : taken.faults) result.weight += fault.weight;
    result.records += static_cast<double>(taken.faults.size());
    usleep(1000);
  }
  result.weight += events.lost();
  return result;
}

TEST(fault_events, without_sampling_each_fault_is_recorded) {
  bool refused = false;
  const told all = faults_of_child({}, refused);
  if (refused) GTEST_SKIP() << "perf_event_open is refused";
  EXPECT_NEAR(all.weight, pages, 0.02 * pages);
}

// A fault's record costs a fourth of the fault itself.
TEST(fault_events, of_many_faults_a_sample_is_recorded_that_stands_for_all) {
  bool refused = false;
  fault_settings some;
  some.everything = false;
  const told sample = faults_of_child(some, refused);
  if (refused) GTEST_SKIP() << "perf_event_open is refused";
  EXPECT_NEAR(sample.weight, pages, 0.02 * pages);
  EXPECT_LT(sample.records, 0.25 * pages);
}

// Samples of the clock are written to the same buffers, and are not counted as faults.
TEST(fault_events, each_fault_is_recorded_beside_samples_of_the_clock) {
  bool refused = false;
  fault_settings with_clock;
  with_clock.clock_ns = 1'000'000;
  const told all = faults_of_child(with_clock, refused);
  if (refused) GTEST_SKIP() << "perf_event_open is refused";
  EXPECT_NEAR(all.weight, pages, 0.02 * pages);
}

// ---- the clock ----

volatile std::uint64_t sink = 0;

// Two functions; the child spends a known part of its processor time in each.
[[gnu::noinline]] std::uint64_t spin_one(std::uint64_t times) {
  for (std::uint64_t turn = 0; turn < times; ++turn) sink = sink + 1;
  return sink;
}
[[gnu::noinline]] std::uint64_t spin_other(std::uint64_t times) {
  for (std::uint64_t turn = 0; turn < times; ++turn) sink = sink + 3;
  return sink;
}

double thread_seconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Spends 0.4 s of processor time, by the thread's clock: 3/4 in spin_one(), 1/4 in spin_other(). In parts of random length:
// equal ones may keep step with the samples of the clock.
[[noreturn]] void spin_and_end(int go) {
  char letter = 0;
  if (read(go, &letter, 1) != 1) _exit(1);
  double one = 0;
  double other = 0;
  std::minstd_rand random;
  while (one + other < 0.4) {
    const std::uint64_t times = 5000 + random() % 40000;
    const double begin = thread_seconds();
    if (one <= 3 * other) {
      spin_one(times);
      one += thread_seconds() - begin;
    } else {
      spin_other(times);
      other += thread_seconds() - begin;
    }
  }
  _exit(0);
}

struct clock_looked_at {
  double all = 0;
  double in_one = 0;
  double ns = 0;  // that the samples stand for
  std::map<std::uint64_t, double> of_period;
};

clock_looked_at clock_of_spinning_child(bool& refused, std::uint64_t first_clock_ns = 0) {
  int go[2] = {-1, -1};
  EXPECT_EQ(pipe(go), 0);
  const pid_t child = fork();
  if (child == 0) spin_and_end(go[0]);
  fault_settings settings{
      .process = static_cast<std::uint32_t>(child), .clock_ns = 499'979, .first_clock_ns = first_clock_ns};
  fault_events events;
  refused = !events.open(settings) || events.clock_ns() == 0;
  EXPECT_EQ(write(go[1], "x", 1), 1);
  clock_looked_at result;
  siginfo_t state = {};
  for (bool ended = false; !ended; usleep(1000)) {
    ended = waitid(P_PID, static_cast<id_t>(child), &state, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            state.si_pid != 0;
    kernel_events taken;
    events.take(taken);
    if (result.ns > 0.1e9) events.slow_clock_down();
    for (const clock_sample& sample : taken.clock) {
      EXPECT_EQ(sample.process, static_cast<std::uint32_t>(child));
      const auto begin = reinterpret_cast<std::uint64_t>(&spin_one);
      const auto end = reinterpret_cast<std::uint64_t>(&spin_other);
      const bool in_order = begin < end;
      const bool in_one = in_order
                              ? sample.instruction >= begin && sample.instruction < end
                              : sample.instruction >= begin && sample.instruction < begin + (begin - end);
      result.all += 1;
      result.ns += static_cast<double>(sample.period_ns);
      result.of_period[sample.period_ns] += 1;
      if (in_one) result.in_one += 1;
    }
  }
  waitpid(child, nullptr, 0);
  close(go[0]);
  close(go[1]);
  return result;
}

TEST(fault_events, lost_records_are_divided_in_the_proportion_of_the_others) {
  EXPECT_EQ(lost_faults(0, 10, 30), 0);
  EXPECT_EQ(lost_faults(100, 10, 30), 25);
  EXPECT_EQ(lost_faults(100, 10, 0), 100);
  EXPECT_EQ(lost_faults(100, 0, 30), 100) << "no record arrived: all lost ones count as faults";
}

double faults_taken(const faulting_child& child) {
  const auto status = read_process(static_cast<std::uint32_t>(child.process()));
  return status ? status->minor_faults : static_cast<double>(pages);
}

// The buffers cannot hold the records of the first half of the pages. The kernel reports how many it dropped as soon as
// there is room again.
TEST(fault_events, faults_whose_records_are_lost_are_counted) {
  constexpr int work_per_page = 300;
  faulting_child child(work_per_page);
  fault_settings settings{.process = static_cast<std::uint32_t>(child.process()), .clock_ns = 100'000};
  fault_events events;
  if (!events.open(settings) || events.clock_ns() == 0) GTEST_SKIP() << "perf_event_open is refused";
  kernel_events taken;
  const double before = faults_taken(child);
  child.go_half();
  while (faults_taken(child) < before + pages / 2.0) usleep(1000);
  child.go_half();
  while (!child.has_ended()) {
    events.take(taken);
    usleep(1000);
  }
  events.take(taken);
  const double told = static_cast<double>(taken.faults.size());
  if (told > 0.9 * pages) GTEST_SKIP() << "the buffers hold all records";
  EXPECT_GT(taken.clock.size(), 0U);
  EXPECT_NEAR(told + events.lost(), pages, 0.1 * pages);
}

TEST(fault_events, samples_of_the_clock_are_where_the_time_goes) {
  bool refused = false;
  const clock_looked_at clock = clock_of_spinning_child(refused);
  if (refused) GTEST_SKIP() << "perf_event_open is refused";
  // 0.4 s at 0.5 ms each would be 800 samples, but some of the time is in the kernel. Standard error of the share at
  // 700 samples: 0.016.
  EXPECT_GT(clock.all, 400);
  EXPECT_LT(clock.all, 850);
  EXPECT_NEAR(clock.in_one / clock.all, 0.75, 0.08);
  EXPECT_EQ(clock.of_period.size(), 1U);
}

TEST(fault_events, the_first_clock_gives_way_to_a_slower_one) {
  bool refused = false;
  const clock_looked_at clock = clock_of_spinning_child(refused, 199'999);
  if (refused) GTEST_SKIP() << "perf_event_open is refused";
  EXPECT_GT(clock.of_period.at(199'999), 400);
  EXPECT_GT(clock.of_period.at(499'979), 250);
  EXPECT_GT(clock.ns, 0.25e9);
  EXPECT_LT(clock.ns, 0.42e9);
}

}  // namespace
}  // namespace tarn::profiler
