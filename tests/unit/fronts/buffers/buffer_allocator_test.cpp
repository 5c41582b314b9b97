// SPDX-License-Identifier: MIT
// buffer_allocator and buffer_resource: which arrays come from the pool, equality, moves and failure.
#include "tarn/buffer_pool.hpp"
#include "tarn/resources.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <memory_resource>
#include <new>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/compiler.hpp"

namespace tarn {
namespace {

using byte_vector = std::vector<std::byte, buffer_allocator<std::byte>>;

TEST(buffer_allocator, large_arrays_come_from_the_pool_small_ones_do_not) {
  buffer_pool pool;
  {
    byte_vector v(100, buffer_allocator<std::byte>(pool));
    EXPECT_EQ(pool.stats().gets, 0U);
    v.resize(1 << 20);
    EXPECT_EQ(pool.stats().live, 1U);
    v.resize(10);
    v.shrink_to_fit();
    EXPECT_EQ(pool.stats().live, 0U);
  }
  byte_vector(least_buffer_bytes - 1, buffer_allocator<std::byte>(pool));
  EXPECT_EQ(pool.stats().gets, 1U);
  byte_vector(least_buffer_bytes, buffer_allocator<std::byte>(pool));
  EXPECT_EQ(pool.stats().gets, 2U);
}

TEST(buffer_allocator, resize_does_not_write) {
  buffer_pool pool;
  const buffer_allocator<std::byte> allocator(pool);
  {
    byte_vector v(1 << 20, std::byte{7}, allocator);
    EXPECT_EQ(v.back(), std::byte{7});
  }
  const byte_vector again(1 << 20, allocator);
#if !TARN_ASAN
  EXPECT_EQ(again[1000], std::byte{7}) << "the reused memory has been written";
#endif
  const byte_vector zeroed(1 << 20, std::byte{0}, allocator);
  EXPECT_EQ(zeroed[1000], std::byte{0});
}

TEST(buffer_allocator, objects_are_constructed) {
  std::vector<std::string, buffer_allocator<std::string>> v;
  v.resize(10000);
  for (const std::string& s : v) ASSERT_TRUE(s.empty());
  v.assign(20000, "a string that is too long for its object");
  v.emplace_back(5, 'x');
  EXPECT_EQ(v.back(), "xxxxx");
  const auto copy = v;
  EXPECT_EQ(copy, v);
}

TEST(buffer_allocator, equality_and_moves) {
  buffer_pool a;
  buffer_pool b;
  const buffer_allocator<int> of_a(a);
  const buffer_allocator<int> of_b(b);
  EXPECT_EQ(of_a, buffer_allocator<long>(of_a));
  EXPECT_NE(of_a, of_b);
  EXPECT_NE(of_a, buffer_allocator<int>());
  std::vector<int, buffer_allocator<int>> one(100000, 1, of_a);
  std::vector<int, buffer_allocator<int>> two(100000, 2, of_b);
  const int* const place = one.data();
  two = std::move(one);
  EXPECT_EQ(two.data(), place);
  EXPECT_EQ(b.stats().live, 0U);
  std::vector<int, buffer_allocator<int>> three(100000, 3, of_b);
  swap(two, three);
  EXPECT_EQ(three.data(), place);
  three = two;
  EXPECT_EQ(three[5], 3);
}

struct tree {
  std::vector<tree, buffer_allocator<tree>> children;  // tree is incomplete here
};

TEST(buffer_allocator, may_be_named_with_an_incomplete_type) {
  tree root;
  root.children.resize(3);
  root.children[2].children.resize(1);
  EXPECT_EQ(root.children[2].children.size(), 1U);
}

TEST(buffer_allocator, counts_that_no_array_has) {
  buffer_allocator<double> allocator;
  EXPECT_THROW((void)allocator.allocate(~std::size_t{0} / 8), std::bad_array_new_length);
  EXPECT_THROW((void)allocator.allocate(~std::size_t{0} / 17), std::bad_alloc);
}

TEST(buffer_resource, large_blocks_from_the_pool_others_upstream) {
  buffer_pool pool;
  std::pmr::monotonic_buffer_resource upstream;
  buffer_resource resource(pool, &upstream);
  EXPECT_EQ(resource.upstream_resource(), &upstream);
  {
    std::pmr::vector<int> v(&resource);
    v.resize(1000);
    EXPECT_EQ(pool.stats().gets, 0U);
    v.resize(1000000);
    EXPECT_EQ(pool.stats().live, 1U);
    EXPECT_EQ(v[999999], 0);
  }
  EXPECT_EQ(pool.stats().live, 0U);
  void* const aligned = resource.allocate(1 << 20, 1 << 16);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(aligned) % (1 << 16), 0U);
  EXPECT_EQ(pool.stats().live, 0U);
  resource.deallocate(aligned, 1 << 20, 1 << 16);
}

TEST(buffer_resource, equality) {
  buffer_pool pool;
  buffer_resource a(pool);
  buffer_resource b(pool);
  buffer_resource c;
  EXPECT_TRUE(a.is_equal(b));
  EXPECT_FALSE(a.is_equal(c));
  EXPECT_FALSE(a.is_equal(*std::pmr::new_delete_resource()));
  EXPECT_THROW((void)a.allocate(std::size_t{1} << 50), std::bad_alloc);
}

}  // namespace
}  // namespace tarn
