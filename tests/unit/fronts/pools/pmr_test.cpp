// SPDX-License-Identifier: MIT
// The memory resources with the standard library: every kind of container, chains of upstream resources, equality, and
// allocators that containers pass on.
#include <gtest/gtest.h>

#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tarn/arena.hpp"
#include "tarn/buffer_pool.hpp"
#include "tarn/resources.hpp"

namespace {

// Counts what passes, and checks that blocks come back with the size and alignment with which they left.
class watched_resource : public std::pmr::memory_resource {
 public:
  explicit watched_resource(std::pmr::memory_resource* below = std::pmr::new_delete_resource())
      : below_(below) {}
  ~watched_resource() override { EXPECT_TRUE(live_.empty()) << live_.size() << " blocks are left"; }
  [[nodiscard]] std::size_t live() const { return live_.size(); }
  std::size_t allocations = 0;

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++allocations;
    void* const block = below_->allocate(bytes, alignment);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
    live_.emplace(block, std::pair(bytes, alignment));
    return block;
  }
  void do_deallocate(void* block, std::size_t bytes, std::size_t alignment) override {
    const auto found = live_.find(block);
    ASSERT_TRUE(found != live_.end());
    EXPECT_EQ(found->second, std::pair(bytes, alignment));
    live_.erase(found);
    below_->deallocate(block, bytes, alignment);
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  std::pmr::memory_resource* below_;
  std::map<void*, std::pair<std::size_t, std::size_t>> live_;
};

using pmr_text = std::pmr::string;
const char* const long_text = "a text that is too long for the string's own buffer";

// Fills one container of each kind, moves, swaps and copies them, and empties them.
void use_containers(std::pmr::memory_resource* memory) {
  std::pmr::vector<pmr_text> texts(memory);
  std::pmr::list<pmr_text> list(memory);
  std::pmr::forward_list<int> forward(memory);
  std::pmr::deque<pmr_text> deque(memory);
  std::pmr::map<pmr_text, std::pmr::vector<int>> map(memory);
  std::pmr::multiset<int> set(memory);
  std::pmr::unordered_map<int, pmr_text> table(memory);
  std::pmr::unordered_set<pmr_text> words(memory);
  for (int i = 0; i < 2000; ++i) {
    texts.emplace_back(long_text);
    list.emplace_back(long_text);
    forward.push_front(i);
    deque.emplace_back(long_text);
    map[pmr_text(std::to_string(i % 100), memory)].push_back(i);
    set.insert(i % 7);
    table.emplace(i, long_text);
    words.emplace(std::to_string(i));
  }
  // The elements use the container's resource, too.
  EXPECT_EQ(texts.front().get_allocator().resource(), memory);
  EXPECT_EQ(map.begin()->second.get_allocator().resource(), memory);
  EXPECT_EQ(table.begin()->second.get_allocator().resource(), memory);
  std::pmr::vector<pmr_text> moved(std::move(texts));
  EXPECT_EQ(moved.get_allocator().resource(), memory);
  std::pmr::list<pmr_text> other(memory);
  other.splice(other.end(), list);
  other.sort();
  std::pmr::map<pmr_text, std::pmr::vector<int>> merged(memory);
  merged.merge(map);
  std::pmr::unordered_map<int, pmr_text> copied(table);  // of the default resource
  EXPECT_EQ(copied.get_allocator().resource(), std::pmr::get_default_resource());
  deque.shrink_to_fit();
  for (int i = 0; i < 2000; i += 2) table.erase(i);
  std::size_t sum = moved.size() + other.size() + deque.size() + set.size() + table.size() + words.size();
  for (const auto& [key, values] : merged) sum += values.size();
  EXPECT_EQ(sum, 6U * 2000U + 1000U);
  std::pmr::cmatch found;
  EXPECT_TRUE(std::regex_search(long_text, found, std::regex("too (long)")));
}

template <class Resource>
class resources : public testing::Test {};
using pool_resources = testing::Types<tarn::pool_resource, tarn::local_pool_resource>;
TYPED_TEST_SUITE(resources, pool_resources);

TYPED_TEST(resources, every_container) {
  watched_resource below;
  {
    TypeParam memory(&below);
    use_containers(&memory);
    EXPECT_GT(below.allocations, 0U) << "large blocks come from the upstream resource";
    EXPECT_EQ(below.live(), 0U);
    EXPECT_EQ(memory.stats().live, 0U);
  }
}

TYPED_TEST(resources, chains_of_resources) {
  watched_resource below;
  {
    tarn::buffer_resource large(&below);
    TypeParam pools(&large);
    watched_resource middle(&pools);
    std::pmr::monotonic_buffer_resource top(&middle);
    use_containers(&top);
    top.release();
    std::pmr::unsynchronized_pool_resource standard(&pools);
    use_containers(&standard);
    EXPECT_EQ(pools.upstream_resource(), &large);
  }
  EXPECT_EQ(below.live(), 0U);
}

TYPED_TEST(resources, are_equal_to_themselves_only) {
  TypeParam one;
  TypeParam other;
  EXPECT_TRUE(one.is_equal(one));
  EXPECT_FALSE(one.is_equal(other));
  EXPECT_FALSE(one.is_equal(*std::pmr::new_delete_resource()));
  // So a move between containers of different resources moves element by element, and each keeps its own.
  std::pmr::vector<pmr_text> from({long_text, long_text}, &one);
  std::pmr::vector<pmr_text> to(&other);
  to = std::move(from);
  EXPECT_EQ(to.get_allocator().resource(), &other);
  EXPECT_EQ(to.at(1).get_allocator().resource(), &other);
  EXPECT_EQ(to.at(1), long_text);
}

TYPED_TEST(resources, as_the_default_resource) {
  TypeParam memory;
  std::pmr::memory_resource* const before = std::pmr::set_default_resource(&memory);
  {
    std::pmr::vector<pmr_text> texts(10, pmr_text(long_text));
    EXPECT_EQ(texts.get_allocator().resource(), &memory);
    EXPECT_GT(memory.stats().live, 0U);
  }
  std::pmr::set_default_resource(before);
  EXPECT_EQ(memory.stats().live, 0U);
}

TYPED_TEST(resources, shared_pointers_and_polymorphic_allocators) {
  TypeParam memory;
  {
    const std::pmr::polymorphic_allocator<> allocator(&memory);
    const auto shared = std::allocate_shared<std::pmr::vector<int>>(allocator, 100, 7);
    EXPECT_EQ(shared->get_allocator().resource(), &memory) << "allocate_shared passes the allocator on";
    auto* const bytes =
        static_cast<char*>(std::pmr::polymorphic_allocator<>(&memory).allocate_bytes(5000, 4096));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(bytes) % 4096, 0U);
    std::pmr::polymorphic_allocator<>(&memory).deallocate_bytes(bytes, 5000, 4096);
    auto* const object = std::pmr::polymorphic_allocator<>(&memory).new_object<pmr_text>(long_text);
    std::pmr::polymorphic_allocator<>(&memory).delete_object(object);
  }
  EXPECT_EQ(memory.stats().live, 0U);
}

