// SPDX-License-Identifier: MIT
// The wrappers of mmap, madvise, mremap and mlock, checked with mincore and the bytes.
#include "os/memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "../../system_probes.hpp"
#include "../bytes.hpp"
#include "base/units.hpp"

namespace tarn::os {
namespace {

using testing_support::all_bytes_are;

constexpr std::size_t length = 1 * mib;

// The number of system pages in the range that are backed; -1 if a part of the range is not mapped.
long backed_pages(const void* start, std::size_t bytes) {
  std::vector<unsigned char> pages(bytes / system_page_size());
  if (mincore(const_cast<void*>(start), bytes, pages.data()) != 0) return -1;
  return std::count_if(pages.begin(), pages.end(), [](unsigned char c) { return (c & 1) != 0; });
}

TEST(memory, page_size_is_the_systems) {
  EXPECT_EQ(system_page_size(), static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

TEST(memory, reserve_aligns_zeroes_and_does_not_touch) {
  for (std::size_t alignment = system_page_size(); alignment <= 64 * mib; alignment *= 4) {
    char* const start = static_cast<char*>(reserve(length, alignment));
    ASSERT_NE(start, nullptr);
    EXPECT_EQ(address_of(start) % alignment, 0U) << alignment;
    EXPECT_EQ(backed_pages(start, length), 0);
    EXPECT_EQ(start[0], 0);
    EXPECT_EQ(start[length - 1], 0);
    std::memset(start, 1, length);
    release(start, length);
    EXPECT_EQ(backed_pages(start, system_page_size()), -1) << "still mapped";
  }
}

TEST(memory, reserve_fails_without_a_trace) {
  errno = 77;
  EXPECT_EQ(reserve(std::size_t{1} << 60, system_page_size()), nullptr);
  // A page fits, but not with the additional room for the alignment.
  EXPECT_EQ(reserve(system_page_size(), std::size_t{1} << 60), nullptr);
  EXPECT_EQ(errno, 77);
}

TEST(memory, purge_drops_and_zeroes) {
  void* const start = reserve(length, system_page_size());
  ASSERT_NE(start, nullptr);
  std::memset(start, 0x5a, length);
  EXPECT_EQ(backed_pages(start, length), static_cast<long>(length / system_page_size()));
  EXPECT_TRUE(purge(start, length / 2));
  EXPECT_EQ(backed_pages(start, length / 2), 0);
  EXPECT_TRUE(all_bytes_are(start, length / 2, 0));
  EXPECT_TRUE(all_bytes_are(static_cast<char*>(start) + length / 2, length / 2, 0x5a));
  release(start, length);
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  EXPECT_FALSE(purge(start, length)) << "purge must fail on a range that is not mapped";
}

TEST(memory, populate_backs_with_zeroes) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  void* const start = reserve(length, system_page_size());
  ASSERT_NE(start, nullptr);
  if (populate(start, length)) {
    EXPECT_EQ(backed_pages(start, length), static_cast<long>(length / system_page_size()));
  } else {
    EXPECT_EQ(backed_pages(start, length), 0);
  }
  EXPECT_TRUE(all_bytes_are(start, length, 0));
  release(start, length);
}

TEST(memory, move_mapping_takes_the_content_along) {
  char* const from = static_cast<char*>(map_block(length, huge_page_size));
  ASSERT_NE(from, nullptr);
  std::memset(from, 0x33, length);
  void* const room = reserve_inaccessible(length, huge_page_size);
  ASSERT_NE(room, nullptr);
  release(room, length);
  EXPECT_EQ(address_of(room) % huge_page_size, 0U);
  char* const to = static_cast<char*>(move_mapping(from, length, room));
  if (to == nullptr) {
    EXPECT_TRUE(all_bytes_are(from, length, 0x33)) << "the move failed, but the source has changed";
    release(from, length);
    GTEST_SKIP() << "this system has no MREMAP_DONTUNMAP";
  }
  EXPECT_TRUE(all_bytes_are(to, length, 0x33));
  EXPECT_TRUE(all_bytes_are(from, length, 0)) << "the source does not read as zero";
  std::memset(from, 1, length);
  EXPECT_TRUE(all_bytes_are(to, length, 0x33)) << "the two ranges share memory";
  release(from, length);
  release(to, length);
}

TEST(memory, move_mapping_goes_elsewhere_where_the_room_is_taken) {
  char* const from = static_cast<char*>(map_block(length, huge_page_size));
  char* const taken = static_cast<char*>(reserve(length, huge_page_size));
  ASSERT_TRUE(from != nullptr && taken != nullptr);
  std::memset(from, 0x33, length);
  std::memset(taken, 0x44, length);
  char* const to = static_cast<char*>(move_mapping(from, length, taken));
  EXPECT_NE(to, taken);
  EXPECT_TRUE(all_bytes_are(taken, length, 0x44)) << "the mapping that was there has changed";
  EXPECT_TRUE(all_bytes_are(to != nullptr ? to : from, length, 0x33));
  release(from, length);
  release(taken, length);
  if (to != nullptr) release(to, length);
}

TEST(memory, a_mapping_grows_where_it_lies_if_nothing_follows) {
  char* const room = static_cast<char*>(reserve(4 * length, huge_page_size));
  ASSERT_NE(room, nullptr);
  ASSERT_TRUE(release(room + length, 2 * length));
  std::memset(room, 0x33, length);
  std::memset(room + 3 * length, 0x44, length);
  EXPECT_FALSE(extend_mapping(room + length, 3 * length)) << "grown into another mapping";
  EXPECT_TRUE(extend_mapping(room + length, length));
  EXPECT_TRUE(all_bytes_are(room, length, 0x33));
  EXPECT_TRUE(all_bytes_are(room + length, length, 0));
  EXPECT_TRUE(all_bytes_are(room + 3 * length, length, 0x44));
  release(room, 4 * length);
}

TEST(memory, copy_to_zeroes_backs_no_page_of_zeroes) {
  char* const from = static_cast<char*>(reserve(length, system_page_size()));
  char* const to = static_cast<char*>(reserve(length, system_page_size()));
  ASSERT_TRUE(from != nullptr && to != nullptr);
  from[length - 1] = 1;
  copy_to_zeroes(to, from, length);
  EXPECT_EQ(to[length - 1], 1);
  EXPECT_EQ(backed_pages(to, length), 1);
  release(from, length);
  release(to, length);
}

TEST(memory, purge_free_undoes_a_lock) {
  void* const start = reserve(length, system_page_size());
  ASSERT_NE(start, nullptr);
  std::memset(start, 1, length);
  if (!lock_in_memory(start, system_page_size())) GTEST_SKIP() << "RLIMIT_MEMLOCK allows no locked page";
  EXPECT_FALSE(purge(start, length)) << "purged a range with a locked page";
  EXPECT_TRUE(purge_free(start, length));
  EXPECT_EQ(backed_pages(start, length), 0);
  release(start, length);
}

TEST(memory, advice_on_a_range_that_is_not_mapped_fails) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  void* const start = reserve(huge_page_size, huge_page_size);
  ASSERT_NE(start, nullptr);
  release(start, huge_page_size);
  EXPECT_FALSE(advise_huge(start, huge_page_size));
  EXPECT_FALSE(advise_no_huge(start, huge_page_size));
  EXPECT_FALSE(populate(start, huge_page_size));
}

// Called in a child. Sets the limit to 64 MiB more than is used; can_reserve() and reserve() must agree that 16 MiB fit
// and 256 MiB do not. `key` names the figure in /proc/self/status that the limit applies to. Returns 0 if they agree,
// 77 if the limit has no effect here.
int compare_with_limit(__rlimit_resource resource, const char* key) {
  char line[128];
  unsigned long used_kib = 0;
  std::FILE* const file = std::fopen("/proc/self/status", "r");
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, key, std::strlen(key)) == 0)
      std::sscanf(line + std::strlen(key), "%lu", &used_kib);
  }
  if (file != nullptr) std::fclose(file);
  const rlimit limited{used_kib * kib + 64 * mib, used_kib * kib + 64 * mib};
  if (used_kib == 0 || setrlimit(resource, &limited) != 0) return 77;
  void* const little = reserve(16 * mib, system_page_size());
  if (little == nullptr) return 77;
  release(little, 16 * mib);
  if (reserve(256 * mib, system_page_size()) != nullptr) return 77;
  return can_reserve(16 * mib) && !can_reserve(256 * mib) ? 0 : 1;
}

