// SPDX-License-Identifier: MIT
// Parsing of smaps, and the resident pages of a mapping of this process.
#include "profiler/proc/process_maps.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <set>
#include <string>
#include <thread>

namespace tarn::profiler {
namespace {

TEST(process_maps, mappings_are_read_from_the_kernels_text) {
  const auto all = parse_mappings(
      "5500-5600 r-xp 00001000 fd:01 12   /usr/lib/a file (deleted)\n"
      "Size:                  4 kB\nRss:                   8 kB\nAnonymous:             4 kB\n"
      "VmFlags: rd ex mr mw me sd\n"
      "7000-8000 rw-s 00000000 00:00 0\n"
      "Rss:                   0 kB\nVmFlags: rd wr dd sd\n"
      "not a mapping\nffff-0000 r\n7f00-\n");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].start, 0x5500U);
  EXPECT_EQ(all[0].end, 0x5600U);
  EXPECT_EQ(all[0].offset, 0x1000U);
  EXPECT_EQ(all[0].name, "/usr/lib/a file (deleted)");
  EXPECT_TRUE(all[0].readable && !all[0].writable && !all[0].shared && !all[0].undumped);
  EXPECT_EQ(all[0].resident_bytes, 8192);
  EXPECT_EQ(all[0].anonymous_bytes, 4096);
  EXPECT_EQ(all[1].name, "");
  EXPECT_TRUE(all[1].writable && all[1].shared && all[1].undumped);
}

TEST(process_maps, a_mapping_that_grows_meanwhile_counts_once) {
  const auto all = parse_mappings(
      "5500-5600 rw-p 00000000 00:00 0\nRss: 8 kB\n7000-8000 rw-p 00000000 00:00 0\nRss: 4 kB\n"
      "7000-9000 rw-p 00000000 00:00 0\nRss: 12 kB\n9000-a000 r--p 00000000 00:00 0\nRss: 16 kB\n");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].end, 0x9000U);
  EXPECT_EQ(all[1].resident_bytes, 12 << 10);
  EXPECT_EQ(all[2].resident_bytes, 16 << 10);
}

TEST(process_maps, static_data_lies_behind_the_parts_of_a_program) {
  const auto all = parse_mappings(
      "1000-2000 r-xp 0 0:0 1 /bin/a\n2000-3000 rw-p 0 0:0 1 /bin/a\n3000-4000 rw-p 0 0:0 0\n4000-5000 r--p 0 0:0 0\n"
      "5000-6000 rw-p 0 0:0 0\n7000-8000 rw-p 0 0:0 0\n"
      "9000-a000 r--p 0 0:0 2 /data\na000-b000 rw-p 0 0:0 0\nb000-c000 ---p 0 0:0 0\nc000-d000 rw-p 0 0:0 0\n");
  const auto has = [&all](std::size_t index) { return file_of_static_data(all, index) == &all[1]; };
  ASSERT_EQ(all.size(), 10U);
  for (std::size_t index = 0; index < all.size(); ++index)
    EXPECT_EQ(has(index), index >= 2 && index < 5) << index;
}

TEST(process_maps, a_stack_has_a_guard_and_a_pointer_or_a_thread_that_runs) {
  const auto all = parse_mappings(
      "201000-202000 ---p 0 0:0 0\n202000-300000 rw-p 0 0:0 0\n"             // 1: a stack
      "5f0000-600000 ---p 0 0:0 0\n600000-900000 rw-p 0 0:0 0\n"             // 3: malloc's
      "901000-902000 rw-p 0 0:0 0\n"                                         // 4: without a guard
      "a01000-a02000 ---p 0 0:0 0\na02000-b00000 rw-p 0 0:0 0\nRss: 8 kB\n"  // 6: nobody is known to be there
      "c01000-c02000 ---p 0 0:0 0\nc02000-d00000 rw-s 0 0:0 0\n");
  ASSERT_EQ(all.size(), 9U);
  std::vector<bool> may_be(all.size(), true);
  may_be[3] = false;
  const auto stacks = [&](const stack_pointers& of) {
    std::string found;
    std::set<std::uint64_t> lengths{0xfe000};
    const std::vector<bool> are = stacks_among(all, of, may_be, lengths);
    for (std::size_t index = 0; index < all.size(); ++index)
      if (are[index]) found += std::to_string(index) + " ";
    return found;
  };
  EXPECT_EQ(stacks({{0x2fff00}, 0}), "1 ");
  EXPECT_EQ(stacks({{0x2fff00, 0x7fff00}, 0}), "1 6 ") << "one is in a coroutine";
  EXPECT_EQ(stacks({{0x2fff00, 0x901f00}, 0}), "1 6 ") << "on a signal handler's stack";
  EXPECT_EQ(stacks({{0x100, 0xcfff00}, 7}), "1 6 ");
  EXPECT_EQ(stacks({{}, 1}), "6 ");
  EXPECT_EQ(stacks({{}, 0}), "");
  std::set<std::uint64_t> lengths;
  EXPECT_FALSE(stacks_among(all, {{}, 1}, may_be, lengths)[6]) << "no stack is known to be so long";
  stacks_among(all, {{0xa02fff}, 0}, may_be, lengths);
  EXPECT_EQ(lengths, std::set<std::uint64_t>{0xfe000});
}

