// SPDX-License-Identifier: MIT
// recycler: reuse, hooks, limits, generations, threads and statistics.
#include "tarn/recycler.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fronts/pools/pool_support.hpp"
#include "fronts/recyclers/recycler_registry.hpp"
#include "os/clock.hpp"
#include "tarn/process.hpp"

#include "../../../system_probes.hpp"

namespace {

using tarn::testing_support::in_threads;
using namespace std::chrono_literals;

// Counts constructions and destructions; cannot be copied or moved.
struct parser {
  static inline std::atomic<int> built = 0;
  static inline std::atomic<int> ended = 0;

  explicit parser(int table = 0) : tables(table) { ++built; }
  parser(const parser&) = delete;
  parser& operator=(const parser&) = delete;
  ~parser() { ++ended; }

  int tables;
  int documents = 0;
};

// No generation ends by itself in most tests.
constexpr tarn::recycler_options still{.cycle = std::chrono::milliseconds(0)};

class recycler : public testing::Test {
 protected:
  void SetUp() override { parser::built = parser::ended = 0; }
  void TearDown() override { EXPECT_EQ(parser::built, parser::ended); }
};

// Waits for the condition. `limit` is the time for a real machine; an emulator gets a multiple of it.
template <class Condition>
bool within(std::chrono::milliseconds limit, Condition condition) {
  const auto until = std::chrono::steady_clock::now() + limit * system_probes::slowness();
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

TEST_F(recycler, a_generation_that_began_after_the_clock_was_read_is_not_due) {
  tarn::recycler<parser> parsers(still);
  parsers.get()->documents = 1;
  constexpr std::int64_t late_ms = 1000;
  (void)tarn::recycler_registry::end_due_generations(tarn::os::now_ms() - late_ms, false);
  EXPECT_EQ(parsers.get()->documents, 1);
}

TEST_F(recycler, an_object_that_came_back_is_handed_out_again) {
  tarn::recycler<parser> parsers([] { return parser(7); }, still);
  parser* first = nullptr;
  {
    auto p = parsers.get();
    first = p.get();
    EXPECT_EQ(p->tables, 7);
    p->documents = 3;
  }
  auto p = parsers.get();
  EXPECT_EQ(p.get(), first);
  EXPECT_EQ(p->documents, 3);
  EXPECT_EQ(parser::built, 1);
  const tarn::recycler_stats stats = parsers.stats();
  EXPECT_EQ(stats.gets, 2U);
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.objects, 0U);
}

TEST_F(recycler, is_not_copied_and_its_handles_are_moved_only) {
  static_assert(!std::is_copy_constructible_v<tarn::recycler<parser>>);
  static_assert(!std::is_move_constructible_v<tarn::recycler<parser>>);
  using handle = tarn::recycler<parser>::handle;
  static_assert(!std::is_copy_constructible_v<handle>);
  static_assert(std::is_nothrow_move_constructible_v<handle>);
  static_assert(sizeof(handle) <= 2 * sizeof(void*));
  tarn::recycler<parser> parsers(still);
  handle a = parsers.get();
  handle b = std::move(a);
  EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): that it is empty is what is tested
  EXPECT_TRUE(b);
  handle c = parsers.get();
  parser* const second = c.get();
  c = std::move(b);
  EXPECT_EQ(parsers.stats().objects, 1U);
  EXPECT_EQ(parsers.get().get(), second);
  c.reset();
  EXPECT_FALSE(c);
}

TEST_F(recycler, a_released_object_is_its_users_for_good) {
  tarn::kept_ptr<parser> kept;
  {
    tarn::recycler<parser> parsers(still);
    auto p = parsers.get();
    kept = p.release();
    EXPECT_FALSE(p);
  }
  EXPECT_EQ(parser::ended, 0);
  kept.reset();
  EXPECT_EQ(parser::ended, 1);
}

TEST_F(recycler, an_object_may_outlive_its_recycler_and_then_ends_when_it_comes_back) {
  std::optional<tarn::recycler<parser>::handle> late;
  {
    tarn::recycler<parser> parsers(still);
    late = parsers.get();
    auto other = parsers.get();
  }
  EXPECT_EQ(parser::ended, 1);
  late.reset();
  EXPECT_EQ(parser::ended, 2);
}

