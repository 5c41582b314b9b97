// SPDX-License-Identifier: MIT
// arena_resource: containers of std::pmr in an arena, alignment, failure, equality.
#include "tarn/resources.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace tarn {
namespace {

TEST(arena_resource_test, containers_live_in_the_arena) {
  arena a;
  arena_resource resource(a);
  {
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> table(&resource);
    for (int i = 0; i < 2000; ++i) {
      auto& row =
          table[std::pmr::string("a key too long for the string itself ") + std::to_string(i).c_str()];
      for (int k = 0; k < i % 50; ++k) row.push_back(k);
    }
    EXPECT_EQ(table.size(), 2000U);
    EXPECT_GT(a.bytes_used(), 2000U * 60);
    for (auto& [key, row] : table) {
      ASSERT_EQ(key.get_allocator().resource(), &resource);
      for (std::size_t k = 0; k < row.size(); ++k) ASSERT_EQ(row[k], static_cast<int>(k));
    }
    std::pmr::unordered_map<int, int> squares(&resource);
    for (int i = 0; i < 5000; ++i) squares[i] = i * i;
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(squares.at(i), i * i);
  }
  a.reset();
  EXPECT_EQ(a.bytes_used(), 0U);
}

TEST(arena_resource_test, containers_without_destruction) {
  arena a;
  arena_resource resource(a);
  auto* const words = a.create_without_destructor<std::pmr::vector<std::pmr::string>>(&resource);
  for (int i = 0; i < 100; ++i)
    words->emplace_back("so long that it needs memory of its own: " + std::to_string(i));
  EXPECT_EQ(words->back(), "so long that it needs memory of its own: 99");
}

TEST(arena_resource_test, alignment_and_failure) {
  arena a;
  arena_resource resource(a);
  std::pmr::memory_resource& any = resource;
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void* const memory = any.allocate(33, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0U);
  }
  const volatile std::size_t too_much = SIZE_MAX - 100;  // volatile: GCC warns of the size as a constant
  EXPECT_THROW((void)any.allocate(too_much, 8), std::bad_alloc);
  EXPECT_THROW((void)any.allocate(std::size_t{1} << 48, 8), std::bad_alloc);
}

TEST(arena_resource_test, takes_the_last_block_back) {
  arena a;
  arena_resource resource(a);
  for (int i = 0; i < 100'000; ++i) {
    const std::pmr::string text("temporary and too long for the string itself", &resource);
    ASSERT_EQ(text.size(), 44U);
  }
  EXPECT_LE(a.bytes_used(), 64U);
}

TEST(arena_resource_test, equal_to_itself_alone) {
  arena a;
  const arena_resource one(a);
  const arena_resource two(a);
  EXPECT_TRUE(one.is_equal(one));
  EXPECT_FALSE(one.is_equal(two));
  EXPECT_FALSE(one.is_equal(*std::pmr::new_delete_resource()));
  EXPECT_EQ(&one.upstream(), &a);
}

}  // namespace
}  // namespace tarn