TEST(process_maps, usual_length_of_a_stack) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
  const std::uint64_t told = usual_stack_bytes(static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(told, limit.rlim_cur == RLIM_INFINITY ? 0 : limit.rlim_cur);
  EXPECT_EQ(usual_stack_bytes(0x7fffffff), 0U);
}

TEST(process_maps, stack_pointers_of_threads_that_wait_and_number_of_others) {
  std::promise<void> end;
  std::atomic<std::uint64_t> on_stack{0};
  std::atomic<bool> is_over{false};
  std::thread waiting([&, over = end.get_future()] {
    on_stack = reinterpret_cast<std::uint64_t>(
        __builtin_frame_address(0));  // not a variable, which a sanitizer may move
    over.wait();
  });
  std::thread running([&] {
    while (!is_over) {
    }
  });
  while (on_stack == 0) std::this_thread::yield();
  bool found = false;
  for (int tries = 0; tries < 10'000 && !found; ++tries) {
    const stack_pointers now = stack_pointers_of(static_cast<std::uint32_t>(getpid()));
    found = now.known.size() == 1 && now.unknown == 1 && on_stack - now.known[0] < 65536;
  }
  is_over = true;
  end.set_value();
  waiting.join();
  running.join();
  EXPECT_TRUE(found);
}

TEST(process_maps, resident_pages_are_those_that_were_touched) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* memory = static_cast<char*>(
      mmap(nullptr, 64 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, 64 * page, MADV_NOHUGEPAGE);
  for (const std::size_t index : {3, 4, 10}) memory[index * page] = 1;
  const auto start = reinterpret_cast<std::uint64_t>(memory);
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (pagemap < 0) GTEST_SKIP() << "pagemap cannot be read";
  const resident_pages pages(pagemap, start, start + 64 * page, 3.0 * static_cast<double>(page));
  close(pagemap);
  const auto bytes = [&](std::size_t from, std::size_t to) {
    return pages.bytes_in(start + from, start + to);
  };
  EXPECT_EQ(bytes(0, 64 * page), 3.0 * static_cast<double>(page));
  EXPECT_EQ(bytes(3 * page + 100, 3 * page + 150), 50);
  EXPECT_EQ(bytes(2 * page, 3 * page), 0);
  EXPECT_EQ(bytes(4 * page + 1, 6 * page), static_cast<double>(page - 1));
  EXPECT_EQ(pages.bytes_in(start - 4 * page, start + 4 * page), static_cast<double>(page));
  munmap(memory, 64 * page);
}

// pagemap lists shared zero pages, which are not resident: no resident bytes means none anywhere. If pagemap cannot be
// read, the resident bytes are spread evenly over the range.
TEST(process_maps, without_pagemap_resident_bytes_are_spread_evenly) {
  const resident_pages none(-1, 0x10000, 0x20000, 0);
  EXPECT_EQ(none.bytes_in(0x10000, 0x20000), 0);
  const resident_pages unknown(-1, 0x10000, 0x20000, 0x8000);
  EXPECT_EQ(unknown.bytes_in(0x10000, 0x14000), 0x2000);
  const resident_pages all(-1, 0x10000, 0x20000, 0x10000);
  EXPECT_EQ(all.bytes_in(0x10000, 0x20000), 0x10000);
}

}  // namespace
}  // namespace tarn::profiler
