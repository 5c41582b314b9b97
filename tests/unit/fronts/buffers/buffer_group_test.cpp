// SPDX-License-Identifier: MIT
// buffer_group: its invariants.
#include "fronts/buffers/buffer_core.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "broken_invariant.hpp"
#include "fronts/buffers/buffer_core.hpp"

namespace tarn {
namespace {

TEST(buffer_group, finds_a_broken_invariant) {
  buffer_group group;
  buffer_group other;
  group.validate_locked();
  const auto first = std::make_unique<buffer_core>(group);
  const auto second = std::make_unique<buffer_core>(group);
  group.add(*first);
  group.add(*second);
  group.validate_locked();
  first->next = second.get();
  EXPECT_BROKEN(group.validate_locked(), "buffer_group", "++length <= pools", &group);
  first->next = nullptr;
  second->next = nullptr;
  EXPECT_BROKEN(group.validate_locked(), "buffer_group", "length == pools", &group);
  const auto foreign = std::make_unique<buffer_core>(other);
  second->next = foreign.get();
  EXPECT_BROKEN(group.validate_locked(), "buffer_group", "&pool->group_ == this", &group);
  second->next = first.get();
  group.validate_locked();
}

}  // namespace
}  // namespace tarn
