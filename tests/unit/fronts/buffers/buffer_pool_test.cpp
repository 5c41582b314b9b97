// SPDX-License-Identifier: MIT
// buffer_pool and buffer: every promise of tarn/buffer_pool.hpp. Compiled a second time with checked pools.
#include "tarn/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "../../bytes.hpp"
#include "background/decay.hpp"
#include "base/compiler.hpp"
#include "engine/engine.hpp"
#include "engine/restore.hpp"
#include "fronts/buffers/buffer_registry.hpp"
#include "os/clock.hpp"
#include "tarn/process.hpp"

namespace tarn {
namespace {

using namespace std::chrono_literals;
using testing_support::restore_options;

constexpr bool has_background_thread = !TARN_TSAN && !TARN_ASAN;

void fill(const buffer& b, int value) { std::memset(b.data(), value, b.size()); }
bool all_are(const buffer& b, int value) { return testing_support::all_bytes_are(b.data(), b.size(), value); }
template <class Condition>
bool wait_until(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

// Without a background thread, so that only the test itself ages buffers.
class buffer_pool_test : public testing::Test {
 protected:
  buffer_pool_test() { tarn_set_option("background", "off"), tarn_set_option("decay_ms", "-1"); }
  ~buffer_pool_test() override {
    tarn_trim(0);
    engine::heap.validate();
  }
  restore_options restore_;
};

static_assert(!std::is_copy_constructible_v<buffer> && std::is_nothrow_move_constructible_v<buffer> &&
              std::is_nothrow_move_assignable_v<buffer>);

TEST_F(buffer_pool_test, a_buffer_is_what_was_asked_for) {
  buffer_pool pool;
  for (const std::size_t bytes : {0UL, 1UL, 65536UL, 65537UL, 1000000UL, 33554432UL}) {
    buffer b = pool.get(bytes);
    ASSERT_TRUE(b);
    EXPECT_EQ(b.size(), bytes);
    EXPECT_GE(b.capacity(), std::max<std::size_t>(bytes, 65536));
    EXPECT_EQ(b.span().data(), b.data());
    EXPECT_EQ(b.span().size(), bytes);
    EXPECT_EQ(address_of(b.data()) % page_size, 0U);
    std::memset(b.data(), 1, b.capacity());
  }
  EXPECT_EQ(pool.stats().live, 0U);
}

TEST_F(buffer_pool_test, the_next_one_of_the_length_is_the_same) {
  buffer_pool pool;
  std::byte* const first = pool.get(8 * mib).data();
  EXPECT_EQ(pool.get(8 * mib).data(), first);
  EXPECT_EQ(pool.get(7 * mib).data(), first);
  const buffer_pool_stats stats = pool.stats();
  EXPECT_EQ(stats.gets, 3U);
  EXPECT_EQ(stats.hits, 2U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.kept, 1U);
  EXPECT_GE(stats.kept_bytes, 8 * mib);
}

TEST_F(buffer_pool_test, no_more_than_a_quarter_is_wasted) {
  buffer_pool pool;
  for (const std::size_t mibs :
       std::initializer_list<std::size_t>{64, 9, 30, 3, 17, 64, 5, 40, 1, 64, 2, 50}) {
    const std::size_t bytes = mibs * mib;
    const buffer b = pool.get(bytes);
    EXPECT_LE(b.capacity(), bytes + bytes / 4 + 16 * kib) << mibs;
  }
}

TEST_F(buffer_pool_test, best_fit) {
  buffer_pool pool;
  std::optional<buffer> a = pool.get(11 * mib);
  std::optional<buffer> b = pool.get(10 * mib);
  std::optional<buffer> c = pool.get(12 * mib);
  std::byte* const places[] = {a->data(), b->data(), c->data()};
  a.reset(), b.reset(), c.reset();
  EXPECT_EQ(pool.get(10 * mib).data(), places[1]);
  EXPECT_EQ(pool.get(10 * mib + 64 * kib).data(), places[0]);
  EXPECT_EQ(pool.get(11 * mib + 64 * kib).data(), places[2]);
  EXPECT_EQ(pool.stats().misses, 3U);
}

TEST_F(buffer_pool_test, a_longer_one_is_cut) {
  buffer_pool pool;
  std::byte* const whole = pool.get(64 * mib).data();
  buffer a = pool.get(16 * mib);
  EXPECT_EQ(a.data(), whole);
  buffer b = pool.get(16 * mib);
  EXPECT_EQ(b.data(), whole + a.capacity() + (TARN_CHECKED_POOLS ? 4 * kib : 0));
  buffer c = pool.get(16 * mib);
  EXPECT_EQ(pool.stats().misses, 1U);
  fill(a, 1), fill(b, 2), fill(c, 3);
  EXPECT_TRUE(all_are(a, 1) && all_are(b, 2) && all_are(c, 3));
}

// One buffer at a time, of many lengths: most are served from kept memory, whose size stays bounded.
TEST_F(buffer_pool_test, lengths_that_change_reuse_the_same_memory) {
  buffer_pool pool;
  for (int round = 0; round < 20; ++round) {
    for (const std::size_t mibs : std::initializer_list<std::size_t>{8, 64, 16, 32, 8, 24, 48, 12}) {
      const buffer b = pool.get(mibs * mib);
      b.data()[0] = b.data()[b.size() - 1] = std::byte{1};
    }
  }
  EXPECT_LE(pool.stats().kept_bytes, 140 * mib);
  EXPECT_GE(pool.stats().hits, 100U);
}

TEST_F(buffer_pool_test, moved_and_released) {
  buffer_pool pool;
  buffer a = pool.get(100000);
  std::byte* const data = a.data();
  const std::size_t capacity = a.capacity();
  buffer b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(a.size(), 0U);
  EXPECT_EQ(a.capacity(), 0U);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(b.capacity(), capacity);
  buffer other = pool.get(200000);
  other = std::move(b);
  EXPECT_EQ(other.data(), data);
  EXPECT_EQ(pool.stats().live, 1U);
  std::byte* const raw = other.release();
  EXPECT_FALSE(other);
  EXPECT_EQ(pool.stats().live, 1U);
  pool.give_back(raw);
  pool.give_back(nullptr);
  EXPECT_EQ(pool.stats().live, 0U);
  other.reset();
  buffer empty;
  swap(empty, other);
  EXPECT_FALSE(empty);
}

TEST_F(buffer_pool_test, alignment) {
  for (const std::size_t alignment :
       {std::size_t{1}, std::size_t{512}, std::size_t{4096}, 2 * mib, 64 * mib}) {
    buffer_pool pool({.alignment = alignment});
    buffer longer = pool.get(20 * mib);
    EXPECT_EQ(address_of(longer.data()) % alignment, 0U);
    longer.reset();
    std::vector<buffer> all;
    for (int i = 0; i < 5; ++i) all.push_back(pool.get(3 * mib));
    for (const buffer& b : all) {
      EXPECT_EQ(address_of(b.data()) % std::max<std::size_t>(alignment, 4096), 0U);
      EXPECT_EQ(b.capacity() % 4096, 0U);
      fill(b, 1);
    }
  }
}

TEST_F(buffer_pool_test, alignments_that_are_none_are_refused) {
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, std::size_t{4097}, 2 * gib}) {
    try {
      buffer_pool pool({.alignment = alignment});
      FAIL() << alignment;
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), EINVAL);
      EXPECT_NE(std::string(error.what()).find("alignment"), std::string::npos) << error.what();
    }
  }
}

