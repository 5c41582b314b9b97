// SPDX-License-Identifier: MIT
// buffer_core: its invariants, and what happens between two critical sections of one call.
#include "fronts/buffers/buffer_core.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "broken_invariant.hpp"
#include "engine/engine.hpp"

namespace tarn {

class buffer_core_test_access {
 public:
  static std::uint64_t& live(buffer_core& pool) { return pool.counted_.live; }
  static std::uint64_t& hits(buffer_core& pool) { return pool.counted_.hits; }
  static std::size_t& leaving_bytes(buffer_core& pool) { return pool.leaving_bytes_; }
  static std::size_t& pins(buffer_core& pool) { return pool.pins_; }
  static bool& used(buffer_core& pool) { return pool.used_; }
  static kept_spans& kept(buffer_core& pool) { return pool.kept_; }
  static bool is_preparing(buffer_core& pool) {
    os::lock_guard guard(pool.lock_);
    return pool.preparing_ != nullptr;
  }
  static void want(buffer_core& pool, std::size_t bytes) { pool.wanted_pages_ = bytes >> page_shift; }
  // The first steps of end().
  static void begin_end(buffer_core& pool, std::size_t still_leaving) {
    {
      os::lock_guard guard(pool.lock_);
      pool.ended_ = true;
      pool.evict_locked(0);
    }
    pool.discard_leaving(still_leaving);
  }
  static void set_budget(buffer_core& pool, std::size_t bytes) { pool.settings_.budget = bytes; }
};

namespace {

using access = buffer_core_test_access;

TEST(buffer_core, finds_a_broken_invariant) {
  buffer_group group;
  const auto owner = std::make_unique<buffer_core>(group);
  buffer_core& pool = *owner;
  pool.validate_locked();
  const auto expect_broken = [&](const std::string& equation) {
    EXPECT_TARN_ABORT(pool.validate_locked(),
                      testing_support::literally("broken invariant of buffer_core: " + equation), &pool);
  };
  access::pins(pool) = 1;
  expect_broken("used_ || (counted_.live == 0 && pins_ == 0 && leaving_.empty())");
  access::used(pool) = true;
  pool.validate_locked();
  access::live(pool) = 1;
  expect_broken("(counted_.live == 0) == (counted_.live_bytes == 0)");
  access::live(pool) = 0;
  access::hits(pool) = 1;
  expect_broken("counted_.hits <= counted_.gets");
  access::hits(pool) = 0;
  access::leaving_bytes(pool) = 1;
  expect_broken("leaving_bytes_ == leaving_sum");
  access::leaving_bytes(pool) = 0;
  span s;
  s.pages = 2;
  access::kept(pool).insert(&s, 0);
  access::set_budget(pool, page_size);
  expect_broken("settings_.budget == 0 || kept_.pages() << page_shift <= settings_.budget");
}

class buffer_core_test : public testing::Test {
 protected:
  buffer_core_test() { engine::attach_thread(); }

  span* get(std::size_t bytes) {
    std::size_t capacity = 0;
    buffer_failure failure = buffer_failure::none;
    return pool_.get(bytes, &capacity, failure);
  }
  void give_back(span* s) {
    s->state.store(span_state::kept);
    pool_.take_back(s);
  }

  static constexpr std::size_t budget = 64 * mib;
  const tarn_buffer_options request_{.size = sizeof(tarn_buffer_options),
                                     .name = "",
                                     .name_length = 0,
                                     .alignment = 1,
                                     .limit = budget,
                                     .idle_ms = -1,
                                     .ahead = 1,
                                     .prefault = tarn_buffer_prefault_ahead,
                                     .huge_pages = tarn_buffer_huge_never,
                                     .zeroed = 0,
                                     .locked = 0,
                                     .wiped_on_fork = 0,
                                     .checked = 0};
  buffer_group group_;
  std::unique_ptr<buffer_core> owner_ = std::make_unique<buffer_core>(group_);
  buffer_core& pool_ = *owner_;
};

TEST_F(buffer_core_test, a_request_beyond_a_limit_is_refused) {
  ASSERT_TRUE(buffer_core::is_valid(request_));
  void (*const changes[])(tarn_buffer_options&) = {
      [](tarn_buffer_options& r) { r.name = nullptr, r.name_length = 1; },
      [](tarn_buffer_options& r) { r.alignment = 0; },
      [](tarn_buffer_options& r) { r.alignment = 96 * kib; },
      [](tarn_buffer_options& r) { r.alignment = 2 * buffer_core::largest_alignment; },
      [](tarn_buffer_options& r) { r.idle_ms = -2; },
      [](tarn_buffer_options& r) { r.prefault = tarn_buffer_prefault_ahead + 1; },
      [](tarn_buffer_options& r) { r.huge_pages = tarn_buffer_huge_never + 1; },
      [](tarn_buffer_options& r) { r.wiped_on_fork = true; },
  };
  for (const auto& beyond : changes) {
    tarn_buffer_options request = request_;
    beyond(request);
    EXPECT_FALSE(buffer_core::is_valid(request)) << &beyond - changes;
    if (request.wiped_on_fork) {
      request.locked = true;
      EXPECT_TRUE(buffer_core::is_valid(request));
    }
  }
}

TEST_F(buffer_core_test, the_structure_is_not_reused_while_spans_are_leaving) {
  ASSERT_TRUE(pool_.claim(request_));
  span* const first = get(mib);
  span* const second = get(mib);
  ASSERT_TRUE(first != nullptr && second != nullptr);
  give_back(first);
  give_back(second);
  access::begin_end(pool_, mib);
  EXPECT_FALSE(pool_.claim(request_))
      << "the span that is leaving would be given back with the next pool's settings";
  pool_.end();
  EXPECT_TRUE(pool_.claim(request_));
  pool_.end();
}

TEST_F(buffer_core_test, a_buffer_got_ready_does_not_exceed_the_budget) {
  ASSERT_TRUE(pool_.claim(request_));
  span* const s = get(budget);
  ASSERT_NE(s, nullptr);
  // The other thread may be done before this one sees it at work: then once more.
  bool seen = false;
  for (int round = 0; round < 1000 && !seen; ++round) {
    pool_.trim();
    access::want(pool_, budget / 2);
    std::atomic<bool> done{false};
    std::thread errands([&] {
      pool_.run_errands();
      done.store(true);
    });
    while (!seen && !done.load()) seen = access::is_preparing(pool_);
    if (seen) give_back(s);
    errands.join();
  }
  ASSERT_TRUE(seen);
  tarn_buffer_stats figures;
  ASSERT_TRUE(pool_.figures(figures, nullptr));
  EXPECT_LE(figures.kept_bytes, budget);
  EXPECT_EQ(figures.leaving_bytes, 0U);
  pool_.end();
}

}  // namespace
}  // namespace tarn
