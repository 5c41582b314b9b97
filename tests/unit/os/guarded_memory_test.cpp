// SPDX-License-Identifier: MIT
// Reservations between guard pages: access, extension, and where in the address space they are.
#include "os/guarded_memory.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/compiler.hpp"
#include "base/units.hpp"
#include "os/memory.hpp"

namespace tarn::os {
namespace {

// mincore fails for an address that is not mapped.
bool mapped(std::uintptr_t at) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(at), system_page_size(), &resident) == 0;
}

TEST(guarded_memory, is_aligned_zeroed_and_writable) {
  const guarded_range range = reserve_guarded(4 * mib, huge_page_size, memory_access::read_write);
  ASSERT_NE(range.start, nullptr);
  EXPECT_TRUE(range.guarded);
  EXPECT_EQ(range.bytes, 4 * mib);
  EXPECT_EQ(address_of(range.start) % huge_page_size, 0U);
  auto* const bytes = static_cast<char*>(range.start);
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(bytes[4 * mib - 1], 0);
  std::memset(bytes, 1, 4 * mib);
  release(range);
  EXPECT_FALSE(mapped(address_of(range.start) - guard_bytes));
  EXPECT_FALSE(mapped(range.end() + guard_bytes - system_page_size()));
}

TEST(guarded_memory, faults_at_every_byte_of_both_guards) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "the sanitizer handles the signal";
  const guarded_range range = reserve_guarded(64 * kib, system_page_size(), memory_access::read_write);
  ASSERT_TRUE(range.guarded);
  const auto write_at = [](std::uintptr_t at) { *reinterpret_cast<volatile char*>(at) = 1; };
  for (const std::size_t distance : {std::size_t{1}, system_page_size() + 1, guard_bytes}) {
    EXPECT_EXIT(write_at(address_of(range.start) - distance), testing::KilledBySignal(SIGSEGV), "")
        << distance;
    EXPECT_EXIT(write_at(range.end() + distance - 1), testing::KilledBySignal(SIGSEGV), "") << distance;
  }
  release(range);
}

TEST(guarded_memory, without_access_until_it_is_allowed) {
  const guarded_range range = reserve_guarded(1 * mib, system_page_size(), memory_access::none);
  ASSERT_TRUE(range.guarded);
  auto* const bytes = static_cast<volatile char*>(range.start);
  const bool may_fault = !TARN_TSAN && !TARN_ASAN;  // the sanitizer handles the signal
  if (may_fault) {
    EXPECT_EXIT(bytes[0] = 1, testing::KilledBySignal(SIGSEGV), "");
  }
  ASSERT_TRUE(allow_access(range.start, 64 * kib));
  ASSERT_TRUE(allow_access(range.start, 64 * kib)) << "a second call fails";
  bytes[0] = 1;
  if (may_fault) {
    EXPECT_EXIT(bytes[64 * kib] = 1, testing::KilledBySignal(SIGSEGV), "");
  }
  ASSERT_TRUE(forbid_writing(range.start, 64 * kib));
  EXPECT_EQ(bytes[0], 1);
  release(range);
}

