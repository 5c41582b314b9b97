// SPDX-License-Identifier: MIT
// arena_table: indices, names, destroyed arenas, and the most that there may be.
#include "jemalloc/arena_table.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "jemalloc/exported.hpp"
#include "jemalloc/identity.hpp"

namespace tarn::jemalloc {
namespace {

TEST(arena_table, gives_the_index_of_a_destroyed_arena_again) {
  unsigned first = 0;
  unsigned second = 0;
  ASSERT_EQ(arenas.create(first), 0);
  ASSERT_EQ(arenas.create(second), 0);
  EXPECT_NE(first, second);
  EXPECT_TRUE(arenas.exists(first));
  EXPECT_EQ(arenas.destroy(first), 0);
  EXPECT_FALSE(arenas.exists(first));
  EXPECT_TRUE(arenas.has_destroyed());
  EXPECT_EQ(arenas.destroy(first), EFAULT);
  EXPECT_EQ(arenas.reset(first), EFAULT);
  unsigned again = 0;
  ASSERT_EQ(arenas.create(again), 0);
  EXPECT_EQ(again, first);
  EXPECT_EQ(arenas.destroy(again), 0);
  EXPECT_EQ(arenas.destroy(second), 0);
}

TEST(arena_table, refuses_the_arena_of_malloc_and_foreign_indices) {
  EXPECT_TRUE(arenas.exists(0));
  EXPECT_EQ(arenas.find(0), nullptr);
  for (const std::size_t index : {std::size_t{0}, std::size_t{100000}, all_arenas, SIZE_MAX}) {
    EXPECT_EQ(arenas.reset(index), EFAULT);
    EXPECT_EQ(arenas.destroy(index), EFAULT);
  }
}

// Debian's jemalloc crashes here.
TEST(arena_table, is_not_made_for_a_caller_without_room) {
  EXPECT_EQ(mallctl("arenas.create", nullptr, nullptr, nullptr, 0), EINVAL);
  EXPECT_EQ(mallctl("tcache.create", nullptr, nullptr, nullptr, 0), EINVAL);
  EXPECT_EQ(mallctl(nullptr, nullptr, nullptr, nullptr, 0), EINVAL);
  EXPECT_EQ(mallctlnametomib(nullptr, nullptr, nullptr), EINVAL);
  EXPECT_EQ(mallctlbymib(nullptr, 3, nullptr, nullptr, nullptr, 0), EINVAL);
}

TEST(arena_table, looks_only_blocks_up) {
  unsigned index = 77;
  std::size_t length = sizeof index;
  void* nowhere = &index;
  EXPECT_EQ(mallctl("arenas.lookup", &index, &length, &nowhere, sizeof nowhere), EINVAL);
  void* null = nullptr;
  EXPECT_EQ(mallctl("arenas.lookup", &index, &length, &null, sizeof null), EINVAL);
  EXPECT_EQ(index, 77U);
  void* block = mallocx(100, 0);
  EXPECT_EQ(mallctl("arenas.lookup", &index, &length, &block, sizeof block), 0);
  EXPECT_EQ(index, 0U);
  dallocx(block, 0);
}

TEST(arena_table, names_arenas) {
  unsigned index = 0;
  ASSERT_EQ(arenas.create(index), 0);
  char name[arena_table::longest_name];
  ASSERT_TRUE(arenas.copy_name(0, name));
  EXPECT_STREQ(name, "auto_0");
  ASSERT_TRUE(arenas.set_name(index, "a name that is longer than the thirty-one bytes"));
  ASSERT_TRUE(arenas.copy_name(index, name));
  EXPECT_EQ(std::strlen(name), arena_table::longest_name - 1);
  EXPECT_EQ(arenas.destroy(index), 0);
  EXPECT_FALSE(arenas.copy_name(index, name));
}

TEST(arena_table, has_an_end) {
  std::vector<unsigned> made;
  unsigned index = 0;
  int result = 0;
  while ((result = arenas.create(index)) == 0) made.push_back(index);
  EXPECT_EQ(result, EAGAIN);
  EXPECT_EQ(made.size(), arena_table::most);
  for (const unsigned i : made) EXPECT_EQ(arenas.destroy(i), 0);
}

}  // namespace
}  // namespace tarn::jemalloc
