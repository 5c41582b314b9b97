// SPDX-License-Identifier: MIT
// pool_bin: what a thread's bin of a pool holds, how it grows, and what others take out of it.
#include "fronts/pools/pool_bin.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "own_pool.hpp"

namespace tarn {
namespace {

using testing_support::own_pool;
using testing_support::request_of;
using slots = own_pool::slots;

// A bin of a pool of its own, whose magazines hold at most 60 slots.
class pool_bin_test : public testing::Test {
 protected:
  static constexpr std::size_t size = 32;
  static constexpr std::size_t most = 60;

  static tarn_pool_options request(std::size_t maximum_bytes = 0) {
    tarn_pool_options out = request_of(size);
    out.magazine_length = most;
    out.limit = maximum_bytes;
    return out;
  }
  explicit pool_bin_test(std::size_t maximum_bytes = 0) : own_(request(maximum_bytes)) {
    bin_.core = &own_.pool;
    bin_.join();
  }
  ~pool_bin_test() override {
    own_.pool.put_back(bin_.take_all());
    bin_.leave();
    EXPECT_EQ(bin_.shard->bins, 0U);
  }
  void* get() {
    void* const hit = detail::pop(&bin_);
    return hit != nullptr ? hit : bin_.allocate_slow();
  }
  slots get(std::size_t count) {
    slots out(count);
    std::generate(out.begin(), out.end(), [this] { return get(); });
    return out;
  }
  void give(const slots& taken) {
    for (void* const slot : taken) {
      if (!detail::push(&bin_, slot)) {
        ASSERT_TRUE(bin_.deallocate_slow(slot));
      }
    }
  }

  own_pool own_;
  pool_bin bin_;
};

TEST_F(pool_bin_test, is_void_until_its_first_miss) {
  EXPECT_TRUE(pool_bin::is_void(&bin_));
  EXPECT_TRUE(pool_bin::is_void(pool_bin::no_bin()));
  EXPECT_EQ(bin_.count(), 0U);
  EXPECT_EQ(bin_.take_all(), nullptr);
  EXPECT_EQ(bin_.take_surplus(false), nullptr);
  void* const slot = get();
  ASSERT_NE(slot, nullptr);
  EXPECT_FALSE(pool_bin::is_void(&bin_));
  give({slot});
}

TEST_F(pool_bin_test, its_magazines_grow_with_the_misses_up_to_the_pools_length) {
  slots taken;
  for (const std::size_t expected : {std::size_t{12}, most, most}) {
    taken.push_back(get());
    EXPECT_EQ(bin_.count(), expected - 1);
    const slots rest = get(expected - 1);
    taken.insert(taken.end(), rest.begin(), rest.end());
  }
  EXPECT_EQ(own_.pool.refills(), 3U);
  EXPECT_EQ(own_.pool.hits(), 11U + 59U + 59U);
  EXPECT_EQ(own_.pool.taken(), taken.size());
  std::sort(taken.begin(), taken.end());
  EXPECT_EQ(std::adjacent_find(taken.begin(), taken.end()), taken.end());
  give(taken);
}

TEST_F(pool_bin_test, keeps_two_magazines_and_hands_the_third_over) {
  const slots taken = get(3 * most + 1);
  give(taken);
  EXPECT_GE(bin_.count(), most);
  EXPECT_LE(bin_.count(), 2 * most);
  EXPECT_EQ(bin_.count() + own_.pool.waiting(), own_.pool.taken());
  EXPECT_GE(own_.pool.waiting(), most);
}

TEST_F(pool_bin_test, all_that_is_taken_out_counts_as_moving_and_leaves_it_void) {
  give(get(2 * most));
  const std::size_t held = bin_.count();
  const std::size_t waiting = own_.pool.waiting();
  magazine* const all = bin_.take_all();
  EXPECT_TRUE(pool_bin::is_void(&bin_));
  EXPECT_EQ(bin_.count(), 0U);
  EXPECT_EQ(own_.pool.waiting(), waiting + held);
  own_.pool.put_back(all);
  EXPECT_EQ(own_.pool.waiting(), waiting);
  give(get(1));
}

TEST_F(pool_bin_test, another_thread_takes_the_spare_magazine_of_an_idle_one) {
  give(get(2 * most));
  const std::size_t held = bin_.count();
  EXPECT_EQ(bin_.take_surplus(true), nullptr) << "slow calls since the last look";
  magazine* const spare = bin_.take_surplus(true);
  ASSERT_NE(spare, nullptr);
  EXPECT_EQ(bin_.count() + spare->count, held);
  EXPECT_EQ(bin_.take_surplus(true), nullptr) << "nothing is left";
  own_.pool.put_back(spare);
}

TEST_F(pool_bin_test, another_thread_may_take_the_spare_magazine_of_a_busy_one) {
  give(get(2 * most));
  magazine* const spare = bin_.take_surplus(false);
  EXPECT_NE(spare, nullptr);
  own_.pool.put_back(spare);
}

// A pool of one span.
class pool_bin_at_limit : public pool_bin_test {
 protected:
  pool_bin_at_limit() : pool_bin_test(slot_layout::least_span_bytes) {}
  static constexpr std::size_t in_span = slot_layout::least_span_bytes / size;
};

TEST_F(pool_bin_at_limit, without_memory_it_gives_none_and_goes_on) {
  const slots taken = get(in_span);
  EXPECT_EQ(std::count(taken.begin(), taken.end(), nullptr), 0);
  EXPECT_EQ(get(), nullptr);
  EXPECT_EQ(get(), nullptr);
  EXPECT_EQ(bin_.count(), 0U);
  give({taken[5]});
  EXPECT_EQ(get(), taken[5]);
  give(taken);
}

}  // namespace
}  // namespace tarn
