// SPDX-License-Identifier: MIT
// free_mark: setting and clearing, and the secret that a mark depends on.
#include "slots/free_mark.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstring>
#include <vector>

#include "engine/engine.hpp"

namespace tarn {
namespace {

// The first allocation chooses the secret.
const bool prepared = engine::attach_thread() != nullptr;

TEST(free_mark, is_set_until_it_is_cleared) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  std::uint64_t object[2] = {};
  EXPECT_FALSE(free_mark::is_set(object));
  free_mark::set(object);
  EXPECT_TRUE(free_mark::is_set(object));
  EXPECT_EQ(object[1], 0U) << "a word other than the first has changed";
  free_mark::clear(object);
  EXPECT_FALSE(free_mark::is_set(object));
  EXPECT_EQ(object[0], 0U);
}

TEST(free_mark, half_of_it_is_none) {
  std::uint64_t object = 0;
  for (const std::uint64_t one_bit : {std::uint64_t{1}, std::uint64_t{1} << 63}) {
    free_mark::set(&object);
    object ^= one_bit;
    EXPECT_FALSE(free_mark::is_set(&object));
  }
}

TEST(free_mark, of_one_object_means_nothing_in_another) {
  std::vector<std::uint64_t> objects(1000);
  for (std::size_t i = 1; i < objects.size(); ++i) {
    free_mark::set(&objects[0]);
    std::memcpy(&objects[i], &objects[0], sizeof objects[0]);
    EXPECT_FALSE(free_mark::is_set(&objects[i]));
  }
}

TEST(free_mark, has_a_secret_that_is_read_only) {
  ASSERT_TRUE(prepared);
  EXPECT_NE(free_mark::secret.value, 0U);
  if (TARN_TSAN || TARN_ASAN) return;  // sanitizers handle SIGSEGV themselves
  EXPECT_EXIT(*const_cast<volatile std::uintptr_t*>(&free_mark::secret.value) = 1,
              testing::KilledBySignal(SIGSEGV), "");
}

TEST(free_mark, is_neither_a_pointer_nor_a_small_number) {
  if (hardened_build) GTEST_SKIP() << "the hardened build has no marks";
  std::uint64_t object = 0;
  free_mark::set(&object);
  EXPECT_NE(object >> 47, 0U);
  EXPECT_NE(static_cast<std::int64_t>(object) >> 47, -1);
}

}  // namespace
}  // namespace tarn
