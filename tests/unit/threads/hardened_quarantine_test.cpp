// SPDX-License-Identifier: MIT
// thread_quarantine: how long objects wait, in which order they leave, and the bound of its bytes.
#include "threads/hardened_quarantine.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "broken_invariant.hpp"
#include "own_engine.hpp"

namespace tarn {
namespace {

constexpr unsigned tiny_class = 3;
constexpr unsigned small_class = thread_quarantine::small_end;

void* number(std::uintptr_t n) { return reinterpret_cast<void*>(n * 16); }

struct delays {
  std::size_t least = ~std::size_t{0};
  std::set<std::size_t> all;
  std::size_t held = 0;
};

// For each object, the number of later frees until it left the quarantine.
delays delays_of(unsigned size_class, std::size_t frees) {
  thread_quarantine q;
  q.seed();
  delays out;
  std::size_t left = 0;
  for (std::size_t i = 1; i <= frees; ++i) {
    const quarantined leaving = q.exchange({number(i), size_class}, size_class);
    if (leaving.empty()) continue;
    EXPECT_EQ(leaving.size_class(), size_class);
    ++left;
    const std::size_t delay = i - address_of(leaving.object()) / 16;
    out.least = std::min(out.least, delay);
    out.all.insert(delay);
  }
  q.take_all([&](quarantined) {
    ++left;
    ++out.held;
  });
  EXPECT_EQ(left, frees);
  return out;
}

TEST(hardened_quarantine, a_tiny_object_waits_for_a_thousand_frees_and_then_for_a_random_number) {
  const delays d = delays_of(tiny_class, 100'000);
  EXPECT_GE(d.least, 1024U);
  EXPECT_GT(d.all.size(), 200U);
}

TEST(hardened_quarantine, a_longer_one_for_128) {
  const delays d = delays_of(small_class, 100'000);
  EXPECT_GE(d.least, 128U);
  EXPECT_GT(d.all.size(), 20U);
}

TEST(hardened_quarantine, bytes_are_bounded) {
  EXPECT_LE(delays_of(thread_quarantine::tiny_end, 10'000).held * thread_quarantine::tiny_size,
            thread_quarantine::kind_bytes);
  EXPECT_LE(delays_of(small_class, 10'000).held * thread_quarantine::small_size,
            thread_quarantine::kind_bytes);
}

TEST(hardened_quarantine, two_quarantines_let_objects_go_in_different_orders) {
  thread_quarantine a;
  thread_quarantine b;
  a.seed();
  b.seed();
  std::size_t same = 0;
  for (std::uintptr_t i = 1; i <= 5000; ++i) {
    const quarantined x = a.exchange({number(i), tiny_class}, tiny_class);
    const quarantined y = b.exchange({number(i), tiny_class}, tiny_class);
    same += !x.empty() && x.object() == y.object() ? 1 : 0;
  }
  EXPECT_LT(same, 500U);
}

TEST(hardened_quarantine, objects_go_to_their_spans_when_the_thread_ends) {
  const auto engine = testing_support::make_engine();
  thread_cache* const cache = engine->registry.create();
  ASSERT_NE(cache, nullptr);
  std::vector<void*> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(testing_support::take(*engine, *cache, tiny_class));
  for (void* object : objects)
    EXPECT_TRUE(cache->quarantine().exchange({object, tiny_class}, tiny_class).empty());
  engine->registry.destroy(cache);
  std::size_t in_use = 0;
  for (void* object : objects) {
    const span* const s = engine->map.span_of(address_of(object));
    if (s->contains(address_of(object)) && s->size_class == tiny_class)
      in_use += objects::is_free(s, objects::index_of(s, address_of(object))) ? 0 : 1;
  }
  EXPECT_EQ(in_use, 0U);
}

TEST(hardened_quarantine, finds_a_broken_invariant) {
  thread_quarantine q;
  q.exchange({number(1), tiny_class}, tiny_class);
  q.validate();
  q.exchange({number(2), small_class}, tiny_class);
  EXPECT_EXIT(
      q.validate(), testing::KilledBySignal(SIGABRT),
      "^tarn: broken invariant of hardened_quarantine: first <= q.size_class\\(\\) && q.size_class\\(\\) <= last: ");
}

}  // namespace
}  // namespace tarn