TEST_F(buffer_pool_test, more_than_there_is) {
  buffer_pool pool;
  for (const std::size_t bytes :
       {std::size_t{1} << 50, ~std::size_t{0}, ~std::size_t{0} - 65536, std::size_t{1} << 46}) {
    EXPECT_THROW((void)pool.get(bytes), std::bad_alloc);
    errno = 0;
    EXPECT_FALSE(pool.try_get(bytes));
    EXPECT_EQ(errno, ENOMEM);
  }
  EXPECT_EQ(pool.stats().gets, 0U);
  EXPECT_TRUE(pool.try_get(1 * mib));
}

TEST_F(buffer_pool_test, zeroed) {
  buffer_pool pool({.zeroed = true});
  for (const std::size_t bytes : {1 * mib, 10 * mib, 9 * mib, 3 * mib, 30 * mib}) {
    buffer b = pool.get(bytes);
    EXPECT_TRUE(all_are(b, 0));
    fill(b, 7);
  }
  const buffer_pool_stats stats = pool.stats();
  EXPECT_GT(stats.hits, 0U);
  EXPECT_GT(stats.zeroed_by_memset + stats.zeroed_by_system, 12 * mib);
}

TEST_F(buffer_pool_test, zeroed_also_where_others_have_written) {
  {
    buffer_pool dirty;
    buffer b = dirty.get(20 * mib);
    fill(b, 9);
  }
  void* const block = tarn_malloc(20 * mib);
  std::memset(block, 9, 20 * mib);
  tarn_free(block);
  buffer_pool pool({.zeroed = true});
  EXPECT_TRUE(all_are(pool.get(20 * mib), 0));
}

