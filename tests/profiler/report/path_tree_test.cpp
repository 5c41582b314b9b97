// SPDX-License-Identifier: MIT
// Call paths of a report: frames of which nodes, and the frame that names a path.
#include "profiler/report/path_tree.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

// The functions from a node to the root.
std::string path_from(const path_tree& tree, const string_table& strings, std::uint32_t node) {
  const nlohmann::json nodes = tree.nodes_json(), frames = tree.frames_json();
  std::string text;
  for (; node != 0; node = nodes["parent"][node].get<std::uint32_t>())
    text +=
        strings.texts().at(frames["function"][nodes["frame"][node].get<std::size_t>()].get<std::size_t>()) +
        " ";
  return text;
}

std::string place_of(path_tree& tree, const string_table& strings, std::uint32_t stack) {
  const std::uint32_t frame = tree.place_of(stack);
  return strings.texts().at(tree.frames_json()["function"][frame].get<std::size_t>());
}

TEST(path_tree, paths_that_differ_only_in_addresses_are_one) {
  profile p;
  p.stacks = {{}, {0, 0x10}, {1, 0x20}, {0, 0x11}, {3, 0x21}};
  for (const std::uint64_t address : {0x10U, 0x11U}) p.symbols[address] = {{"main", "m.cpp", 1, false}};
  for (const std::uint64_t address : {0x20U, 0x21U})
    p.symbols[address] = {{"inlined", "m.cpp", 3, true}, {"f", "m.cpp", 2, false}};
  string_table strings;
  path_tree tree(p, strings);
  EXPECT_EQ(tree.node_of(0), 0U);
  const std::uint32_t node = tree.node_of(2);
  EXPECT_EQ(tree.node_of(4), node);
  EXPECT_EQ(path_from(tree, strings, node), "inlined f main ");
  EXPECT_EQ(tree.nodes_json()["parent"].size(), 4U) << "the root, and three functions";
  EXPECT_EQ(tree.node_of(1000), 0U) << "no such path";
}

TEST(path_tree, code_without_a_name_has_its_offset) {
  profile p{.modules = {{"/opt/libx.so", "", 0x1000, 0x2000, 0}}, .stacks = {{}, {0, 0x1010}}};
  string_table strings;
  path_tree tree(p, strings);
  EXPECT_EQ(path_from(tree, strings, tree.node_of(1)), "?? (libx.so+0x10) ");
  EXPECT_EQ(strings.texts().at(tree.frames_json()["module"][0].get<std::size_t>()), "libx.so");
}

TEST(path_tree, a_place_is_the_innermost_frame_that_does_not_allocate_for_others) {
  profile p;
  p.modules = {{"/lib/libc.so.6", "", 0x1000, 0x2000, 0}, {"/opt/app", "", 0x2000, 0x3000, 0}};
  p.stacks = {{}, {0, 0x2010}, {1, 0x2020}, {2, 0x1010}, {0, 0x1020}, {4, 0x1030}};
  p.symbols[0x2010] = {{"main", "m.cpp", 1, false}};
  p.symbols[0x2020] = {{"std::vector<int>::reserve(unsigned long)", "", 0, true},
                       {"fill()", "m.cpp", 9, false}};
  p.symbols[0x1010] = {{"getline", "", 0, false}};
  p.symbols[0x1020] = {{"start_thread", "", 0, false}};
  p.symbols[0x1030] = {{"strdup", "", 0, false}};
  string_table strings;
  path_tree tree(p, strings);
  EXPECT_EQ(place_of(tree, strings, 3), "fill()");
  EXPECT_EQ(place_of(tree, strings, 5), "strdup") << "if all allocate for others, the innermost";
  EXPECT_EQ(tree.place_of(0), path_tree::no_frame);
  EXPECT_EQ(tree.place_of(1000), path_tree::no_frame);
}

TEST(path_tree, a_path_that_leads_back_into_itself_ends) {
  profile p;
  p.stacks = {{}, {2, 0x10}, {2, 0x20}};
  string_table strings;
  path_tree tree(p, strings);
  EXPECT_EQ(path_from(tree, strings, tree.node_of(2)), "?? (0x20) ?? (0x10) ");
}

TEST(path_tree, a_node_below_a_frame_stands_for_many_paths) {
  profile p;
  p.stacks = {{}, {0, 0x10}};
  p.symbols[0x10] = {{"main", "", 0, false}};
  string_table strings;
  path_tree tree(p, strings);
  const std::uint32_t frame = tree.place_of(1);
  const std::uint32_t node = tree.node_below("[other paths]", frame);
  EXPECT_EQ(path_from(tree, strings, node), "main [other paths] ");
  EXPECT_EQ(tree.node_below("[other paths]", frame), node);
  EXPECT_EQ(path_from(tree, strings, tree.node_below("[other paths]", path_tree::no_frame)),
            "[other paths] ");
}

}  // namespace
}  // namespace tarn::profiler
