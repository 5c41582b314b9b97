// SPDX-License-Identifier: MIT
// Parsing of smaps, and the resident pages of a mapping of this process.
#include "profiler/proc/process_maps.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

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
