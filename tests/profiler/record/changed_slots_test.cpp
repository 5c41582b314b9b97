// SPDX-License-Identifier: MIT
// changed_slots: the table grows, keeps its slots in their order, and can be filled again; its invariants.
#include "profiler/record/changed_slots.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler::recorder {

class changed_slots_test_access {
 public:
  static std::size_t& room(changed_slots& slots) { return slots.room_; }
};

namespace {

class changed_slots_test : public testing::Test {
 protected:
  ~changed_slots_test() override { slots_.clear(); }
  void add(std::uintptr_t before, std::uintptr_t hook) {
    ASSERT_TRUE(slots_.make_room());
    slots_.add({&place_, before, hook});
  }
  std::uintptr_t place_ = 0;
  changed_slots slots_;
};

TEST_F(changed_slots_test, grows_and_keeps_what_it_has) {
  constexpr std::uintptr_t count = 10'000;
  for (int rounds = 0; rounds < 2; ++rounds) {
    EXPECT_EQ(slots_.begin(), slots_.end());
    for (std::uintptr_t i = 0; i < count; ++i) add(i, i + 1);
    slots_.validate();
    std::uintptr_t next = 0;
    for (const changed_slot& slot : slots_) ASSERT_EQ(slot.before, next++);
    EXPECT_EQ(next, count);
    slots_.clear();
  }
}

TEST_F(changed_slots_test, finds_a_broken_invariant) {
  add(1, 2);
  slots_.validate();
  const std::size_t room = std::exchange(changed_slots_test_access::room(slots_), 0);
  EXPECT_BROKEN(slots_.validate(), "changed_slots", "count_ <= room_", &slots_);
  changed_slots_test_access::room(slots_) = room;
  ASSERT_TRUE(slots_.make_room());
  EXPECT_BROKEN((slots_.add({&place_, 3, 3}), slots_.validate()), "changed_slots", "slot.before != slot.hook",
                &slots_);
}

}  // namespace
}  // namespace tarn::profiler::recorder
