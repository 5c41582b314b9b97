// SPDX-License-Identifier: MIT
// tree: names and numbers lead to the same nodes; every table can be reached.
#include "malloc/jemalloc/tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tarn::jemalloc {
namespace {

// Calls visit(name, mib, length) for each leaf, with index 0 for every index.
template <class Visit>
void for_each_leaf(const node& parent, const std::string& prefix, std::vector<std::size_t>& mib,
                   Visit visit) {
  if (parent.has_index != nullptr) {
    mib.push_back(0);
    for_each_leaf(parent.children->nodes[0], prefix + "0.", mib, visit);
    mib.pop_back();
    return;
  }
  for (std::size_t i = 0; i < parent.children->count; ++i) {
    const node& child = parent.children->nodes[i];
    mib.push_back(i);
    if (child.handler != nullptr) {
      visit(prefix + std::string(child.name), mib, child);
    } else {
      for_each_leaf(child, prefix + std::string(child.name) + ".", mib, visit);
    }
    mib.pop_back();
  }
}

TEST(tree, finds_each_leaf_by_its_name_and_by_its_numbers) {
  std::vector<std::size_t> path;
  int count = 0;
  for_each_leaf(root, "", path,
                [&](const std::string& name, const std::vector<std::size_t>& expected, const node& leaf) {
                  ++count;
                  std::size_t mib[most_parts];
                  std::size_t length = most_parts;
                  const node* found = nullptr;
                  ASSERT_EQ(find(name, mib, &length, &found), 0) << name;
                  EXPECT_EQ(found, &leaf) << name;
                  EXPECT_EQ(std::vector<std::size_t>(mib, mib + length), expected) << name;
                  found = nullptr;
                  ASSERT_EQ(find(mib, length, &found), 0) << name;
                  EXPECT_EQ(found, &leaf) << name;
                  length = most_parts;
                  EXPECT_EQ(find(name + ".more", mib, &length, &found), ENOENT) << name;
                });
  EXPECT_GT(count, 40);
}

TEST(tree, names_of_siblings_differ) {
  std::vector<std::size_t> path;
  std::vector<std::string> names;
  for_each_leaf(root, "", path, [&](const std::string& name, const std::vector<std::size_t>&, const node&) {
    names.push_back(name);
  });
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(tree, refuses_what_is_no_name) {
  std::size_t mib[most_parts];
  const node* found = nullptr;
  for (const char* name : {"", ".", "stats.", ".stats", "stats..allocated", "arena.0x1.purge",
                           "arena. 1.purge", "arena.+1.purge", "arena.18446744073709551616.purge",
                           "arenas.bin.97.size", "arenas.bin..size", "Stats.allocated"}) {
    std::size_t length = most_parts;
    EXPECT_EQ(find(name, mib, &length, &found), ENOENT) << name;
  }
  mib[0] = 10000;
  EXPECT_EQ(find(mib, 1, &found), ENOENT);
}

TEST(tree, gives_as_many_numbers_as_there_is_room_for) {
  std::size_t mib[most_parts] = {};
  const node* found = nullptr;
  std::size_t length = 2;
  EXPECT_EQ(find("arenas.bin.3.size", mib, &length, &found), 0);
  EXPECT_EQ(length, 2U);
  EXPECT_EQ(found->name, "bin");
}

}  // namespace
}  // namespace tarn::jemalloc
