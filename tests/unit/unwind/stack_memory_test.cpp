// SPDX-License-Identifier: MIT
// stack_memory: reads only readable words of a stack, by each way to ask the kernel.
#include "unwind/stack_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/units.hpp"

namespace {

using namespace tarn;
using unwind::stack_memory;

// Four pages: the first, second and last can be read, the third cannot.
class stack_memory_questions : public testing::TestWithParam<stack_memory::question> {
 protected:
  void SetUp() override {
    page_ = static_cast<std::size_t>(getpagesize());
    void* const memory = mmap(nullptr, 4 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    start_ = reinterpret_cast<std::uintptr_t>(memory);
    for (std::size_t at = 0; at < 4 * page_; at += 8)
      *reinterpret_cast<std::uintptr_t*>(start_ + at) = at + 1;
    ASSERT_EQ(mprotect(reinterpret_cast<void*>(start_ + 2 * page_), page_, PROT_NONE), 0);
#ifdef MADV_POPULATE_READ
    constexpr int populate = MADV_POPULATE_READ;
#else
    constexpr int populate = 22;
#endif
    if (GetParam() == stack_memory::question::madvise &&
        (madvise(memory, page_, populate) != 0 || madvise(nullptr, page_, populate) == 0)) {
      GTEST_SKIP() << "this kernel does not carry out MADV_POPULATE_READ";
    }
  }
  void TearDown() override { munmap(reinterpret_cast<void*>(start_), 4 * page_); }

  std::size_t page_ = 0;
  std::uintptr_t start_ = 0;
};

TEST_P(stack_memory_questions, only_readable_pages_are_read) {
  errno = 7;
  for (int round = 0; round < 2; ++round) {
    stack_memory stack(start_, GetParam());
    for (std::size_t at = 0; at < 4 * page_; at += 8) {
      std::uintptr_t word = 0;
      const bool readable = at / page_ != 2;
      ASSERT_EQ(stack.read(start_ + at, word), readable) << at;
      if (readable) {
        ASSERT_EQ(word, at + 1);
      }
    }
  }
  EXPECT_EQ(errno, 7);
}

TEST_P(stack_memory_questions, inwards_as_well) {
  stack_memory stack(start_, GetParam());
  for (std::size_t at = 4 * page_; at != 0; at -= 8) {
    std::uintptr_t word = 0;
    ASSERT_EQ(stack.read(start_ + at - 8, word), (at - 8) / page_ != 2) << at;
  }
}

TEST_P(stack_memory_questions, a_page_that_is_gone_is_not_read_by_a_later_walk) {
  std::uintptr_t word = 0;
  EXPECT_TRUE(stack_memory(start_, GetParam()).read(start_ + page_, word));
  ASSERT_EQ(mprotect(reinterpret_cast<void*>(start_ + page_), page_, PROT_NONE), 0);
  EXPECT_FALSE(stack_memory(start_, GetParam()).read(start_ + page_, word));
}

TEST_P(stack_memory_questions, no_word_of_the_stack) {
  stack_memory stack(start_ + page_, GetParam());
  std::uintptr_t word = 0;
  EXPECT_FALSE(stack.read(start_ + page_ - 8, word)) << "below the stack pointer";
  EXPECT_FALSE(stack.read(start_ + page_ + 4, word)) << "not aligned";
  EXPECT_FALSE(stack.read(start_ + page_ + gib, word)) << "too far away";
  EXPECT_FALSE(stack.read(~std::uintptr_t{7}, word)) << "in the kernel's half of the address space";
  EXPECT_TRUE(stack.read(start_ + page_, word));
}

TEST_P(stack_memory_questions, a_known_stack_is_extended_as_far_as_it_can_be_read_without_a_gap) {
  unwind::stack_bounds upper{start_ + 3 * page_, start_ + 4 * page_};
  EXPECT_TRUE(stack_memory::extend_down(upper, start_ + 3 * page_ + 8, GetParam())) << "nothing to do";
  EXPECT_FALSE(stack_memory::extend_down(upper, start_ + page_, GetParam())) << "a gap lies in between";
  EXPECT_EQ(upper.low, start_ + 3 * page_);
  unwind::stack_bounds lower{start_ + page_, start_ + 2 * page_};
  EXPECT_TRUE(stack_memory::extend_down(lower, start_ + page_ - 8, GetParam()));
  EXPECT_GE(lower.low, start_);
  EXPECT_LT(lower.low, start_ + page_);
  EXPECT_EQ(lower.high, start_ + 2 * page_);
}

INSTANTIATE_TEST_SUITE_P(all, stack_memory_questions,
                         testing::Values(stack_memory::question::sigprocmask,
                                         stack_memory::question::madvise));

TEST(stack_memory, of_a_known_stack_all_is_read_and_nothing_else) {
  alignas(8) std::uintptr_t words[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto start = reinterpret_cast<std::uintptr_t>(words);
  stack_memory stack(unwind::stack_bounds{start + 8, start + 36});
  std::uintptr_t word = 0;
  EXPECT_FALSE(stack.read(start, word));
  EXPECT_TRUE(stack.read(start + 8, word));
  EXPECT_EQ(word, 2U);
  EXPECT_TRUE(stack.read(start + 24, word));
  EXPECT_FALSE(stack.read(start + 32, word)) << "the stack ends within this word";
  EXPECT_FALSE(stack.read(start + 40, word));
}

}  // namespace
