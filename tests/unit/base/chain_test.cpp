// SPDX-License-Identifier: MIT
// chain: push, pop and prepend on lists of zero, one and more structures.
#include "base/chain.hpp"

#include <gtest/gtest.h>

namespace tarn::chain {
namespace {

struct node {
  node* next = nullptr;
};

TEST(chain, is_a_stack) {
  node nodes[2];
  node* list = nullptr;
  EXPECT_EQ(pop(list), nullptr);
  push(list, &nodes[0]);
  push(list, &nodes[1]);
  EXPECT_EQ(pop(list), &nodes[1]);
  EXPECT_EQ(pop(list), &nodes[0]);
  EXPECT_EQ(list, nullptr);
}

TEST(chain, prepend_moves_all) {
  node nodes[3];
  node* list = nullptr;
  node* more = nullptr;
  prepend(list, more);
  EXPECT_EQ(list, nullptr);
  push(list, &nodes[0]);
  push(more, &nodes[1]);
  push(more, &nodes[2]);
  prepend(list, more);
  EXPECT_EQ(pop(list), &nodes[1]);
  EXPECT_EQ(pop(list), &nodes[2]);
  EXPECT_EQ(pop(list), &nodes[0]);
  EXPECT_EQ(list, nullptr);
}

}  // namespace
}  // namespace tarn::chain
