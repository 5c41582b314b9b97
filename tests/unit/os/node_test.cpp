// SPDX-License-Identifier: MIT
// node: the node of a processor, and which place a thread of a node gets.
#include "os/node.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <thread>

#include "os/own_threads/thread.hpp"

namespace tarn::os {
namespace {

TEST(node, it_is_the_one_that_the_system_tells) {
  note_threads_allowed();
  std::set<unsigned> nodes;
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::thread([&allowed, &nodes] {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
      unsigned expected = 0;
      ASSERT_EQ(getcpu(nullptr, &expected), 0);
      EXPECT_EQ(this_node(), expected);
      nodes.insert(expected);
    }
  }).join();
  EXPECT_EQ(has_several_nodes(), nodes.size() > 1);
}

TEST(node, a_thread_gets_a_place_of_its_own_if_there_is_one) {
  EXPECT_LT(place_cost(0, 0, 0), place_cost(0, 1, 0)) << "of its own node first";
  EXPECT_LT(place_cost(0, 1, 0), place_cost(1, 0, 0)) << "memory of another node rather than a shared place";
}

TEST(node, places_are_shared_within_a_node) {
  EXPECT_LT(place_cost(1, 0, 0), place_cost(2, 0, 0));
  EXPECT_LT(place_cost(60000, 0, 0), place_cost(1, 1, 0));
  EXPECT_LT(place_cost(1, 1, 0), place_cost(2, 1, 0));
}

}  // namespace
}  // namespace tarn::os