// Memory that reserve() has zeroed in advance is not zeroed again.
TEST_F(buffer_pool_test, zeroed_in_advance) {
  buffer_pool pool({.zeroed = true, .limit = 64 * mib});
  pool.reserve(20 * mib, 1);
  const std::uint64_t before = pool.stats().zeroed_by_memset + pool.stats().zeroed_by_system;
  buffer first = pool.get(8 * mib);
  buffer second = pool.get(8 * mib);
  EXPECT_EQ(pool.stats().hits, 2U);
  EXPECT_EQ(pool.stats().zeroed_by_memset + pool.stats().zeroed_by_system, before);
  EXPECT_TRUE(all_are(first, 0) && all_are(second, 0));
  fill(first, 1);
  first.reset();
  EXPECT_TRUE(all_are(pool.get(8 * mib), 0));
}

TEST_F(buffer_pool_test, the_budget_holds) {
  buffer_pool pool({.limit = 20 * mib});
  std::vector<buffer> all;
  for (int i = 0; i < 8; ++i) all.push_back(pool.get(5 * mib));
  all.clear();
  EXPECT_LE(pool.stats().kept_bytes, 20 * mib);
  EXPECT_GE(pool.stats().kept, 3U);
  EXPECT_EQ(pool.stats().leaving_bytes, 0U);
  EXPECT_GE(pool.stats().given_back, 20 * mib);
  // A buffer longer than the budget is not kept, and does not displace the kept ones.
  const std::size_t kept = pool.stats().kept_bytes;
  pool.get(30 * mib).reset();
  EXPECT_EQ(pool.stats().kept_bytes, kept);
  EXPECT_EQ(pool.stats().leaving_bytes, 0U);
}

TEST_F(buffer_pool_test, idle_buffers_go_after_their_time) {
  buffer_pool pool({.idle_time = 1000ms});
  buffer_pool forever({.idle_time = -1ms});
  (void)forever.get(5 * mib);
  (void)pool.get(5 * mib);
  (void)pool.get(50 * mib);
  const std::int64_t now = os::now_ms();
  const auto age_all = [](std::int64_t at) {
    buffer_registry::for_each([at](buffer_core& core) { core.age(at); });
  };
  age_all(now + 500);
  EXPECT_EQ(pool.stats().kept, 2U);
  age_all(now + 1500);
  EXPECT_EQ(pool.stats().kept, 0U);
  EXPECT_GE(pool.stats().given_back, 55 * mib);
  age_all(now + 1000000);
  EXPECT_EQ(forever.stats().kept, 1U);
}

TEST_F(buffer_pool_test, a_buffer_in_use_is_not_idle) {
  buffer_pool pool({.idle_time = 0ms});
  buffer b = pool.get(5 * mib);
  fill(b, 3);
  buffer_registry::for_each([](buffer_core& core) { core.age(os::now_ms() + 100000); });
  EXPECT_TRUE(all_are(b, 3));
  EXPECT_EQ(pool.stats().live_bytes, b.capacity() + (TARN_CHECKED_POOLS ? 4 * kib : 0));
}

