// SPDX-License-Identifier: MIT
// heaptrack's lines of recorded events and of made-up ones, one by one.
#include <gtest/gtest.h>

#include "profiler/export/event_rows.hpp"
#include "profiler/export/exports.hpp"
#include "profiler/format/table_file.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

// time_ns, kind, block, size, stack, extra of each row
void write_event_rows(const scratch_file& file, const std::vector<integers>& rows) {
  table events{"events", rows.size(), {}, false};
  const char* const names[] = {"time_ns", "kind", "block", "size", "stack", "extra"};
  for (std::size_t index = 0; index < 6; ++index) {
    integers values;
    for (const integers& row : rows) values.push_back(row[index]);
    events.columns.push_back({names[index], std::move(values)});
  }
  table_writer(file.path()).append(events);
}

std::string heaptrack_lines(const profile& p, const std::string& path, heaptrack_outcome* outcome = nullptr) {
  std::string text;
  const heaptrack_outcome got = export_heaptrack(p, path, [&text](std::string_view piece) { text += piece; });
  if (outcome != nullptr) *outcome = got;
  return text;
}

profile full_profile() {
  profile p;
  p.mode = profile_mode::full;
  p.meta = {{"arguments", {"./p", "a\nb"}}, {"page_bytes", 16384}};
  p.modules = {{"/bin/p", "", 0x1000, 0x2000, 0}};
  p.stacks = {{}, {0, 0x1010}, {1, 0x1020}};
  p.symbols[0x1020] = {{"in", "a.cpp", 3, true}, {"f", "a.cpp", 18, false}};
  return p;
}

constexpr const char* head =
    "v 10400 3\nX ./p a b\nI 4000 0\ns 6 /bin/p\ni 1010 1\nt 1 0\ns 2 in\ns 5 a.cpp\ns 1 f\n"
    "i 1020 1 2 3 3 4 3 12\nt 2 1\n";

TEST(heaptrack, recorded_events_keep_their_order_and_times) {
  constexpr std::uint64_t ms = 1000000;
  profile p = full_profile();
  p.counters.resize(1);
  p.counters[0].time_ns = 2 * ms;
  p.counters[0].resident_bytes = 10 * 16384;
  const scratch_file file;
  write_event_rows(file, {{ms, event_malloc, 0x50, 64, 2, 0},
                          {ms + 1, event_new, 0x51, 64, 2, 0},
                          {3 * ms, event_realloc, 0x52, 128, 1, 0x50},
                          {3 * ms, event_touch, 0x52, 0, 0, 1},
                          {3 * ms, event_free, 0x99, 0, 0, 0},
                          {3 * ms, event_delete, 0x51, 0, 0, 0}});
  heaptrack_outcome outcome;
  EXPECT_EQ(heaptrack_lines(p, file.path(), &outcome),
            std::string(head) + "c 1\na 40 2\n+ 0\n+ 0\nc 3\nR a\n- 0\na 80 1\n+ 1\n- 0\n");
  EXPECT_TRUE(outcome.from_events);
  EXPECT_TRUE(notes_of(outcome).approximations.empty());
}

TEST(heaptrack, an_unknown_call_path_is_the_empty_one) {
  const scratch_file file;
  write_event_rows(file, {{0, event_malloc, 0x50, 8, 77, 0}});
  EXPECT_EQ(heaptrack_lines(full_profile(), file.path()), std::string(head) + "a 8 0\n+ 0\n");
}

TEST(heaptrack, made_up_events_end_the_blocks_that_did_not_stay) {
  profile p = full_profile();
  p.mode = profile_mode::sample;
  p.sites.resize(1);
  p.sites[0].stack = 2;
  // Four blocks: two pass, and two live at the peak, one of them at the end, too.
  p.sites[0].figures.allocations = 4;
  p.sites[0].figures.bytes = 400;
  p.sites[0].figures.bytes_at_peak = 200;
  p.sites[0].figures.live_bytes = 100;
  p.sites[0].sizes = {{100, 4, true}};
  heaptrack_outcome outcome;
  EXPECT_EQ(heaptrack_lines(p, "", &outcome),
            std::string(head) + "a 64 2\n+ 0\n- 0\n+ 0\n- 0\n+ 0\n+ 0\n- 0\n");
  EXPECT_EQ(outcome.each_stands_for, 1);
  ASSERT_EQ(notes_of(outcome).approximations.size(), 1U);
  EXPECT_TRUE(notes_of(outcome).approximations[0].starts_with("the profile does not contain all events"));
}

TEST(heaptrack, lines_that_stand_for_several_blocks_are_told) {
  const heaptrack_outcome outcome{true, 3};
  EXPECT_EQ(notes_of(outcome).approximations,
            std::vector<std::string>{
                "each allocation in the output stands for about 3 of its site: bytes are right, "
                "counts are 3 times too low"});
}

}  // namespace
}  // namespace tarn::profiler
