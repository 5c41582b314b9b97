// SPDX-License-Identifier: MIT
// structure_store: numbers, memory that goes back and comes again, and the invariants.
#include "pages/structure_store.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "../broken_invariant.hpp"
#include "os/memory.hpp"

namespace tarn {

class structure_store_test_access {
 public:
  static std::uint32_t& taken(structure_store& s) { return s.taken_; }
  static std::size_t& idle_bytes(structure_store& s) { return s.idle_bytes_; }
  static std::uint32_t& first_free(structure_store& s) { return s.first_free_; }
  static std::uint8_t& carved(structure_store& s) { return s.slabs_[0].carved; }
  static void hold(structure_store& s) {
    std::uint32_t next = 0;
    s.slabs_[0].aged = true;
    s.hold_next(next);
  }
};

namespace {

using access = structure_store_test_access;
constexpr std::size_t structure_bytes = 1000;
constexpr std::uint32_t some = 3 * structure_store::per_slab;

class structure_store_test : public testing::Test {
 protected:
  ~structure_store_test() override { store.validate_locked(); }
  void take(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) std::memset(store.take().memory, 0xa5, structure_bytes);
  }
  void put(std::uint32_t from, std::uint32_t end) {
    for (std::uint32_t i = from; i < end; ++i) store.put(i);
  }
  std::uint32_t carved() {
    std::uint32_t count = 0;
    store.for_each_carved(true, [&](void*) { ++count; });
    return count;
  }

  os::mutex lock{os::lock_rank::pools};
  metadata_arena arena;
  block_store blocks{arena};
  structure_store store{arena, blocks, structure_bytes, cache_line};
};

TEST_F(structure_store_test, the_lowest_free_number_is_taken) {
  for (std::uint32_t i = 0; i < some; ++i) EXPECT_EQ(store.take().number, i);
  for (const std::uint32_t number : {100U, 5U, 70U}) {
    store.put(number);
    EXPECT_FALSE(store.is_taken(number));
  }
  for (const std::uint32_t number : {5U, 70U, 100U, some}) {
    const structure_store::structure got = store.take();
    EXPECT_EQ(got.number, number);
    EXPECT_EQ(got.memory, store.at(number));
    EXPECT_TRUE(store.is_taken(number));
  }
  EXPECT_EQ(store.taken(), some + 1);
}

TEST_F(structure_store_test, a_slab_without_structures_goes_back_after_a_period) {
  const std::size_t before = arena.used();
  take(some);
  const std::size_t full = arena.used();
  put(0, some - 1);
  EXPECT_GE(store.idle_bytes(), 2 * structure_store::per_slab * structure_bytes);
  store.age(lock);
  EXPECT_EQ(arena.used(), full);
  store.age(lock);
  EXPECT_EQ(store.idle_bytes(), 0U);
  EXPECT_EQ(carved(), structure_store::per_slab) << "those of the last slab";
  EXPECT_LE(arena.used(), full - 2 * structure_store::per_slab * structure_bytes);
  const auto* const again = static_cast<const unsigned char*>(store.take().memory);
  EXPECT_TRUE(again[0] == 0 && std::memcmp(again, again + 1, structure_bytes - 1) == 0);
  put(0, 1);
  put(some - 1, some);
  for (int period = 0; period < 2; ++period) store.age(lock);
  EXPECT_LE(arena.used(), before + 1000) << "the array of slabs";
}

TEST_F(structure_store_test, what_was_used_in_between_stays) {
  take(1);
  put(0, 1);
  store.age(lock);
  take(1);
  put(0, 1);
  store.age(lock);
  EXPECT_EQ(carved(), 1U);
  store.age(lock);
  EXPECT_EQ(carved(), 0U);
}

TEST_F(structure_store_test, locked_memory_is_asked_for_once) {
  take(1);
  if (mlock(store.at(0), 1) != 0) GTEST_SKIP() << "the system locks no memory";
  put(0, 1);
  for (int period = 0; period < 2; ++period) store.age(lock);
  EXPECT_EQ(store.idle_bytes(), 0U) << "decay would run for ever";
  munlock(store.at(0), 1);
  take(1);
  put(0, 1);
  EXPECT_GE(store.idle_bytes(), structure_bytes);
  for (int period = 0; period < 2; ++period) store.age(lock);
  EXPECT_EQ(carved(), 0U);
}

TEST_F(structure_store_test, a_forked_child_has_what_another_thread_was_giving_back) {
  take(some);
  put(0, some);
  std::thread([this] { access::hold(store); }).join();
  EXPECT_EQ(store.take().number, structure_store::per_slab);
  store.put(structure_store::per_slab);
  store.forget_holds();
  EXPECT_EQ(store.take().number, 0U);
}

// A handler that forks has interrupted age(), which goes on in the child.
TEST_F(structure_store_test, a_forked_child_leaves_what_its_own_thread_gives_back) {
  take(some);
  put(0, some);
  access::hold(store);
  store.forget_holds();
  EXPECT_EQ(store.take().number, structure_store::per_slab);
  store.put(structure_store::per_slab);
  std::thread([this] { store.forget_holds(); }).join();  // for the destructor's validation: all are free
}

TEST(structure_store_death, finds_a_broken_invariant) {
  const auto expect = [](const char* equation, void (*inflict)(structure_store&)) {
    static metadata_arena arena;
    static block_store blocks{arena};
    structure_store store{arena, blocks, structure_bytes, cache_line};
    for (int i = 0; i < 100; ++i) store.take();
    for (std::uint32_t i = 64; i < 100; ++i) store.put(i);
    store.validate_locked();
    EXPECT_DEATH(
        {
          inflict(store);
          store.validate_locked();
        },
        testing_support::literally(std::string("broken invariant of structure_store: ") + equation));
  };
  expect("taken == taken_", [](structure_store& s) { ++access::taken(s); });
  expect("idle == idle_bytes_", [](structure_store& s) { access::idle_bytes(s) += structure_bytes; });
  expect("i >= first_free_ || s.free == 0", [](structure_store& s) { access::first_free(s) = 2; });
  expect("s.carved == per_slab || (~s.free >> s.carved) == 0",
         [](structure_store& s) { access::carved(s) = 10; });
}

}  // namespace
}  // namespace tarn