TEST_F(recycler, a_thread_that_knows_an_ended_recycler_does_not_take_it_for_the_next_one) {
  for (int i = 0; i < 50; ++i) {
    std::optional<tarn::recycler<parser>::handle> late;
    {
      tarn::recycler<parser> parsers([i] { return parser(i); }, still);
      late = parsers.get();
      auto p = parsers.get();
    }
    tarn::recycler<parser> next([i] { return parser(1000 + i); }, still);
    { auto p = next.get(); }
    late.reset();
    EXPECT_EQ(next.get()->tables, 1000 + i);
    EXPECT_EQ(next.stats().objects, 1U);
  }
}

TEST_F(recycler, what_reset_leaves_is_what_the_next_user_sees) {
  tarn::recycler<std::string> strings(still);
  const char* buffer = nullptr;
  {
    auto s = strings.get();
    s->assign(5000, 'x');
    buffer = s->data();
  }
  auto s = strings.get();
  EXPECT_TRUE(s->empty());
  EXPECT_GE(s->capacity(), 5000U);
  EXPECT_EQ(s->data(), buffer);
}

TEST_F(recycler, hooks_may_be_functions) {
  int resets = 0;
  tarn::recycler parsers([] { return parser(1); }, still,
                         tarn::recycler_functions{[&resets](parser& p) {
                                                    p.documents = 0;
                                                    ++resets;
                                                  },
                                                  [](const parser&) { return std::size_t{1000}; }});
  {
    auto p = parsers.get();
    p->documents = 9;
  }
  EXPECT_EQ(parsers.stats().bytes, 1000U);
  EXPECT_EQ(parsers.get()->documents, 0);
  EXPECT_EQ(resets, 2);
}

struct throwing_hooks {
  static void reset(parser&) { throw std::runtime_error("as asked"); }
};
TEST_F(recycler, an_object_whose_reset_throws_is_destroyed) {
  tarn::recycler<parser, throwing_hooks> parsers(still);
  { auto p = parsers.get(); }
  EXPECT_EQ(parser::ended, 1);
  EXPECT_EQ(parsers.stats().unfit, 1U);
  EXPECT_EQ(parsers.stats().objects, 0U);
}

TEST_F(recycler, a_factory_that_throws_leaves_nothing_behind) {
  bool throws = true;
  tarn::recycler<parser> parsers(
      [&throws] {
        if (throws) throw std::runtime_error("as asked");
        return parser();
      },
      still);
  EXPECT_THROW(static_cast<void>(parsers.get()), std::runtime_error);
  throws = false;
  { auto p = parsers.get(); }
  EXPECT_EQ(parser::built, 1);
  EXPECT_EQ(parsers.stats().objects, 1U);
}

// ---- bounds ----

TEST_F(recycler, no_more_objects_wait_than_the_maximum) {
  tarn::recycler<parser> parsers({.limit_objects = 10, .cycle = std::chrono::milliseconds(0)});
  {
    std::vector<tarn::recycler<parser>::handle> out;
    for (int i = 0; i < 50; ++i) out.push_back(parsers.get());
  }
  const tarn::recycler_stats stats = parsers.stats();
  EXPECT_EQ(stats.objects, 10U);
  EXPECT_EQ(stats.over_limit, 40U);
  EXPECT_EQ(parser::ended, 40);
}

TEST_F(recycler, no_more_bytes_wait_than_the_maximum) {
  constexpr std::size_t each = 10000;
  tarn::recycler<std::string> strings({.limit = 20 * each, .cycle = std::chrono::milliseconds(0)});
  for (int round = 0; round < 3; ++round) {
    std::vector<tarn::recycler<std::string>::handle> out;
    for (int i = 0; i < 50; ++i) {
      out.push_back(strings.get());
      out.back()->resize(each);
    }
    out.clear();
    const tarn::recycler_stats stats = strings.stats();
    EXPECT_LE(stats.bytes, 20 * each);
    EXPECT_GE(stats.objects, 15U);
    EXPECT_LE(stats.objects, 20U);
  }
}

TEST_F(recycler, places_that_a_thread_has_paid_for_stay_reserved_while_they_are_empty) {
  constexpr std::size_t each = 10000;
  tarn::recycler<std::string> strings({.limit = 20 * (each + 100), .cycle = std::chrono::milliseconds(0)});
  const auto fill = [&](std::size_t count, std::size_t bytes) {
    std::vector<tarn::recycler<std::string>::handle> out;
    for (std::size_t i = 0; i < count; ++i) {
      out.push_back(strings.get());
      out.back()->reserve(bytes);
    }
  };
  fill(20, each);
  std::vector<tarn::recycler<std::string>::handle> held;
  for (int i = 0; i < 20; ++i) held.push_back(strings.get());
  // No object waits. The 16 places of this thread's array stay paid; at most the other four are free for another
  // thread.
  std::thread([&] { fill(4, each); }).join();
  EXPECT_LE(strings.stats().objects, 4U);
  held.resize(1);
  EXPECT_LE(strings.stats().bytes, 20 * (each + 100));
}

