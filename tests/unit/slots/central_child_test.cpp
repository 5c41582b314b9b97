// SPDX-License-Identifier: MIT
// central_child: which spans a forked child takes objects from.
#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <vector>

#include "slots/central_fixture.hpp"

namespace tarn {
namespace {

using testing_support::central_fixture;
using testing_support::small;

class central_child_test : public central_fixture {
 protected:
  // Leaves every other object of some spans free.
  void SetUp() override {
    const std::vector<void*> all = take(small, 4 * class_info(small).objects);
    std::vector<void*> freed;
    for (std::size_t i = 0; i < all.size(); ++i) {
      inherited_.insert(span_of(all[i]));
      (i % 2 == 0 ? kept_ : freed).push_back(all[i]);
    }
    give(small, freed);
  }
  void TearDown() override { give(small, kept_); }
  bool takes_from_inherited() {
    kept_.push_back(take(small, 1).front());
    return inherited_.contains(span_of(kept_.back()));
  }

  std::vector<void*> kept_;
  std::set<const span*> inherited_;
};

TEST_F(central_child_test, takes_from_its_own_spans_while_its_parent_lives) {
  central_.depots().after_fork_in_child(getppid());
  EXPECT_FALSE(takes_from_inherited());
  central_.depots().look_for_parent();
  EXPECT_FALSE(takes_from_inherited());
  central_.depots().use_inherited();
  central_.depots().validate();
  EXPECT_TRUE(takes_from_inherited()) << "there is no other memory";
}

TEST_F(central_child_test, has_all_to_itself_when_its_parent_has_ended) {
  central_.depots().after_fork_in_child(getpid());
  EXPECT_FALSE(takes_from_inherited());
  central_.depots().look_for_parent();
  EXPECT_TRUE(takes_from_inherited());
}

TEST_F(central_child_test, takes_from_all_spans_if_it_cannot_know_its_parent) {
  central_.depots().after_fork_in_child(getppid());
  central_.depots().after_fork_in_child(0);
  EXPECT_TRUE(takes_from_inherited());
}

}  // namespace
}  // namespace tarn