TEST(memory, can_reserve_heeds_the_limits) {
  EXPECT_TRUE(can_reserve(length));
  EXPECT_FALSE(can_reserve(std::size_t{1} << 60));
  bool skipped = false;
  const auto good = [&skipped](int status) {
    skipped = skipped || (WIFEXITED(status) && WEXITSTATUS(status) == 77);
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77);
  };
  EXPECT_EXIT(_exit(compare_with_limit(RLIMIT_AS, "VmSize:")), good, "");
  EXPECT_EXIT(_exit(compare_with_limit(RLIMIT_DATA, "VmData:")), good, "");
  if (skipped) GTEST_SKIP() << "RLIMIT_AS or RLIMIT_DATA has no effect here";
}

// Called in a child. Returns the growth of the resident set's peak, in KiB; -1 if no memory may be locked here.
long peak_growth_while_locked(std::size_t bytes) {
  if (mlockall(MCL_FUTURE) != 0) return -1;
  void* const writable = reserve(bytes, system_page_size());
  if (writable == nullptr) return -1;
  release(writable, bytes);
  usleep(150'000);  // can_reserve() asks the system every 100 ms
  rusage before{};
  rusage after{};
  getrusage(RUSAGE_SELF, &before);
  // More than reserve() has added to the peak.
  if (!can_reserve(4 * bytes)) return -1;
  getrusage(RUSAGE_SELF, &after);
  return after.ru_maxrss - before.ru_maxrss;
}

TEST(memory, can_reserve_backs_nothing_where_all_future_memory_is_locked) {
  bool skipped = false;
  const auto good = [&skipped](int status) {
    skipped = WIFEXITED(status) && WEXITSTATUS(status) == 77;
    return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || skipped);
  };
  const auto check = [] {
    const long growth_kib = peak_growth_while_locked(8 * mib);
    return growth_kib < 0 ? 77 : growth_kib < 4096 ? 0 : 1;
  };
  EXPECT_EXIT(_exit(check()), good, "");
  if (skipped) GTEST_SKIP() << "the limits of this process allow no 32 MiB of locked memory";
}

}  // namespace
}  // namespace tarn::os
