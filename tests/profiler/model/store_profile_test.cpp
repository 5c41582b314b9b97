// SPDX-License-Identifier: MIT
// What a checkpoint writes again, and what only once.
#include "profiler/model/store_profile.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

// The number of rows of each table in the file, a table that replaces counted once.
std::map<std::string, std::size_t> rows_in(const scratch_file& file) {
  std::map<std::string, std::size_t> rows;
  read_tables(file.path(), [&rows](table&& one) {
    if (one.replaces) rows[one.name] = 0;
    rows[one.name] += one.rows;
  });
  return rows;
}

TEST(store_profile, a_checkpoint_appends_to_the_tables_that_only_grow) {
  profile p;
  p.meta = {{"program", "/bin/p"}};
  p.stacks = {{}, {0, 0x10}};
  p.modules = {{"/bin/p", "", 0, 0x1000, 0}};
  p.counters.resize(2);
  p.counters[1].time_ns = 1;
  p.sites.resize(1);
  const scratch_file file;
  table_writer out(file.path());
  stored_rows already;
  store_profile(out, p, already);
  EXPECT_EQ(already.modules, 1U);
  EXPECT_EQ(already.stacks, 2U);
  EXPECT_EQ(already.counters.rows, 2U);
  p.stacks.push_back({1, 0x20});
  p.counters.resize(3);
  p.sites.resize(2);
  store_profile(out, p, already);
  std::map<std::string, std::size_t> rows = rows_in(file);
  EXPECT_EQ(rows["modules"], 1U);
  EXPECT_EQ(rows["stacks"], 2U);
  EXPECT_EQ(rows["counters"], 3U);
  EXPECT_EQ(rows["sites"], 2U);
  EXPECT_EQ(rows["meta"], 1U);
  EXPECT_FALSE(rows.contains("symbols"));
  EXPECT_FALSE(rows.contains("memory"));
  EXPECT_FALSE(rows.contains("processes"));
}

TEST(store_profile, stacks_whose_addresses_have_changed_are_stored_anew) {
  profile p;
  p.meta = {{"program", "/bin/p"}};
  p.stacks = {{}, {0, 0x10}, {1, 0x20}};
  const scratch_file file;
  table_writer out(file.path());
  stored_rows already;
  store_profile(out, p, already);
  p.stacks[2].address = 0x30;
  p.stacks_changed = true;
  store_profile(out, p, already);
  const profile read = load_profile(file.path());
  ASSERT_EQ(read.stacks.size(), 3U);
  EXPECT_EQ(read.stacks[1].address, 0x10U);
  EXPECT_EQ(read.stacks[2].address, 0x30U);
  EXPECT_EQ(already.stacks, 3U);
}

TEST(store_profile, a_history_of_memory_is_stored_once) {
  profile p;
  p.meta = {{"program", "/bin/p"}};
  const scratch_file file;
  table_writer out(file.path());
  stored_rows already;
  const auto stored = [&] {
    store_profile(out, p, already);
    std::size_t all = 0;
    read_tables(file.path(), [&all](table&& one) { all += one.name == "memory" ? one.rows : 0; });
    const std::vector<memory_row> back = load_profile(file.path()).memory.rows;
    EXPECT_EQ(back.size(), p.memory.rows.size());
    for (std::size_t row = 0; row < std::min(back.size(), p.memory.rows.size()); ++row)
      EXPECT_EQ(back[row].time_ns, p.memory.rows[row].time_ns);
    return all;
  };
  for (std::uint64_t row = 0; row < 10; ++row) p.memory.rows.emplace_back().time_ns = row;
  EXPECT_EQ(stored(), 10U);
  EXPECT_EQ(stored(), 10U);
  p.memory.rows.emplace_back().time_ns = 10;
  EXPECT_EQ(stored(), 11U);
  // Rows within were removed, and then one was put back.
  p.memory.rows.erase(p.memory.rows.begin() + 3);
  EXPECT_EQ(stored(), 21U);
  p.memory.rows.insert(p.memory.rows.begin() + 3, memory_row{})->time_ns = 3;
  EXPECT_EQ(stored(), 32U);
  p.memory.rows.erase(p.memory.rows.begin() + 1, p.memory.rows.end() - 2);
  EXPECT_EQ(stored(), 35U);
}

TEST(store_profile, an_empty_profile_is_a_profile) {
  const scratch_file file;
  {
    table_writer out(file.path());
    store_profile(out, profile());
  }
  const profile again = load_profile(file.path());
  EXPECT_EQ(again.damage, "");
  EXPECT_TRUE(again.sites.empty());
  EXPECT_EQ(again.stacks.size(), 1U);
}

TEST(store_profile, meta_has_the_figures_without_a_table_of_their_own) {
  profile p;
  p.meta = {{"program", "/bin/p"}, {"mode", "old"}};
  p.mode = profile_mode::faults;
  p.unwind_checked = 200;
  p.unwind_error_rate = 0.25;
  p.prices.unmap_page = 70;
  p.malloc_time.samples = 9;
  const nlohmann::json meta = stored_meta(p);
  EXPECT_EQ(meta["program"], "/bin/p");
  EXPECT_EQ(meta["mode"], "faults");
  EXPECT_EQ(meta["unwind_wrong"], 50);
  EXPECT_EQ(meta["prices"]["unmap_page"], 70);
  EXPECT_EQ(meta["malloc_time"]["samples"], 9);
  p.meta = nlohmann::json::array({1});
  EXPECT_EQ(stored_meta(p)["mode"], "faults") << "what is no object is replaced";
}

TEST(store_profile, names_that_are_not_utf8_are_stored_with_replacements) {
  profile p;
  p.meta = {{"program", "/bin/\xff"}};
  const scratch_file file;
  {
    table_writer out(file.path());
    store_profile(out, p);
  }
  EXPECT_EQ(load_profile(file.path()).meta["program"], "/bin/\xef\xbf\xbd");
}

TEST(store_profile, processes_and_their_counters_come_back) {
  profile p;
  p.processes.resize(2);
  p.processes[0].meta = {{"pid", 7}};
  p.processes[1].meta = {{"pid", 8}};
  p.processes[1].counters.resize(2);
  p.processes[1].counters[1].time_ns = 5;
  p.threads = {{1, "a", 0, 0, 1}};
  const scratch_file file;
  {
    table_writer out(file.path());
    store_profile(out, p);
  }
  const profile again = load_parts(file.path());
  EXPECT_EQ(again.damage, "");
  ASSERT_EQ(again.processes.size(), 2U);
  EXPECT_EQ(again.processes[0].meta["pid"], 7);
  EXPECT_TRUE(again.processes[0].counters.empty());
  ASSERT_EQ(again.processes[1].counters.size(), 2U);
  EXPECT_EQ(again.processes[1].counters[1].time_ns, 5U);
  EXPECT_EQ(again.threads.at(0).process, 1U);
}

}  // namespace
}  // namespace tarn::profiler
