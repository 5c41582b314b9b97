// SPDX-License-Identifier: MIT
// The rows of threads, also of those whose id another thread gets, and of those that share one.
#include "profiler/collect/thread_table.hpp"

#include <gtest/gtest.h>

#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {

class thread_table_test_access {
 public:
  static std::size_t& ended(thread_table& table) { return table.ended_; }
  static std::uint32_t& row_of(thread_table& table, std::uint32_t id) { return table.row_of_id_[id]; }
};

namespace {

using access = thread_table_test_access;

TEST(thread_table, an_id_leads_to_its_last_thread) {
  thread_table table;
  const std::uint32_t first = table.begin(7, 1);
  table.end(first, 2);
  const std::uint32_t second = table.begin(7, 3);
  EXPECT_NE(second, first);
  EXPECT_EQ(table.row_of(7), second);
  EXPECT_FALSE(table.row_of(8));
  table.validate();
}

TEST(thread_table, threads_that_have_ended_share_a_row_when_there_are_many) {
  thread_table table;
  for (std::uint32_t id = 1; !table.is_crowded(); ++id) table.end(table.begin(id, id), id + 1);
  const std::uint32_t running = table.begin(1, 5000);
  const std::size_t rows = table.size();
  table.join(table.ended());
  table.validate();
  EXPECT_EQ(table.row_of(1), running);
  EXPECT_FALSE(table.row_of(2));
  for (std::uint32_t id = 10001; id < 10100; ++id) table.begin(id, id);
  EXPECT_EQ(table.size(), rows) << "rows are used again";
  table.validate();
}

TEST(thread_table, finds_a_broken_invariant) {
  thread_table table;
  table.begin(7, 1);
  table.begin(8, 1);
  ++access::ended(table);
  EXPECT_BROKEN(table.validate(), "thread_table", "ended_ == with_end", &table);
  --access::ended(table);
  ++access::row_of(table, 7);
  EXPECT_BROKEN(table.validate(), "thread_table", "row < rows_.size() && rows_[row].id == id", &table);
}

}  // namespace
}  // namespace tarn::profiler
