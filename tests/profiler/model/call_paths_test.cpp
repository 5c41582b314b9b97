// SPDX-License-Identifier: MIT
// The tree of call paths: one node for each address below its caller's.
#include "profiler/model/call_paths.hpp"

#include <gtest/gtest.h>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {

class call_paths_test_access {
 public:
  static stack_node& node(call_paths& paths, std::uint32_t at) { return paths.nodes_[at]; }
};

namespace {

using access = call_paths_test_access;

TEST(call_paths, each_address_below_a_caller_is_one_node) {
  call_paths paths;
  const std::uint32_t main = paths.find_or_add(0, 0x1000);
  const std::uint32_t work = paths.find_or_add(main, 0x2000);
  EXPECT_EQ(paths.find_or_add(main, 0x2000), work);
  EXPECT_NE(paths.find_or_add(0, 0x2000), work);
  EXPECT_EQ(paths.find(main, 0x2000, 99), work);
  EXPECT_EQ(paths.find(work, 0x2000, 99), 99U);
  paths.validate();
  call_paths others;
  const std::vector<std::uint32_t> nodes =
      others.add(paths.nodes(), [&](std::size_t at) { return paths.nodes()[at].address + 1; });
  EXPECT_EQ(others.find(nodes[main], 0x2001, 99), nodes[work]);
}

TEST(call_paths, finds_a_broken_invariant) {
  call_paths paths;
  const std::uint32_t main = paths.find_or_add(0, 0x1000);
  const std::uint32_t work = paths.find_or_add(main, 0x2000);
  access::node(paths, work).parent = work;
  EXPECT_BROKEN(paths.validate(), "call_paths", "nodes_[at].parent < at", &paths);
  access::node(paths, work) = access::node(paths, main);
  EXPECT_BROKEN(paths.validate(), "call_paths", "find(nodes_[at].parent, nodes_[at].address, 0) == at",
                &paths);
}

}  // namespace
}  // namespace tarn::profiler
