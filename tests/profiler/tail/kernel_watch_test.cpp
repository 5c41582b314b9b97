// SPDX-License-Identifier: MIT
// What the kernel did between two points of a thread, by its events and by getrusage.
#include "profiler/tail/kernel_watch.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cstring>

namespace tarn::profiler::tail {
namespace {

// The second one is never opened.
enum class way { events, usage };

class kernel_watch_test : public testing::TestWithParam<way> {
 protected:
  void SetUp() override {
    if (GetParam() == way::usage) return;
    const int refusal = watch_.open();
    if (refusal != 0) GTEST_SKIP() << "perf_event_open: " << std::strerror(refusal);
  }
  void TearDown() override { watch_.close(); }

  template <class work>
  kernel_events during(work what, bool may_fault_much = true) {
    watch_.begin(may_fault_much);
    what();
    return watch_.end(true);
  }

  kernel_watch watch_;
};

volatile char* fresh_pages(std::size_t pages) {
  return static_cast<volatile char*>(
      mmap(nullptr, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

TEST_P(kernel_watch_test, nothing_has_happened) {
  // Of many tries one is undisturbed.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const kernel_events found = during([] {});
    if (!found.faulted && !found.waited && !found.preempted) return;
  }
  FAIL();
}

TEST_P(kernel_watch_test, a_page_fault) {
  volatile char* const pages = fresh_pages(2);
  EXPECT_TRUE(during([&] { pages[0] = 1; }).faulted);
  pages[4096] = 1;
  bool is_clean = false;
  for (int attempt = 0; attempt < 1000 && !is_clean; ++attempt)
    is_clean = !during([&] { pages[4096] = 2; }).faulted;
  EXPECT_TRUE(is_clean);
}

TEST_P(kernel_watch_test, populated_memory_is_a_page_fault_of_the_call_that_asks_for_it) {
  constexpr int populate_write = 23;  // MADV_POPULATE_WRITE
  volatile char* const pages = fresh_pages(600);
  const auto populate = [&](std::size_t page, std::size_t count) {
    return madvise(const_cast<char*>(pages) + page * 4096, count * 4096, populate_write) == 0;
  };
  if (!populate(0, 1)) GTEST_SKIP() << "Linux before 5.14";
  if (GetParam() == way::events && !watch_.sees_populated()) GTEST_SKIP() << "perf_event_paranoid above 1";
  during([] {});
  for (std::size_t page = 1; page < 500; page += 5) {
    EXPECT_TRUE(during([&] { populate(page, 2); }, false).faulted);
    bool is_clean = false;
    for (int attempt = 0; attempt < 100 && !is_clean; ++attempt) {
      pages[(page + 3) * 4096] = 1;  // between two calls
      EXPECT_GT(readlink("/proc/self/exe", const_cast<char*>(pages) + (page + 4) * 4096, 100), 0);
      is_clean = !during([] {}, false).faulted;
    }
    EXPECT_TRUE(is_clean) << "page " << page;
  }
}

TEST_P(kernel_watch_test, a_wait_is_no_preemption) {
  const timespec moment = {0, 1'000'000};
  for (int attempt = 0; attempt < 20; ++attempt) {
    const kernel_events found = during([&] { nanosleep(&moment, nullptr); });
    EXPECT_TRUE(found.waited);
    if (!found.preempted) return;
  }
  FAIL();
}

TEST_P(kernel_watch_test, more_faults_than_the_ring_has_room_for) {
  constexpr std::size_t pages = 3000;
  volatile char* const memory = fresh_pages(pages);
  madvise(const_cast<char*>(memory), pages * 4096, MADV_NOHUGEPAGE);
  const auto touch = [&](std::size_t from, std::size_t to) {
    for (std::size_t page = from; page < to; ++page) memory[page * 4096] = 1;
  };
  EXPECT_TRUE(during([&] { touch(0, 1000); }).faulted);
  madvise(const_cast<char*>(memory), 1000 * 4096, MADV_DONTNEED);
  const kernel_events unknown = during([&] { touch(0, 1000); }, false);
  if (GetParam() == way::events) {
    EXPECT_TRUE(unknown.preempted) << "and so not malloc's time";
  }
  touch(1000, 2000);  // between two calls
  EXPECT_TRUE(during([&] { touch(2000, 2001); }).faulted);
  const timespec moment = {0, 1'000'000};
  EXPECT_TRUE(during([&] { nanosleep(&moment, nullptr); }).waited);
}

INSTANTIATE_TEST_SUITE_P(both, kernel_watch_test, testing::Values(way::events, way::usage),
                         [](const auto& each) { return each.param == way::events ? "events" : "usage"; });

}  // namespace
}  // namespace tarn::profiler::tail