TEST_F(recycler, an_object_above_the_largest_is_not_kept) {
  tarn::recycler<std::string> strings({.limit_per_object = 1000, .cycle = std::chrono::milliseconds(0)});
  { strings.get()->resize(2000); }
  EXPECT_EQ(strings.stats().too_large, 1U);
  { strings.get()->resize(500); }
  EXPECT_EQ(strings.stats().objects, 1U);
}

TEST_F(recycler, a_buffer_far_above_recent_use_goes_in_time) {
  tarn::recycler<std::string> strings(still);
  { strings.get()->resize(1 << 20); }
  EXPECT_EQ(strings.stats().objects, 1U);
  int uses = 0;
  while (strings.stats().oversized == 0 && uses < 1000) {
    strings.get()->resize(2000);
    ++uses;
  }
  EXPECT_LT(uses, 300);
  EXPECT_GT(uses, 3);
  // A string whose large buffer is used stays.
  for (int i = 0; i < 300; ++i) strings.get()->resize(100000);
  EXPECT_EQ(strings.stats().oversized, 1U);
}

// ---- generations ----

TEST_F(recycler, trim_destroys_all_that_waits) {
  tarn::recycler<parser> parsers(still);
  std::vector<tarn::recycler<parser>::handle> out;
  for (int i = 0; i < 300; ++i) out.push_back(parsers.get());
  out.clear();
  EXPECT_EQ(parsers.stats().objects, 300U);
  EXPECT_EQ(parsers.trim(), 300U);
  EXPECT_EQ(parser::ended, 300);
  EXPECT_EQ(parsers.stats().objects, 0U);
  EXPECT_EQ(parsers.stats().aged, 300U);
  { auto p = parsers.get(); }
  tarn::trim();
  EXPECT_EQ(parsers.stats().objects, 0U);
}

TEST_F(recycler, is_empty_after_two_cycles_without_a_call) {
  tarn::recycler<parser> parsers({.cycle = std::chrono::milliseconds(200)});
  std::atomic<bool> ends = false;
  // Objects of two threads: this one, which sleeps below, and one that waits.
  std::thread other([&] {
    {
      std::vector<tarn::recycler<parser>::handle> out;
      for (int i = 0; i < 100; ++i) out.push_back(parsers.get());
    }
    ends.wait(false);
  });
  {
    std::vector<tarn::recycler<parser>::handle> out;
    for (int i = 0; i < 100; ++i) out.push_back(parsers.get());
  }
  // Objects that came back just now stay for at least one cycle and end after at most two.
  EXPECT_TRUE(within(2500ms, [] { return parser::built == parser::ended; }))
      << parser::built << " built, " << parser::ended << " ended";
  EXPECT_EQ(parsers.stats().objects, 0U);
  ends = true;
  ends.notify_all();
  other.join();
}

TEST_F(recycler, what_is_used_in_every_cycle_stays) {
  tarn::recycler<parser> parsers(
      {.cycle = std::chrono::milliseconds(300)});  // a busy machine may stop the thread for a while
  const parser* const first = parsers.get().get();
  for (int i = 0; i < 60; ++i) {
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(parsers.get().get(), first);
  }
  EXPECT_EQ(parser::built, 1);
}

TEST_F(recycler, an_object_of_the_older_generation_is_used_before_one_is_built) {
  tarn::recycler<parser> parsers({.cycle = std::chrono::milliseconds(300)});
  { auto p = parsers.get(); }
  // On a slow machine two cycles may end during one sleep: the object is destroyed, and the next turn has a new one.
  EXPECT_TRUE(within(10s,
                     [&] {
                       // Longer than a cycle, so that the object is in the older generation.
                       std::this_thread::sleep_for(320ms);
                       { auto p = parsers.get(); }
                       return parsers.stats().victims != 0;
                     }))
      << "no object of the older generation was used; " << parser::built << " were built";
}