TEST(arena_resources, every_container_and_chains) {
  tarn::arena arena;
  tarn::arena_resource memory(arena);
  use_containers(&memory);
  std::pmr::unsynchronized_pool_resource standard(&memory);
  use_containers(&standard);
  tarn::local_pool_resource pools(&memory);
  use_containers(&pools);
}

TEST(buffer_resources, every_container_and_equality) {
  watched_resource below;
  {
    tarn::buffer_pool pool;
    tarn::buffer_resource one(pool, &below);
    tarn::buffer_resource same(pool, &below);
    tarn::buffer_resource other(&below);
    EXPECT_TRUE(one.is_equal(same));
    EXPECT_FALSE(one.is_equal(other));
    use_containers(&one);
    // Equal resources: a move takes the memory, although the objects differ.
    std::pmr::vector<char> from(1000000, 'x', &one);
    const char* const data = from.data();
    std::pmr::vector<char> to(&same);
    to = std::move(from);
    EXPECT_EQ(to.data(), data);
  }
  EXPECT_EQ(below.live(), 0U);
}

TEST(pool_resources, one_thread_allocates_and_another_frees) {
  tarn::pool_resource memory;
  std::pmr::list<pmr_text> texts(&memory);
  for (int i = 0; i < 10000; ++i) texts.emplace_back(long_text);
  std::thread([&texts] { texts.clear(); }).join();
  EXPECT_EQ(memory.stats().live, 0U);
}

}  // namespace
