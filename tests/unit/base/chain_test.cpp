// SPDX-License-Identifier: MIT
// chain: lists of zero, one and more structures, linked in one direction or both, or by another member.
#include "base/chain.hpp"

#include <gtest/gtest.h>

namespace tarn::chain {
namespace {

struct node {
  node* next = nullptr;
  node* previous = nullptr;
  node* other = nullptr;
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

TEST(chain, links_by_another_member) {
  node nodes[2];
  node* list = nullptr;
  push(list, &nodes[0], &node::other);
  push(list, &nodes[1], &node::other);
  EXPECT_EQ(nodes[1].next, nullptr);
  EXPECT_EQ(pop(list, &node::other), &nodes[1]);
  EXPECT_EQ(list, &nodes[0]);
}

TEST(chain, erases_at_both_ends_and_in_the_middle) {
  for (const int first : {0, 1, 2}) {
    node nodes[3];
    node* list = nullptr;
    for (node& n : nodes) insert(list, &n);
    for (int i = 0; i < 3; ++i) {
      for (const node* n = list; n != nullptr; n = n->next) EXPECT_TRUE(is_linked<node>(list, n));
      erase(list, &nodes[(first + i) % 3]);
    }
    EXPECT_EQ(list, nullptr);
  }
}

TEST(chain, is_linked_finds_wrong_links) {
  node nodes[2];
  node* list = nullptr;
  for (node& n : nodes) insert(list, &n);
  EXPECT_FALSE(is_linked<node>(nullptr, &nodes[1])) << "not the first one";
  nodes[0].previous = nullptr;
  EXPECT_FALSE(is_linked<node>(list, &nodes[1])) << "the next one does not lead back";
  EXPECT_FALSE(is_linked<node>(list, &nodes[0])) << "the previous one is missing";
}

}  // namespace
}  // namespace tarn::chain
