// SPDX-License-Identifier: MIT
// buffer_core: what happens between two critical sections of one call.
#include "buffers/buffer_core.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "runtime/engine.hpp"

namespace tarn {

class buffer_core_test_access {
 public:
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
};

namespace {

using access = buffer_core_test_access;

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
  const tarn_buffer_request request_{.name = "",
                                     .name_length = 0,
                                     .alignment = 1,
                                     .budget = budget,
                                     .idle_ms = -1,
                                     .ahead = 1,
                                     .prefault = tarn_buffer_prefault_ahead,
                                     .huge = tarn_buffer_huge_never,
                                     .zeroed = false,
                                     .locked = false,
                                     .wiped_on_fork = false,
                                     .checked = false};
  buffer_group group_;
  std::unique_ptr<buffer_core> owner_ = std::make_unique<buffer_core>(group_);
  buffer_core& pool_ = *owner_;
};

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
  access::want(pool_, budget / 2);
  std::thread errands([&] { pool_.run_errands(); });
  while (!access::is_preparing(pool_)) std::this_thread::yield();
  give_back(s);
  errands.join();
  tarn_buffer_figures figures;
  ASSERT_TRUE(pool_.figures(figures, nullptr));
  EXPECT_LE(figures.kept_bytes, budget);
  EXPECT_EQ(figures.leaving_bytes, 0U);
  pool_.end();
}

}  // namespace
}  // namespace tarn
