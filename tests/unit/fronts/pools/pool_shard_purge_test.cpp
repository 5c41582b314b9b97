// SPDX-License-Identifier: MIT
// pool_shard: which pages of free slots a walk for idle pages gives to the system.
#include <gtest/gtest.h>

#include <cstring>

#include "../../../system_probes.hpp"
#include "fronts/pools/pool_shard.hpp"
#include "os/memory.hpp"
#include "os/memory_marks.hpp"
#include "own_pool.hpp"

namespace tarn {
namespace {

using testing_support::own_pool;
using slots = own_pool::slots;
using source = pool_shard::source;

// Spans of an ended pool are used again; in the next pool no walk has visited them yet.
TEST(pool_shard, spans_of_an_earlier_pool_are_visited_too) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  const std::size_t size = os::system_page_size();
  for (int pools = 0; pools < 2; ++pools) {
    own_pool own(size);
    const slots taken = own.get(own.pool.first_shard(), 4);
    for (void* const slot : taken) {
      memory_marks::unpoison(slot, size);
      std::memset(slot, 0x55, size);
    }
    own.give({taken[0]});
    own.give({taken[2]});
    own.pool.first_shard().purge_idle_pages();
    EXPECT_EQ(*static_cast<volatile unsigned char*>(taken[0]), 0) << pools;
    EXPECT_EQ(*static_cast<volatile unsigned char*>(taken[2]), 0) << pools;
    own.give({taken[1]});
    own.give({taken[3]});
  }
}

// Slots of 512 bytes, 8 to a page of 4 KiB.
TEST(pool_shard, pages_of_free_slots_alone_go_to_the_system_once) {
  if (os::system_page_size() != 4096) GTEST_SKIP() << "the pages are longer";
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  constexpr std::size_t size = 512;
  own_pool own(size);
  pool_shard& shard = own.pool.first_shard();
  slots taken = own.get(shard, 16);
  ASSERT_EQ(taken.size(), 16U);
  for (void* const slot : taken) {
    memory_marks::unpoison(slot, size);
    std::memset(slot, 0x55, size);
  }
  own.give(slots(taken.begin(), taken.begin() + 12));
  const std::size_t dropped = engine::map.dropped_bytes();
  shard.purge_idle_pages();
  EXPECT_EQ(engine::map.dropped_bytes(), dropped + 4096);
  EXPECT_EQ(shard.taken(), 4U);
  EXPECT_EQ(own.pool.waiting(), 0U);
  const auto byte_of = [&](std::size_t i) { return *static_cast<volatile unsigned char*>(taken[i]); };
  EXPECT_EQ(byte_of(0), 0) << "a page of free slots";
  EXPECT_EQ(byte_of(7), 0);
  EXPECT_EQ(byte_of(8), 0x55) << "on a page with a taken slot";
  EXPECT_EQ(byte_of(12), 0x55) << "taken";
  *static_cast<volatile unsigned char*>(taken[0]) = 1;
  shard.purge_idle_pages();
  EXPECT_EQ(byte_of(0), 1) << "the span has not been used since";
  own.give({taken[12]});
  shard.purge_idle_pages();
  EXPECT_EQ(byte_of(0), 0);
  EXPECT_EQ(byte_of(13), 0x55);
  // All free slots can still be handed out.
  const slots again = own.take(shard, 16, source::used);
  EXPECT_EQ(again, slots(taken.begin(), taken.begin() + 13));
  EXPECT_EQ(engine::map.dropped_bytes(), dropped);
  own.give(taken);
}

}  // namespace
}  // namespace tarn
