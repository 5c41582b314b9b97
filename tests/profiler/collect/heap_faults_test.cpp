// SPDX-License-Identifier: MIT
// Which page faults count as the heap's: those near sampled blocks.
#include "profiler/collect/heap_faults.hpp"

#include <gtest/gtest.h>

namespace {

using namespace tarn::profiler;

constexpr double distance = 64 << 10;
constexpr std::uint64_t heap_start = 0x10000000;
constexpr std::uint64_t stack_start = 0x7fff0000;

TEST(heap_faults, faults_near_a_sampled_block_are_the_heaps) {
  heap_faults faults(distance);
  faults.add_fault(heap_start, 3);
  faults.add_fault(stack_start, 100);
  EXPECT_EQ(faults.near_blocks(), 0) << "no block is known yet";
  faults.add_block(heap_start + 100'000);
  EXPECT_EQ(faults.near_blocks(), 3);
  faults.add_fault(heap_start + 10 * static_cast<std::uint64_t>(distance), 1);
  EXPECT_EQ(faults.near_blocks(), 3) << "ten distances away";
}

TEST(heap_faults, faults_can_be_taken_back_and_a_childs_be_added) {
  heap_faults faults(distance);
  faults.add_block(heap_start);
  faults.add_fault(heap_start, 3);
  faults.add_fault(heap_start, -1);
  faults.add_process(5);
  EXPECT_EQ(faults.near_blocks(), 7);
}

TEST(heap_faults, the_distance_does_not_wrap_below_address_0) {
  heap_faults faults(distance);
  faults.add_block(16);
  faults.add_fault(4096, 1);
  EXPECT_EQ(faults.near_blocks(), 1);
}

}  // namespace
