// SPDX-License-Identifier: MIT
// contention: what is counted of a lock while counting is on, and that nothing is counted while it is off.
#include "os/contention.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "os/mutex.hpp"

namespace tarn::os::contention {
namespace {

using namespace std::chrono_literals;

// Counts while it exists.
struct counting {
  counting() { set(true); }
  ~counting() { set(false); }
  counting(const counting&) = delete;
  counting& operator=(const counting&) = delete;
};

lock_counts counts_of(const mutex& m) {
  const lock_record* const record = record_of(&m);
  return record != nullptr ? record->counts() : lock_counts{};
}

void lock_once(mutex& m) { const lock_guard guard(m); }

TEST(contention, counts_nothing_while_it_is_off) {
  static mutex m{lock_rank::depot};
  lock_once(m);
  EXPECT_EQ(record_of(&m), nullptr);
}

TEST(contention, counts_acquisitions_and_the_time_held) {
  static mutex m{lock_rank::depot};
  const counting on;
  lock_once(m);
  {
    const lock_guard guard(m);
    std::this_thread::sleep_for(20ms);
  }
  const lock_counts counts = counts_of(m);
  EXPECT_EQ(counts.taken, 2U);
  EXPECT_EQ(counts.transfers, 0U);
  EXPECT_EQ(counts.waits, 0U);
  EXPECT_EQ(counts.held_after_transfer, 0U);
  EXPECT_GE(nanoseconds(counts.held), 19'000'000U);
  EXPECT_GE(nanoseconds(counts.longest), 19'000'000U);
  EXPECT_LE(counts.longest, counts.held);
}

TEST(contention, counts_transfers_between_threads) {
  static mutex m{lock_rank::depot};
  const counting on;
  lock_once(m);
  std::thread([] {
    lock_once(m);
    lock_once(m);
  }).join();
  lock_once(m);
  const lock_counts counts = counts_of(m);
  EXPECT_EQ(counts.taken, 4U);
  EXPECT_EQ(counts.transfers, 2U);
  EXPECT_EQ(counts.waits, 0U);
  EXPECT_LE(counts.held_after_transfer, counts.held);
}

TEST(contention, counts_a_wait) {
  static mutex m{lock_rank::depot};
  const counting on;
  m.lock();
  std::thread waiting([] { lock_once(m); });
  // The other thread waits for all of this time, except for its start.
  std::this_thread::sleep_for(200ms);
  m.unlock();
  waiting.join();
  const lock_counts counts = counts_of(m);
  EXPECT_EQ(counts.taken, 2U);
  EXPECT_EQ(counts.waits, 1U);
  EXPECT_EQ(counts.transfers, 1U);
  EXPECT_GT(nanoseconds(counts.waited), 1'000'000U);
}

TEST(contention, time_held_before_counting_began_does_not_count) {
  static mutex m{lock_rank::depot};
  {
    const counting on;
    m.lock();
  }
  // Released while counting is off, taken while it is off, and released while it is on.
  m.unlock();
  m.lock();
  std::this_thread::sleep_for(20ms);
  const counting on;
  m.unlock();
  EXPECT_EQ(counts_of(m).taken, 1U);
  EXPECT_EQ(counts_of(m).held, 0U);
}

// In a process of its own: the table stays full.
TEST(contention, a_full_table_loses_counts_and_says_so) {
  const auto fill = [] {
    set(true);
    const auto counted = [] {
      std::uint64_t sum = lost();
      for (const lock_record& record : records) sum += record.counts().taken;
      return sum;
    };
    const std::uint64_t before = counted();
    constexpr std::uintptr_t locks = 4 * most_records;
    for (std::uintptr_t i = 1; i <= locks; ++i) {
      const void* const lock = reinterpret_cast<const void*>(i * 64);
      note_taken(lock, 1, 0);
      note_release(lock);
    }
    // A lock without a record works as before.
    static mutex m{lock_rank::depot};
    lock_once(m);
    lock_once(m);
    _exit(lost() >= locks - most_records && counted() == before + locks + 2 ? 0 : 1);
  };
  EXPECT_EXIT(fill(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace tarn::os::contention
