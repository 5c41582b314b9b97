// SPDX-License-Identifier: MIT
// Events as they are in the file: their order, their number, and rows that make no sense.
#include "profiler/export/event_rows.hpp"

#include <gtest/gtest.h>

#include "profiler/format/table_file.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

table events_at(const integers& times) {
  const std::size_t count = times.size();
  return {"events",
          count,
          {{"time_ns", times},
           {"thread", integers(count)},
           {"kind", integers(count, event_malloc)},
           {"block", integers(count)},
           {"size", integers(count)},
           {"stack", integers(count)},
           {"extra", integers(count)}},
          false};
}

std::string events_refusal(const scratch_file& file) {
  try {
    read_events(file.path(), 1000);
  } catch (const profile_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(event_rows, are_sorted_by_time_and_otherwise_keep_their_order) {
  const scratch_file file;
  table events = events_at({5, 3, 5, 3});
  std::get<integers>(events.columns[3].values) = {1, 2, 3, 4};
  table_writer(file.path()).append(events);
  const event_rows found = read_events(file.path(), 4);
  EXPECT_FALSE(found.cut);
  EXPECT_EQ(found.damage, "");
  std::string blocks;
  for (const event_row& each : found.rows) blocks += std::to_string(each.block);
  EXPECT_EQ(blocks, "2413");
}

TEST(event_rows, the_first_are_read_of_several_tables) {
  const scratch_file file;
  {
    table_writer out(file.path());
    out.append(events_at({1, 2}));
    out.append_json("meta", "{}");
    out.append(events_at({3, 4}));
  }
  EXPECT_EQ(read_events(file.path(), 4).rows.size(), 4U);
  EXPECT_FALSE(read_events(file.path(), 4).cut);
  EXPECT_EQ(read_events(file.path(), 3).rows.back().time, 3U);
  EXPECT_TRUE(read_events(file.path(), 3).cut);
}

TEST(event_rows, a_file_without_events_has_none) {
  const scratch_file file;
  { table_writer out(file.path()); }
  EXPECT_TRUE(read_events(file.path(), 10).rows.empty());
}

TEST(event_rows, the_row_that_makes_no_sense_is_named) {
  for (const auto& [column_index, most] :
       {std::pair{1, std::uint64_t{0xffffffff}}, {2, 255}, {4, 1ULL << 46}}) {
    const scratch_file file;
    table_writer out(file.path());
    table events = events_at({1, 2});
    std::uint64_t& value =
        std::get<integers>(events.columns[static_cast<std::size_t>(column_index)].values)[1];
    value = most;
    out.append(events);
    EXPECT_EQ(events_refusal(file), "no error");
    ++value;
    out.append(events);
    EXPECT_EQ(events_refusal(file),
              file.path() + ": row 3 of its events makes no sense; record the program again: tarn profile");
  }
}

TEST(event_rows, what_is_read_of_a_damaged_file_is_kept) {
  scratch_file file;
  {
    table_writer out(file.path());
    out.append(events_at({1}));
    out.append(events_at({2}));
  }
  auto bytes = file.contents();
  bytes.pop_back();
  file.set(bytes);
  const event_rows found = read_events(file.path(), 10);
  EXPECT_EQ(found.rows.size(), 1U);
  EXPECT_EQ(found.damage, "the file ends too early");
}

}  // namespace
}  // namespace tarn::profiler