TEST_F(buffer_pool_test, trim) {
  buffer_pool pool;
  buffer live = pool.get(1 * mib);
  (void)pool.get(5 * mib);
  EXPECT_GE(pool.trim(), 5 * mib);
  EXPECT_EQ(pool.stats().kept, 0U);
  EXPECT_EQ(pool.stats().live, 1U);
  (void)pool.get(5 * mib);
  EXPECT_GE(tarn::trim(), 5 * mib);
  EXPECT_EQ(pool.stats().kept, 0U);
}

TEST_F(buffer_pool_test, reserve) {
  buffer_pool pool({.limit = 40 * mib});
  pool.reserve(8 * mib, 3);
  EXPECT_EQ(pool.stats().kept, 3U);
  EXPECT_EQ(pool.stats().prepared, 3U);
  pool.reserve(8 * mib, 2);
  EXPECT_EQ(pool.stats().kept, 3U);
  buffer a = pool.get(8 * mib);
  buffer b = pool.get(8 * mib);
  EXPECT_EQ(pool.stats().misses, 0U);
  try {
    pool.reserve(8 * mib, 100);
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EDQUOT);
    EXPECT_NE(std::string(error.what()).find("limit"), std::string::npos);
  }
  EXPECT_THROW(pool.reserve(std::size_t{1} << 50, 1), std::bad_alloc);
  pool.reserve(8 * mib, 0);
  EXPECT_THROW(pool.reserve(8 * mib, ~std::size_t{0}), std::system_error);
}

TEST_F(buffer_pool_test, buffers_outlive_their_pool) {
  std::optional<buffer_pool> pool(std::in_place);
  buffer a = pool->get(5 * mib);
  buffer b = pool->get(5 * mib);
  fill(a, 4);
  pool.reset();
  // A new pool does not reuse the structure of an ended pool whose buffers are live.
  buffer_pool other;
  a.data()[0] = std::byte{4};
  EXPECT_TRUE(all_are(a, 4));
  a.reset();
  EXPECT_EQ(other.stats().live, 0U);
  EXPECT_EQ(other.stats().kept, 0U);
  b.reset();
  EXPECT_EQ(other.stats().kept, 0U);
}

TEST_F(buffer_pool_test, ended_pools_are_used_again) {
  const auto count = [] {
    std::size_t pools = 0;
    buffer_registry::for_each([&pools](buffer_core&) { ++pools; });
    return pools;
  };
  { buffer_pool pool; }
  const std::size_t before = count();
  for (int i = 0; i < 100; ++i) {
    buffer_pool pool;
    buffer b = pool.get(100000);
    if (i % 2 == 0) continue;
    std::optional<buffer_pool> shorter(std::in_place);
    b = shorter->get(100000);
    shorter.reset();
  }
  EXPECT_LE(count(), before + 1);
}

TEST_F(buffer_pool_test, huge_pages) {
  for (const auto huge : {buffer_huge_pages::always, buffer_huge_pages::never}) {
    buffer_pool pool({.huge_pages = huge});
    buffer b = pool.get(10 * mib);
    EXPECT_TRUE(huge == buffer_huge_pages::never || address_of(b.data()) % (2 * mib) == 0);
    fill(b, 1);
    b.reset();
    EXPECT_GE(pool.trim(), 10 * mib);
  }
}

TEST_F(buffer_pool_test, prefaulted_by_the_caller) {
  buffer_pool pool({.prefault = buffer_prefault::in_get});
  const buffer b = pool.get(10 * mib);
  EXPECT_EQ(pool.stats().misses, 1U);
  EXPECT_TRUE(b);
}

