// SPDX-License-Identifier: MIT
// buffer_memory: prefaulting, zeroing, locking and wiping of a span, checked with mincore and the bytes.
#include "fronts/buffers/buffer_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "../../../system_probes.hpp"
#include "../../bytes.hpp"
#include "engine/engine.hpp"
#include "os/memory.hpp"

namespace tarn {
namespace {

span* take(std::size_t bytes) {
  engine::attach_thread();
  return engine::central_tier.take_pages(pages_for(bytes), 1, span_state::kept, page_heap::use::sparse);
}
std::size_t resident_pages(const span* s) {
  std::vector<unsigned char> pages(s->bytes() / os::system_page_size());
  EXPECT_EQ(mincore(reinterpret_cast<void*>(s->start), s->bytes(), pages.data()), 0);
  return static_cast<std::size_t>(
      std::count_if(pages.begin(), pages.end(), [](unsigned char p) { return (p & 1) != 0; }));
}
bool all_are(const span* s, unsigned char value) {
  return testing_support::all_bytes_are(reinterpret_cast<const void*>(s->start), s->bytes(), value);
}

TEST(buffer_memory, prefault_backs_all_and_changes_nothing) {
  if (!system_probes::advice_is_carried_out()) GTEST_SKIP() << system_probes::no_advice;
  span* const s = take(9 * mib);
  ASSERT_NE(s, nullptr);
  auto* const last = reinterpret_cast<unsigned char*>(s->end() - 1);
  *last = 42;
  buffer_memory::prefault(s);
  EXPECT_EQ(resident_pages(s), s->bytes() / os::system_page_size());
  EXPECT_EQ(*last, 42);
  engine::heap.release_to_system(s);
}

TEST(buffer_memory, used_bytes_are_zeroed) {
  for (const bool may_drop : {false, true}) {
    for (const bool huge : {false, true}) {
      span* const s = take(3 * mib);
      std::memset(reinterpret_cast<void*>(s->start), 1, s->bytes());
      const auto zeroed = buffer_memory::zero_used(s, may_drop, huge);
      EXPECT_EQ(zeroed.by_memset + zeroed.by_system, s->bytes());
      EXPECT_TRUE(may_drop || zeroed.by_system == 0);
      EXPECT_TRUE(all_are(s, 0));
      std::memset(reinterpret_cast<void*>(s->start), 1, s->bytes());
      engine::heap.deallocate(s);
      span* const again = take(3 * mib);
      buffer_memory::zero_new(again, may_drop, huge);
      EXPECT_TRUE(all_are(again, 0));
      engine::heap.release_to_system(again);
    }
  }
}

TEST(buffer_memory, prices_are_measured_once) {
  const auto prices = buffer_memory::measured_prices();
  EXPECT_GT(prices.memset_ns, 0);
  EXPECT_GT(prices.fresh_ns, 0);
  EXPECT_GT(prices.fresh_huge_ns, 0);
  EXPECT_EQ(buffer_memory::measured_prices().memset_ns, prices.memset_ns);
  engine::heap.validate();
}

TEST(buffer_memory, locked_memory_is_resident_and_can_be_unlocked) {
  span* const s = take(64 * kib);
  if (!buffer_memory::lock(s, true)) GTEST_SKIP() << "RLIMIT_MEMLOCK allows no locked buffer";
  EXPECT_EQ(resident_pages(s), s->bytes() / os::system_page_size());
  // The system refuses to drop locked pages.
  EXPECT_FALSE(os::purge(reinterpret_cast<void*>(s->start), s->bytes()));
  buffer_memory::unlock(s, true);
  EXPECT_TRUE(os::purge(reinterpret_cast<void*>(s->start), s->bytes()));
  engine::heap.release_to_system(s);
}

TEST(buffer_memory, wipe_zeroes) {
  std::vector<unsigned char> bytes(1000, 1);
  buffer_memory::wipe(bytes.data(), bytes.size());
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0), 1000);
}

}  // namespace
}  // namespace tarn
