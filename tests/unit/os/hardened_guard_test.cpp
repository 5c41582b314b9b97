// SPDX-License-Identifier: MIT
// hardened_guard: memory behind a guard of either kind cannot be read, and is zero when the guard is removed.
#include "os/hardened_guard.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include "os/memory.hpp"

namespace tarn {
namespace {

// Three pages, all 0x55.
class hardened_guard_test : public testing::Test {
 protected:
  hardened_guard_test() {
    memory_ = static_cast<volatile unsigned char*>(
        mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    for (std::size_t i = 0; i < 3 * page_; ++i) memory_[i] = 0x55;
  }
  ~hardened_guard_test() override { munmap(at(0), 3 * page_); }

  [[nodiscard]] void* at(std::size_t page) const {
    return const_cast<unsigned char*>(memory_) + page * page_;
  }
  // The guard is the middle page.
  void expect_guarded_and_remove() {
    EXPECT_EXIT(static_cast<void>(memory_[page_]), testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EXIT(memory_[2 * page_ - 1] = 1, testing::KilledBySignal(SIGSEGV), "");
    EXPECT_EQ(memory_[page_ - 1], 0x55);
    EXPECT_EQ(memory_[2 * page_], 0x55);
    ASSERT_TRUE(os::remove_guard(at(1), page_));
    for (std::size_t i = page_; i < 2 * page_; ++i) ASSERT_EQ(memory_[i], 0) << i;
    memory_[page_] = 1;
    EXPECT_EQ(memory_[page_], 1);
  }

  const std::size_t page_ = os::system_page_size();
  volatile unsigned char* memory_ = nullptr;
};

TEST_F(hardened_guard_test, by_protection) {
  ASSERT_TRUE(os::protect_guard(at(1), page_));
  expect_guarded_and_remove();
}

TEST_F(hardened_guard_test, by_markers) {
  if (!os::mark_guard(at(1), page_)) GTEST_SKIP() << "this kernel has no guard markers";
  expect_guarded_and_remove();
}

TEST_F(hardened_guard_test, memory_that_is_not_there_gets_none) {
  munmap(at(1), page_);
  EXPECT_FALSE(os::mark_guard(at(1), page_));
  EXPECT_FALSE(os::protect_guard(at(1), page_));
  EXPECT_FALSE(os::remove_guard(at(1), page_));
}

}  // namespace
}  // namespace tarn