TEST_F(recycler, destructors_run_under_no_lock) {
  struct nested {
    explicit nested(tarn::recycler<std::string>* r) : strings(r) {}
    ~nested() {
      { auto s = strings->get(); }
      static_cast<void>(tarn::recyclers());
    }
    tarn::recycler<std::string>* strings;
  };
  tarn::recycler<std::string> strings(still);
  tarn::recycler<nested> outer([&] { return nested(&strings); }, still);
  {
    std::vector<tarn::recycler<nested>::handle> out;
    for (int i = 0; i < 20; ++i) out.push_back(outer.get());
  }
  EXPECT_EQ(outer.trim(), 20U);
}

// ---- threads ----

TEST_F(recycler, what_a_thread_had_when_it_ended_is_for_others) {
  tarn::recycler<parser> parsers(still);
  std::thread([&] {
    std::vector<tarn::recycler<parser>::handle> out;
    for (int i = 0; i < 100; ++i) out.push_back(parsers.get());
  }).join();
  std::vector<tarn::recycler<parser>::handle> out;
  for (int i = 0; i < 100; ++i) out.push_back(parsers.get());
  EXPECT_EQ(parser::built, 100);
  EXPECT_EQ(parsers.stats().exchanged, 100U);
}

TEST_F(recycler, a_thread_steals_what_another_one_does_not_use) {
  tarn::recycler<parser> parsers(still);
  std::atomic<int> step = 0;
  std::thread other([&] {
    {
      std::vector<tarn::recycler<parser>::handle> out;
      for (int i = 0; i < 40; ++i) out.push_back(parsers.get());
    }
    step = 1;
    step.notify_all();
    step.wait(1);
  });
  step.wait(0);
  std::vector<tarn::recycler<parser>::handle> out;
  for (int i = 0; i < 20; ++i) out.push_back(parsers.get());
  EXPECT_LT(parser::built, 60);
  EXPECT_GT(parsers.stats().stolen + parsers.stats().exchanged, 0U);
  step = 2;
  step.notify_all();
  other.join();
}

TEST_F(recycler, objects_pass_from_thread_to_thread) {
  tarn::recycler<parser> parsers(still);
  using handle = tarn::recycler<parser>::handle;
  std::mutex lock;
  std::vector<handle> passed;
  in_threads(4, [&](int index) {
    for (int i = 0; i < 5000; ++i) {
      handle p = parsers.get();
      EXPECT_EQ(std::exchange(p->documents, 1), 0);
      std::lock_guard guard(lock);
      if (index % 2 == 0) {
        passed.push_back(std::move(p));
      } else {
        if (!passed.empty()) {
          passed.back()->documents = 0;
          passed.pop_back();
        }
        p->documents = 0;
      }
    }
  });
  for (handle& each : passed) each->documents = 0;
  passed.clear();
  EXPECT_LT(parser::built, 20000);
}

// ---- figures ----

TEST_F(recycler, shows_up_by_name) {
  tarn::recycler<parser> parsers({.cycle = std::chrono::milliseconds(0), .name = "the parsers"});
  { auto p = parsers.get(); }
  bool found = false;
  for (const tarn::named_recycler_stats& each : tarn::recyclers()) {
    if (each.name != "the parsers") continue;
    found = true;
    EXPECT_EQ(each.stats.objects, 1U);
    EXPECT_EQ(each.stats.gets, 1U);
  }
  EXPECT_TRUE(found);
  tarn::recycler<std::string> strings(still);
  bool typed = false;
  for (const tarn::named_recycler_stats& each : tarn::recyclers()) {
    typed = typed || each.name.find("string") != std::string::npos;
  }
  EXPECT_TRUE(typed);
}

TEST_F(recycler, objects_without_a_handle) {
  tarn::recycler<parser> parsers(still);
  parser* const p = parsers.take();
  parsers.give_back(p);
  parsers.give_back(nullptr);
  EXPECT_EQ(parsers.stats().objects, 1U);
  EXPECT_EQ(parsers.take(), p);
  parsers.give_back(p);
}

// Has no clear().
struct resettable {
  int secret = 0;
  void reset() { secret = 0; }
};

TEST_F(recycler, an_object_without_clear_is_reset_by_its_reset) {
  tarn::recycler<resettable> all(still);
  resettable* const first = all.take();
  first->secret = 42;
  all.give_back(first);
  resettable* const next = all.take();
  EXPECT_EQ(next, first);
  EXPECT_EQ(next->secret, 0);
  all.give_back(next);
}

}  // namespace