TEST_F(buffer_pool_test, names_in_statistics) {
  buffer_pool pool({.name = "frames"});
  const std::string longer(500, 'x');
  buffer_pool other({.name = longer.c_str()});
  const buffer b = pool.get(1 * mib);
  bool found = false;
  bool found_other = false;
  for (const named_buffer_pool_stats& each : tarn::buffer_pools()) {
    if (each.name == "frames") {
      found = true;
      EXPECT_EQ(each.stats.gets, 1U);
      EXPECT_EQ(each.stats.misses, 1U);
      EXPECT_EQ(each.stats.live, 1U);
      EXPECT_EQ(each.stats.live_bytes, pool.stats().live_bytes);
    }
    found_other = found_other || each.name == longer.substr(0, 127);
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(found_other);
}

TEST_F(buffer_pool_test, threads_that_end_leave_nothing_behind) {
  buffer_pool pool;
  buffer from_thread;
  std::thread([&] {
    from_thread = pool.get(5 * mib);
    fill(from_thread, 1);
    pool.get(8 * mib).reset();
  }).join();
  EXPECT_EQ(pool.stats().kept, 1U);
  EXPECT_TRUE(all_are(from_thread, 1));
  std::thread([b = std::move(from_thread)] {}).join();
  EXPECT_EQ(pool.stats().live, 0U);
  EXPECT_EQ(pool.stats().kept, 2U);
}

// ---- locked memory ----

TEST_F(buffer_pool_test, locked_buffers_are_zero_each_time) {
  locked_buffer_pool pool({.name = "keys"});
  buffer b = pool.try_get(100000);
  if (!b) GTEST_SKIP() << "RLIMIT_MEMLOCK allows no locked buffer";
  std::byte* const place = b.data();
  EXPECT_TRUE(all_are(b, 0));
  fill(b, 5);
  b.reset();
#if !TARN_ASAN
  EXPECT_EQ(place[0], std::byte{0});
  EXPECT_EQ(place[99999], std::byte{0});
#endif
  b = pool.get(100000);
  EXPECT_EQ(b.data(), place);
  EXPECT_TRUE(all_are(b, 0));
}

// ---- with the background thread ----

class buffer_pool_background : public testing::Test {
 protected:
  buffer_pool_background() { tarn_set_option("background", "on"), tarn_set_option("decay_ms", "100"); }
  restore_options restore_;
};

TEST_F(buffer_pool_background, idle_buffers_go_although_nobody_calls) {
  if (!has_background_thread) GTEST_SKIP() << "there is no background thread under sanitizers";
  buffer_pool pool({.idle_time = 100ms});
  (void)pool.get(32 * mib);
  EXPECT_EQ(pool.stats().kept, 1U);
  EXPECT_TRUE(wait_until([&] { return pool.stats().given_back >= 32 * mib; }));
  EXPECT_EQ(pool.stats().kept, 0U);
}

TEST_F(buffer_pool_background, what_is_beyond_the_budget_goes_soon) {
  if (!has_background_thread) GTEST_SKIP() << "there is no background thread under sanitizers";
  tarn_set_option("decay_ms", "-1");
  buffer_pool pool({.limit = 1 * mib});
  (void)pool.get(32 * mib);
  EXPECT_LE(pool.stats().kept_bytes, 1 * mib);
  EXPECT_TRUE(wait_until([&] { return pool.stats().given_back >= 32 * mib; }));
}

TEST_F(buffer_pool_background, buffers_are_got_ready_ahead) {
  buffer_pool pool({.prefault = buffer_prefault::ahead, .ahead = 2});
  buffer first = pool.get(8 * mib);
  EXPECT_EQ(pool.stats().misses, 1U);
  if (has_background_thread) {
    ASSERT_TRUE(wait_until([&] { return pool.stats().kept >= 2; }));
    EXPECT_EQ(pool.stats().prepared, 2U);
    const buffer second = pool.get(8 * mib);
    const buffer third = pool.get(8 * mib);
    EXPECT_EQ(pool.stats().misses, 1U);
    EXPECT_TRUE(wait_until([&] { return pool.stats().prepared == 4; }));
  }
  first.reset();
}

}  // namespace
}  // namespace tarn
