// SPDX-License-Identifier: MIT
// Call paths merged by function, from the program's start and from the sites.
#include "profiler/export/call_tree.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

// main calls f on two lines and g; f calls g; each call of malloc is through operator new.
profile three_paths() {
  profile p;
  p.stacks = {{}, {0, 1}, {1, 2}, {1, 3}, {3, 4}, {1, 5}, {2, 6}, {4, 6}, {5, 6}};
  p.symbols[1] = {{"main", "m.cpp", 1, false}};
  p.symbols[2] = {{"f", "m.cpp", 10, false}};
  p.symbols[3] = {{"f", "m.cpp", 11, false}};
  p.symbols[4] = {{"g", "m.cpp", 20, false}};
  p.symbols[5] = {{"g", "m.cpp", 21, false}};
  p.symbols[6] = {{"operator new(unsigned long)", "", 0, false}};
  const std::uint32_t ends[] = {6, 7, 8};
  p.sites.resize(3);
  for (std::size_t index = 0; index < 3; ++index) {
    p.sites[index].stack = ends[index];
    p.sites[index].figures.bytes = static_cast<double>(1U << index);
  }
  return p;
}

// "name value own (children...)"
std::string drawn(const call_tree& tree, const call_node& node) {
  std::string text = node.depth == 0 ? "all" : tree.frame_of(node).function;
  text +=
      " " + std::to_string(static_cast<int>(node.value)) + " " + std::to_string(static_cast<int>(node.own));
  for (const call_node& child : tree.children(node)) text += " (" + drawn(tree, child) + ")";
  return text;
}

std::string drawn(const profile& p, bool inverted) {
  const call_tree tree = call_tree::of(p, *find_metric("bytes"), inverted);
  return drawn(tree, tree.root());
}

TEST(call_tree, a_nodes_value_includes_its_children) {
  const profile p = synthetic_profile();
  for (const bool inverted : {false, true}) {
    const metric& what = *find_metric("cost");
    const call_tree tree = call_tree::of(p, what, inverted);
    EXPECT_NEAR(tree.root().value, sum_of(p, what), 1);
    std::vector<call_node> nodes = {tree.root()};
    for (std::size_t index = 0; index < nodes.size(); ++index) {
      const call_node node = nodes[index];
      double sum = node.own;
      std::set<std::string> functions;
      for (const call_node& child : tree.children(node)) {
        sum += child.value;
        EXPECT_TRUE(functions.insert(tree.frame_of(child).function).second) << "two children of one function";
        nodes.push_back(child);
      }
      EXPECT_NEAR(sum, node.value, 1);
    }
    EXPECT_GT(nodes.size(), 200U);
  }
}

TEST(call_tree, calls_of_one_function_are_one_node_and_the_largest_comes_first) {
  EXPECT_EQ(drawn(three_paths(), false), "all 7 0 (main 7 0 (g 4 4) (f 3 1 (g 2 2)))");
}

TEST(call_tree, inverted_it_leads_from_the_sites_to_their_callers) {
  EXPECT_EQ(drawn(three_paths(), true), "all 7 0 (g 6 0 (main 4 4) (f 2 0 (main 2 2))) (f 1 0 (main 1 1))");
}

TEST(call_tree, rows_without_a_value_are_left_out) {
  profile p = three_paths();
  p.sites[2].figures.bytes = 0;
  EXPECT_EQ(drawn(p, true), "all 3 0 (g 2 0 (f 2 0 (main 2 2))) (f 1 0 (main 1 1))");
  EXPECT_EQ(drawn(profile(), false), "all 0 0");
}

TEST(call_tree, sites_without_a_call_path_are_a_node_of_their_own) {
  profile p;
  p.sites.resize(1);
  p.sites[0].figures.bytes = 5;
  EXPECT_EQ(drawn(p, false), "all 5 0 ([no call path] 5 5)");
}

}  // namespace
}  // namespace tarn::profiler
