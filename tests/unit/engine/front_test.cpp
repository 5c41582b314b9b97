// SPDX-License-Identifier: MIT
// front: its invariants.
#include "engine/front.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "broken_invariant.hpp"

namespace tarn::engine {
namespace {

TEST(front, finds_a_broken_invariant) {
  validate_fronts(fronts, attached);
  const front* tables[front::count];
  std::copy(std::begin(fronts), std::end(fronts), tables);
  tables[2] = nullptr;
  std::atomic<bool> are_attached[front::count]{};
  validate_fronts(tables, are_attached);
  are_attached[2].store(true);
  EXPECT_BROKEN(validate_fronts(tables, are_attached), "front",
                "tables[i] != nullptr || !are_attached[i].load(std::memory_order_relaxed)", &tables[2]);
  tables[0] = &buffer_front;
  EXPECT_BROKEN(validate_fronts(tables, are_attached), "front",
                "tables[i] == nullptr || tables[i]->order == i", &tables[0]);
}

}  // namespace
}  // namespace tarn::engine
