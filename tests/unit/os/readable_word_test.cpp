// SPDX-License-Identifier: MIT
// Whether a word of memory can be read, told without reading it.
#include "os/readable_word.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace tarn::os {
namespace {

TEST(readable_word, is_told_up_to_the_last_word_of_a_mapping) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const pages = mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  const auto start = reinterpret_cast<std::uintptr_t>(pages);
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(start + page), page, PROT_NONE), 0);
  errno = EDOM;
  EXPECT_EQ(ask_for_word(start), word_state::readable);
  EXPECT_EQ(ask_for_word(start + page - 8), word_state::readable);
  EXPECT_EQ(ask_for_word(start + page - 4), word_state::unreadable) << "half of it cannot be read";
  EXPECT_EQ(ask_for_word(start + page), word_state::unreadable);
  EXPECT_EQ(errno, EDOM);
  munmap(pages, 2 * page);
  EXPECT_EQ(ask_for_word(start), word_state::unreadable);
}

}  // namespace
}  // namespace tarn::os
