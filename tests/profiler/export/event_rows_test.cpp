// SPDX-License-Identifier: MIT
// What call paths allocated in each slice of the run, from the events of a file.
#include "profiler/export/event_rows.hpp"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

struct row {
  std::uint64_t time, kind, block, size, stack, extra = 0;
};

table events_of(const std::vector<row>& rows) {
  std::array<integers, 6> columns;
  for (const row& one : rows) {
    const std::array values{one.time, one.kind, one.block, one.size, one.stack, one.extra};
    for (std::size_t index = 0; index < columns.size(); ++index) columns[index].push_back(values[index]);
  }
  return {"events",
          rows.size(),
          {{"time_ns", columns[0]},
           {"thread", integers(rows.size())},
           {"kind", columns[1]},
           {"block", columns[2]},
           {"size", columns[3]},
           {"stack", columns[4]},
           {"extra", columns[5]}},
          false};
}

using cell = std::tuple<std::uint32_t, std::uint32_t, double, double, double>;

std::vector<cell> cells_of(const std::vector<row>& rows, std::size_t slices = 10, std::size_t most = 1000) {
  const scratch_file file;
  table_writer(file.path()).append(events_of(rows));
  std::vector<cell> found;
  for (const slice_cell& one : slices_of(file.path(), 100, slices, most).cells)
    found.emplace_back(one.stack, one.slice, one.allocations, one.bytes, one.grown);
  return found;
}

TEST(event_slices, hold_calls_bytes_and_growth_of_each_path) {
  EXPECT_EQ(cells_of({{5, event_malloc, 1, 10, 7},
                      {8, event_new, 2, 20, 7},
                      {15, event_free, 1, 0, 0},
                      {99, event_calloc, 3, 5, 8},
                      {250, event_delete, 2, 0, 0}}),
            (std::vector<cell>{{7, 0, 2, 30, 30}, {7, 1, 0, 0, -10}, {7, 9, 0, 0, -20}, {8, 9, 1, 5, 5}}));
}

TEST(event_slices, a_realloc_ends_the_old_block) {
  EXPECT_EQ(cells_of({{5, event_malloc, 1, 10, 7}, {15, event_realloc, 2, 30, 8, 1}}),
            (std::vector<cell>{{7, 0, 1, 10, 10}, {7, 1, 0, 0, -10}, {8, 1, 1, 30, 30}}));
}

TEST(event_slices, a_free_may_come_before_its_allocation_as_threads_write_in_turn) {
  EXPECT_EQ(cells_of({{15, event_free, 1, 0, 0}, {5, event_malloc, 1, 10, 7}}),
            (std::vector<cell>{{7, 0, 1, 10, 10}, {7, 1, 0, 0, -10}}));
}

TEST(event_slices, are_fewer_where_there_would_be_too_many_cells) {
  std::vector<row> rows;
  for (std::uint64_t time = 0; time < 100; time += 5) rows.push_back({time, event_malloc, time + 1, 1, 7});
  EXPECT_EQ(cells_of(rows, 16).size(), 16U);
  const std::vector<cell> few = cells_of(rows, 16, 4);
  EXPECT_EQ(few.size(), 4U);
  double calls = 0;
  for (const cell& one : few) calls += std::get<2>(one);
  EXPECT_EQ(calls, 20);
}

TEST(event_slices, a_file_without_events_has_none) {
  const scratch_file file;
  { table_writer out(file.path()); }
  EXPECT_TRUE(slices_of(file.path(), 100).ends_ns.empty());
}

TEST(event_slices, what_is_read_of_a_damaged_file_counts_and_its_damage_is_told) {
  scratch_file file;
  {
    table_writer out(file.path());
    out.append(events_of({{5, event_malloc, 1, 10, 7}}));
    out.append(events_of({{6, event_malloc, 2, 10, 7}}));
  }
  const auto whole = file.contents();
  EXPECT_EQ(slices_of(file.path(), 100).damage, "");
  auto bytes = whole;
  bytes.pop_back();
  file.set(bytes);
  const event_slices cut = slices_of(file.path(), 100);
  ASSERT_EQ(cut.cells.size(), 1U);
  EXPECT_EQ(cut.cells[0].allocations, 1);
  EXPECT_EQ(cut.damage, "") << "the loader tells it";
  bytes = whole;
  bytes.back() ^= 1;
  file.set(bytes);
  const event_slices flipped = slices_of(file.path(), 100);
  ASSERT_EQ(flipped.cells.size(), 1U);
  EXPECT_EQ(flipped.cells[0].allocations, 1);
  EXPECT_EQ(flipped.damage.find("a chunk of table 'events' is damaged after "), 0U) << flipped.damage;
}

}  // namespace
}  // namespace tarn::profiler
