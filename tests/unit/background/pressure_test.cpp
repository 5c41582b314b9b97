// SPDX-License-Identifier: MIT
// pressure: what follows from the figures of a look and the rule of option `limit`; what the engine does about it is
// tested by tests/guarantees/51_memory_below_limit.
#include "background/pressure.hpp"

#include <gtest/gtest.h>

#include "../broken_invariant.hpp"
#include "engine/instance.hpp"
#include "tarn/malloc.h"

namespace tarn::pressure {

class pressure_test_access {
 public:
  static void store(watch& w, const verdict& v) { w.store(v); }
  static std::uint64_t firm_mark(const watch& w) { return w.firm_mark_.load(); }
  // Another thread is about to look.
  static void claim_look(watch& w, std::int64_t until_ms) { w.next_look_.store(until_ms); }
};

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;
using kind = bound::kind;

os::memory_state in_group(std::uint64_t limit, std::uint64_t used) {
  os::memory_state seen;
  seen.limits = seen.group = {limit, used};
  seen.pressed = used >= os::near(limit);
  return seen;
}

TEST(pressure, by_default_the_group_decides) {
  const rule automatic;
  EXPECT_EQ(decide({}, automatic, 1000 * mib).soft, os::unlimited);
  EXPECT_EQ(decide({}, automatic, 1000 * mib).now, level::calm);
  const verdict below = decide(in_group(256 * mib, 239 * mib), automatic, 1000 * mib);
  EXPECT_EQ(below.soft, 240 * mib);
  EXPECT_EQ(below.used, 239 * mib);
  EXPECT_EQ(below.hard, os::unlimited);
  EXPECT_EQ(below.now, level::calm);
  const verdict above = decide(in_group(256 * mib, 240 * mib), automatic, 10 * mib);
  EXPECT_EQ(above.now, level::above_soft);
  EXPECT_EQ(above.excess, 240 * mib / 32);
}

TEST(pressure, the_machine_is_no_soft_limit) {
  os::memory_state seen{.limits = {1000 * mib, 990 * mib}, .pressed = true};
  EXPECT_EQ(decide(seen, {}, 900 * mib).now, level::tight);
  EXPECT_EQ(decide(seen, {}, 900 * mib).soft, os::unlimited);
}

TEST(pressure, bytes_are_compared_with_tarns_own) {
  const rule bytes{{kind::bytes, 100 * mib}, {kind::bytes, 200 * mib}};
  EXPECT_EQ(decide(in_group(256 * mib, 250 * mib), bytes, 99 * mib).now, level::tight);
  EXPECT_EQ(decide(in_group(256 * mib, 250 * mib), bytes, 99 * mib).hard, 200 * mib);
  EXPECT_EQ(decide({}, bytes, 100 * mib).now, level::above_soft);
  EXPECT_EQ(decide({}, bytes, 100 * mib).used, 100 * mib);
}

TEST(pressure, percent_of_the_group) {
  const rule percent{{kind::percent, 50}, {kind::percent, 90}};
  const verdict v = decide(in_group(200 * mib, 100 * mib), percent, 60 * mib);
  EXPECT_EQ(v.now, level::above_soft);
  EXPECT_EQ(v.hard, 200 * mib / 100 * 90 - 40 * mib) << "the rest of the group uses 40 MiB";
  EXPECT_EQ(decide(in_group(200 * mib, 300 * mib), percent, 0).hard, 0U);
  EXPECT_EQ(decide({}, percent, 60 * mib).hard, os::unlimited) << "no group has a limit";
}

TEST(pressure, none) {
  const rule none{{kind::none}, {kind::none}};
  EXPECT_EQ(decide(in_group(256 * mib, 255 * mib), none, 255 * mib).now, level::tight);
  EXPECT_EQ(decide(in_group(256 * mib, 255 * mib), none, 255 * mib).soft, os::unlimited);
}

TEST(pressure_watch, looks_once_a_second) {
  limit_rule rule;
  watch w(rule);
  EXPECT_EQ(w.least_limit(), os::unlimited);
  EXPECT_EQ(w.now(), level::calm);
  EXPECT_EQ(w.look(100000), 1U);
  EXPECT_EQ(w.least_limit(), os::look_at_memory("").limits.limit);
  EXPECT_EQ(w.look(100000 + interval_ms - 1), 1U);
  EXPECT_EQ(w.look(100000 + interval_ms), 2U);
}

TEST(pressure_watch, compares_own_bytes_now) {
  void* const own = tarn_malloc(64);
  ASSERT_NE(own, nullptr);
  limit_rule rule;
  watch w(rule);
  rule.set({{kind::bytes, 1}, {kind::none}});
  EXPECT_TRUE(rule.is_new());
  EXPECT_EQ(w.look_now().now, level::above_soft) << "the test's own heap is not empty";
  EXPECT_EQ(w.last().excess, w.last().used - 1);
  EXPECT_FALSE(rule.is_new()) << "it has been looked at";
  rule.set({{kind::bytes, std::uint64_t{1} << 50}, {kind::none}});
  EXPECT_NE(w.look_now().now, level::above_soft);
  tarn_free(own);
}

// So that no call of the program waits for it.
TEST(pressure_watch, the_background_thread_looks_before_the_program_must) {
  process.look_now();
  const std::uint64_t growth = pressure_test_access::firm_mark(process) - backed_bytes();
  const std::size_t backed = engine::heap.backed_bytes();
  EXPECT_TRUE(process.may_look_later());
  EXPECT_FALSE(engine::heap.limits().is_beyond_mark(backed));
  EXPECT_TRUE(engine::heap.limits().is_beyond_mark(backed + growth * 3 / 4)) << "of " << growth;
}

TEST(pressure_watch, every_caller_gets_a_first_look) {
  limit_rule rule;
  watch w(rule);
  pressure_test_access::claim_look(w, 200000);
  EXPECT_EQ(w.look(100000), 1U) << "the thread that has claimed the look has no result yet";
  EXPECT_NE(w.least_limit(), os::unlimited) << "the machine's memory is a limit";
  EXPECT_EQ(w.look(100001), 1U);
}

TEST(pressure_watch, finds_a_broken_invariant) {
  limit_rule rule;
  watch w(rule);
  w.validate();
  pressure_test_access::store(w, {level::above_soft, 5, 6, 7, 0});
  EXPECT_BROKEN(w.validate(), "pressure", "(v.used >= v.soft) == (v.now == level::above_soft)", &w);
  pressure_test_access::store(w, {level::above_soft, 7, 6, 7, 8});
  EXPECT_BROKEN(w.validate(), "pressure", "v.excess <= (v.now == level::above_soft ? v.used : 0)", &w);
  pressure_test_access::store(w, {level::above_soft, 7, 6, 7, 2});
  w.validate();
}

}  // namespace
}  // namespace tarn::pressure
