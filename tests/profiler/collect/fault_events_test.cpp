// SPDX-License-Identifier: MIT
// fault_events: what is told of a process that takes many faults. Skipped where perf_event_open is refused.
#include "profiler/collect/fault_events.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

namespace tarn::profiler {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t pages = 50000;

// A process that takes a fault for each page once it is told to, and waits for its end to be told, too.
class faulting_child {
 public:
  faulting_child() {
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
  void go() { EXPECT_EQ(write(go_[1], "x", 1), 1); }
  bool has_ended() {
    return waitid(P_PID, static_cast<id_t>(process_), &state_, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           state_.si_pid != 0;
  }

 private:
  int run() const {
    char letter = 0;
    close(go_[1]);
    if (read(go_[0], &letter, 1) != 1) return 1;
    void* memory =
        mmap(nullptr, pages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, pages * page_bytes, MADV_NOHUGEPAGE);
    auto* bytes = static_cast<volatile unsigned char*>(memory);
    for (std::size_t page = 0; page < pages; ++page) bytes[page * page_bytes] = 1;
    return 0;
  }

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
    std::vector<page_fault> faults;
    std::vector<mapping_event> mappings;
    std::vector<process_event> processes;
    events.take(faults, mappings, processes);
    for (const page_fault& fault : faults) result.weight += fault.weight;
    result.records += static_cast<double>(faults.size());
    usleep(1000);
  }
  result.weight += events.lost();
  return result;
}

TEST(fault_events, everything_tells_each_fault) {
  bool refused = false;
  const told all = faults_of_child({}, refused);
  if (refused) GTEST_SKIP() << "perf_event_open is refused";
  EXPECT_NEAR(all.weight, pages, 0.02 * pages);
}

// Telling a fault takes as long as a fourth of taking it.
TEST(fault_events, of_many_faults_few_are_told_and_stand_for_all) {
  bool refused = false;
  fault_settings some;
  some.everything = false;
  const told sample = faults_of_child(some, refused);
  if (refused) GTEST_SKIP() << "perf_event_open is refused";
  EXPECT_NEAR(sample.weight, pages, 0.02 * pages);
  EXPECT_LT(sample.records, 0.25 * pages);
}

}  // namespace
}  // namespace tarn::profiler