TEST(guarded_memory, becomes_longer_at_its_end_and_short_again) {
  if (TARN_TSAN || TARN_ASAN) GTEST_SKIP() << "the sanitizer chooses the addresses, or handles the signal";
  const guarded_range first = reserve_guarded(2 * mib, huge_page_size, memory_access::read_write);
  ASSERT_TRUE(first.guarded);
  const auto write_at = [](std::uintptr_t at) { *reinterpret_cast<volatile char*>(at) = 1; };
  for (int round = 0; round < 2; ++round) {
    const guarded_range more = extend_guarded(first.end(), 4 * mib);
    ASSERT_EQ(address_of(more.start), first.end());
    EXPECT_EQ(more.bytes, 4 * mib);
    std::memset(first.start, 1, 6 * mib);
    EXPECT_EXIT(write_at(more.end()), testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT(write_at(more.end() + guard_bytes - 1), testing::KilledBySignal(SIGSEGV), "");
    // The same addresses cannot be taken a second time.
    EXPECT_EQ(extend_guarded(first.end(), 4 * mib).start, nullptr);
    release(more);
    EXPECT_EXIT(write_at(first.end()), testing::KilledBySignal(SIGSEGV), "");
    EXPECT_FALSE(mapped(first.end() + guard_bytes));
  }
  release(first);
}

TEST(guarded_memory, does_not_become_longer_over_what_is_mapped) {
  if (TARN_TSAN) GTEST_SKIP() << "the system chooses the addresses under ThreadSanitizer";
  const guarded_range range = reserve_guarded(2 * mib, huge_page_size, memory_access::read_write);
  ASSERT_TRUE(range.guarded);
  void* const behind = reinterpret_cast<void*>(range.end() + guard_bytes + 64 * kib);
  auto* const foreign = static_cast<char*>(mmap(behind, system_page_size(), PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
  ASSERT_EQ(foreign, behind);
  *foreign = 7;
  EXPECT_EQ(extend_guarded(range.end(), 2 * mib).start, nullptr);
  EXPECT_EQ(*foreign, 7);
  EXPECT_NE(extend_guarded(range.end(), 64 * kib).start, nullptr) << "there is room up to that mapping";
  munmap(foreign, system_page_size());
}

TEST(guarded_memory, lies_at_places_that_say_nothing_of_each_other) {
  if (TARN_TSAN) GTEST_SKIP() << "the system chooses the addresses under ThreadSanitizer";
  guarded_range ranges[8];
  for (guarded_range& range : ranges) {
    range = reserve_guarded(1 * mib, system_page_size(), memory_access::none);
    ASSERT_NE(range.start, nullptr);
  }
  for (const guarded_range& a : ranges) {
    for (const guarded_range& b : ranges) {
      if (&a == &b) continue;
      const std::uintptr_t low = std::min(address_of(a.start), address_of(b.start));
      const std::uintptr_t high = std::max(address_of(a.start), address_of(b.start));
      // Of eight random addresses in 8 TiB, two are closer than 64 MiB once in thousands of runs.
      EXPECT_GT(high - low, 64 * mib);
    }
  }
  for (const guarded_range& range : ranges) release(range);
}

TEST(guarded_memory, lies_in_the_preferred_window_while_there_is_room) {
  if (TARN_TSAN) GTEST_SKIP() << "the system chooses the addresses under ThreadSanitizer";
  const guarded_range first = reserve_guarded(1 * mib, huge_page_size, memory_access::none);
  const address_window window{address_of(first.start) - guard_bytes, 64 * mib};
  const auto lies_inside = [&](const guarded_range& range) {
    return address_of(range.start) >= window.start + guard_bytes &&
           range.end() + guard_bytes <= window.start + window.bytes;
  };
  guarded_range ranges[6];
  for (guarded_range& range : ranges) {
    range = reserve_guarded(4 * mib, system_page_size(), memory_access::none, window);
    ASSERT_TRUE(range.guarded);
  }
  // At most half of the window is taken, so eight random tries in a row rarely all fail.
  EXPECT_GE(std::count_if(std::begin(ranges), std::end(ranges), lies_inside), 5);
  const guarded_range longer = reserve_guarded(128 * mib, huge_page_size, memory_access::none, window);
  ASSERT_NE(longer.start, nullptr) << "a range longer than the window is found elsewhere";
  EXPECT_FALSE(lies_inside(longer));
  for (const guarded_range& range : ranges) release(range);
  release(longer);
  release(first);
}

TEST(guarded_memory, too_much_is_refused) {
  for (const memory_access how : {memory_access::none, memory_access::read_write}) {
    EXPECT_EQ(reserve_guarded(std::size_t{1} << 60, system_page_size(), how).start, nullptr);
    EXPECT_EQ(reserve_guarded(~std::size_t{0} - 4095, system_page_size(), how).start, nullptr);
  }
}

}  // namespace
}  // namespace tarn::os
