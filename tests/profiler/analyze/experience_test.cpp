// SPDX-License-Identifier: MIT
// The correction of estimates by experience.
#include "profiler/analyze/experience.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "profiler/analyze/advice.hpp"

namespace tarn::profiler {
namespace {

TEST(Experience, HoldsTheRoundsOfAReplay) {
  advice one;
  one.kind = advice_kind::allocator;
  one.grade = advice_grade::replayed;
  apply_experience(one, {100, -50, 200, 0}, judged_program{1e9});
  const experience by = experience_of(one.kind, one.grade, placement_effect::none);
  EXPECT_DOUBLE_EQ(one.saving_ns, 100 * by.middle);
  EXPECT_EQ(one.low_ns, 0);
  EXPECT_DOUBLE_EQ(one.high_ns, std::max(one.saving_ns, 200 * by.high));
  apply_experience(one, {100, 90, 200, 0}, judged_program{60});
  EXPECT_EQ(one.saving_ns, std::min(60.0, 100 * by.middle));
  EXPECT_LE(one.high_ns, 60);
}

TEST(Experience, IsWiderOnlyWherePlacementIsPossible) {
  for (const advice_kind kind : {advice_kind::allocator, advice_kind::typed_pool, advice_kind::object_pool,
                                 advice_kind::arena, advice_kind::tunable}) {
    const bool moves_blocks = kind != advice_kind::tunable;
    advice compact;
    compact.kind = kind;
    compact.grade = advice_grade::replayed;
    advice scattered = compact;
    apply_experience(compact, {100, 100, 100}, {1000, 800, placement_effect::none});
    apply_experience(scattered, {100, 100, 100}, {1000, 800, placement_effect::possible});
    EXPECT_EQ(scattered.high_ns > compact.high_ns, moves_blocks) << kind_name(kind);
    EXPECT_EQ(experience_of(kind, advice_grade::replayed, placement_effect::none).own, 0);
  }
}

// The factor for another malloc was fitted to the time in malloc itself; savings of page faults have their own factor.
TEST(Experience, OfAnotherMallocIsAppliedToMallocsOwnPartAlone) {
  const experience faults =
      experience_of(advice_kind::tunable, advice_grade::replayed, placement_effect::none);
  const experience calls =
      experience_of(advice_kind::allocator, advice_grade::replayed, placement_effect::none);
  advice one;
  one.kind = advice_kind::allocator;
  one.grade = advice_grade::replayed;
  apply_experience(one, {100, 90, 120, 0, 80}, judged_program{1e9});
  EXPECT_DOUBLE_EQ(one.saving_ns, 80 * faults.middle + 20 * calls.middle);
  EXPECT_DOUBLE_EQ(one.low_ns, 80 * faults.low + 10 * calls.low);
  EXPECT_DOUBLE_EQ(one.high_ns, 80 * faults.high + 40 * calls.high);
  // The faults' part exceeds the whole saving if the other malloc itself takes longer: the whole is the limit.
  apply_experience(one, {100, 100, 100, 0, 130}, judged_program{1e9});
  EXPECT_DOUBLE_EQ(one.saving_ns, 100 * faults.middle);
}

TEST(Experience, IsInOrderForAllKindsAndGrades) {
  for (int kind = 0; kind <= static_cast<int>(advice_kind::placement); ++kind) {
    for (const advice_grade grade : {advice_grade::estimated, advice_grade::replayed}) {
      for (const placement_effect placement : {placement_effect::none, placement_effect::possible}) {
        const experience by = experience_of(static_cast<advice_kind>(kind), grade, placement);
        EXPECT_LE(0, by.low);
        EXPECT_LE(by.low, by.middle);
        EXPECT_LE(by.middle, by.high);
        EXPECT_LE(0, by.own);
        EXPECT_LE(by.own, 1);
      }
    }
  }
}

}  // namespace
}  // namespace tarn::profiler
