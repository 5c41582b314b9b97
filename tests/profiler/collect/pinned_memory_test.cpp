// SPDX-License-Identifier: MIT
// Free bytes divided among live blocks: on a page, in a cell, by nobody.
#include "profiler/collect/pinned_memory.hpp"

#include <gtest/gtest.h>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {

class pinned_memory_test_access {
 public:
  static double& nobody(pinned_memory& m) { return m.nobody_; }
};

namespace {

constexpr std::uint64_t page = pinned_memory::page_bytes;
constexpr std::uint64_t cell = pinned_memory::cell_bytes;

double all(std::uint64_t from, std::uint64_t to) { return static_cast<double>(to - from); }

TEST(pinned_memory, nothing) {
  pinned_memory empty;
  empty.add_range(cell, cell, all);
  empty.divide();
  EXPECT_TRUE(empty.by_site().empty());
  EXPECT_EQ(empty.by_nobody(), 0);
}

TEST(pinned_memory, a_page_is_divided_among_its_blocks) {
  pinned_memory m;
  m.add_block(cell, cell + 96, 1);
  m.add_block(cell + 96, cell + 196, 2);
  m.add_block(cell + 1000, cell + 1100, 2);
  m.add_range(cell, cell + page, all);
  m.divide();
  const double share = (page - 296) / 3.0;
  EXPECT_DOUBLE_EQ(m.by_site().at(1), share);
  EXPECT_DOUBLE_EQ(m.by_site().at(2), 2 * share);
  EXPECT_EQ(m.by_nobody(), 0);
}

TEST(pinned_memory, pages_without_a_block_belong_to_those_of_the_cell) {
  pinned_memory m;
  m.add_block(cell + 5 * page, cell + 5 * page + 96, 7);
  m.add_range(cell, 3 * cell, all);
  m.divide();
  EXPECT_DOUBLE_EQ(m.by_site().at(7), static_cast<double>(cell - 96));
  EXPECT_DOUBLE_EQ(m.by_nobody(), static_cast<double>(cell));
}

TEST(pinned_memory, a_block_over_several_pages_and_cells) {
  pinned_memory m;
  m.add_block(2 * cell - page - 100, 2 * cell + page + 100, 3);
  m.add_range(cell, 3 * cell, all);
  m.divide();
  EXPECT_DOUBLE_EQ(m.by_site().at(3), static_cast<double>(2 * cell - 2 * page - 200));
}

TEST(pinned_memory, pages_that_are_not_resident_are_not_pinned) {
  pinned_memory m;
  m.add_block(cell, cell + 96, 1);
  m.add_block(cell + page, cell + page + 96, 1);
  const auto first_page = [](std::uint64_t from, std::uint64_t to) {
    return from < cell + page ? static_cast<double>(to - from) : 0.0;
  };
  m.add_range(cell, 2 * cell, first_page);
  m.divide();
  EXPECT_DOUBLE_EQ(m.by_site().at(1), static_cast<double>(page - 96));
  EXPECT_EQ(m.by_nobody(), 0);
}

TEST(pinned_memory, finds_a_broken_invariant) {
  pinned_memory m;
  m.add_block(cell, cell + 96, 1);
  m.add_range(cell, 2 * cell, all);
  m.divide();
  m.validate();
  pinned_memory_test_access::nobody(m) += 1;
  EXPECT_BROKEN(m.validate(), "pinned_memory", "std::abs(sum - free_) <= 1e-6 * (1 + free_)", &m);
}

}  // namespace
}  // namespace tarn::profiler
