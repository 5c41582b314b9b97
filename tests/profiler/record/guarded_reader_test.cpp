// SPDX-License-Identifier: MIT
// Reading of memory that may not be there.
#include "profiler/record/guarded_reader.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace tarn::profiler {
namespace {

// Two pages, of which the second cannot be read.
class half_mapped {
 public:
  half_mapped() {
    memory_ = static_cast<char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(memory_, 'x', page_);
    mprotect(memory_ + page_, page_, PROT_NONE);
  }
  ~half_mapped() { munmap(memory_, 2 * page_); }
  half_mapped(const half_mapped&) = delete;
  half_mapped& operator=(const half_mapped&) = delete;

  std::uintptr_t end() const { return reinterpret_cast<std::uintptr_t>(memory_) + page_; }

 private:
  std::size_t page_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  char* memory_;
};

TEST(guarded_reader, reads_up_to_the_last_byte_that_is_there) {
  const half_mapped memory;
  guarded_reader from(false);
  char bytes[9] = "--------";
  EXPECT_TRUE(from.read(memory.end() - 8, bytes, 8));
  EXPECT_STREQ(bytes, "xxxxxxxx");
  std::memcpy(bytes, "unread", 7);
  EXPECT_FALSE(from.read(memory.end() - 7, bytes, 8));
  EXPECT_FALSE(from.read(memory.end(), bytes, 1));
  EXPECT_STREQ(bytes, "unread");
}

TEST(guarded_reader, no_program_has_memory_at_the_ends_of_the_address_space) {
  for (const bool is_certain : {false, true}) {
    guarded_reader from(is_certain);
    char byte = 0;
    for (const std::uintptr_t address :
         {std::uintptr_t{0}, std::uintptr_t{65535}, std::uintptr_t{1} << 56, ~std::uintptr_t{0}})
      EXPECT_FALSE(from.read(address, &byte, 1)) << address;
  }
}

TEST(guarded_reader, at_most_4_kib_are_read_at_once) {
  static const char many[8192] = {};
  char bytes[4097];
  guarded_reader from(false);
  EXPECT_TRUE(from.read(reinterpret_cast<std::uintptr_t>(many), bytes, 4096));
  EXPECT_FALSE(from.read(reinterpret_cast<std::uintptr_t>(many), bytes, 4097));
}

TEST(guarded_reader, a_value_that_cannot_be_taken_is_0_and_remembered) {
  const int value = 7;
  guarded_reader from(false);
  EXPECT_EQ(from.take<int>(reinterpret_cast<std::uintptr_t>(&value)), 7);
  EXPECT_FALSE(from.failed());
  EXPECT_EQ(from.take<int>(8), 0);
  EXPECT_EQ(from.take<int>(reinterpret_cast<std::uintptr_t>(&value)), 7);
  EXPECT_TRUE(from.failed());
}

// It remembers the pages that it has found, of which there may be more than it has room for.
TEST(guarded_reader, many_pages_one_after_the_other) {
  constexpr std::size_t count = 20;
  static char pages[count * 4096];
  guarded_reader from(false);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t page = 0; page < count; ++page) {
      pages[page * 4096] = static_cast<char>(page);
      EXPECT_EQ(from.take<char>(reinterpret_cast<std::uintptr_t>(&pages[page * 4096])),
                static_cast<char>(page));
    }
  }
  EXPECT_FALSE(from.failed());
}

}  // namespace
}  // namespace tarn::profiler
