// SPDX-License-Identifier: MIT
// arena_table: indices, destroyed arenas, and the most that there may be; names that do not exist.
#include "malloc/jemalloc/arena_table.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "malloc/jemalloc/exported.hpp"
#include "malloc/jemalloc/identity.hpp"

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

// What jemalloc has and no program was found to ask for.
TEST(arena_table, other_names_of_jemalloc_are_unknown) {
  for (const char* name :
       {"prof.active", "thread.prof.name", "thread.arena", "thread.idle", "config.prof", "opt.retain",
        "tcache.flush", "arena.0.dss", "arena.0.name", "arenas.lookup", "arenas.quantum",
        "arenas.bin.0.slab_size", "stats.metadata_thp", "stats.arenas.4097.pactive",
        "stats.arenas.0.bins.0.nslabs", "experimental.utilization.query", "approximate_stats.active"}) {
    std::uint64_t value = 0;
    std::size_t length = sizeof value;
    EXPECT_EQ(mallctl(name, &value, &length, nullptr, 0), ENOENT) << name;
    std::size_t mib[8];
    std::size_t parts = 8;
    EXPECT_EQ(mallctlnametomib(name, mib, &parts), ENOENT) << name;
  }
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
