// SPDX-License-Identifier: MIT
// What a summary begins with.
#include "profiler/analyze/trouble.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <random>

namespace tarn::profiler {
namespace {

constexpr double mib = 1 << 20;

// A program that ran for ten seconds, took one second of processor time, and paid `paid` ns of it for its memory.
profile program(double paid, double peak_bytes) {
  profile p;
  p.mode = profile_mode::full;
  p.meta = {{"peak_resident_bytes", peak_bytes},
            {"machine_memory_bytes", 1024 * mib},
            {"growth_from_ns", 5e9},
            {"exit", {{"status", 0}}}};
  p.sites.resize(1);
  p.sites[0].figures.malloc_ns = paid;
  for (int tenth = 0; tenth <= 100; ++tenth) {
    counter_row row{.time_ns = static_cast<std::uint64_t>(tenth) * 100'000'000, .user_ns = 1e7 * tenth};
    row.live_bytes = row.resident_bytes = peak_bytes;
    p.counters.push_back(row);
  }
  memory_row reading;
  reading.live = reading.resident_bytes = peak_bytes;
  reading.time_ns = 4'000'000'000;
  p.memory.rows = {reading, reading};
  p.memory.rows[1].time_ns = 10'000'000'000;
  p.memory.parts = {{4'000'000'000, "live", "", 1, peak_bytes, 0}};
  return p;
}

trouble_kind kind_of(const profile& p) { return trouble_of(p).kind; }

TEST(trouble, the_larger_share_of_time_and_memory_comes_first) {
  EXPECT_EQ(kind_of(program(2e8, 100 * mib)), trouble_kind::time);
  EXPECT_EQ(kind_of(program(2e7, 100 * mib)), trouble_kind::peak);
  EXPECT_EQ(kind_of(program(0, 10 * mib)), trouble_kind::time) << "neither hurts";
  profile unread = program(2e7, 100 * mib);
  unread.memory = {};
  EXPECT_EQ(kind_of(unread), trouble_kind::time) << "nothing tells who held the memory";
  EXPECT_EQ(kind_of(program(2e8, 600 * mib)), trouble_kind::peak) << "most of the machine";
  EXPECT_EQ(sentence_of(trouble_of(program(2e7, 100 * mib))),
            "its resident memory reached at least 100 MiB, 9.8 % of the 1 GiB of its machine");
}

TEST(trouble, near_the_limit_of_the_control_group) {
  profile p = program(2e8, 95 * mib);
  p.meta["memory_limit_bytes"] = 100 * mib;
  EXPECT_EQ(kind_of(p), trouble_kind::peak);
  EXPECT_NE(sentence_of(trouble_of(p)).find("the limit of its control group is 100 MiB"), std::string::npos);
  EXPECT_EQ(reading_for(p, trouble_of(p))->time_ns, 4'000'000'000U) << "the live peak";
}

TEST(trouble, what_the_recorder_took_is_not_said_to_be_the_programs) {
  profile p = program(2e7, 100 * mib);
  p.memory.rows[0].resident_bytes = 90 * mib;
  p.memory.rows[0].live = p.memory.rows[1].live = 10 * mib;
  p.memory.rows[0].recorder = 60 * mib;
  p.memory.rows[1].recorder = 80 * mib;  // where most was resident
  EXPECT_EQ(trouble_of(p).recorder_bytes, 80 * mib);
  EXPECT_EQ(
      sentence_of(trouble_of(p)),
      "its resident memory reached at least 100 MiB (80 MiB of it tarn's recorder), 9.8 % of the 1 GiB of its "
      "machine");
  p.memory.rows[1].recorder = 5 * mib;
  EXPECT_EQ(sentence_of(trouble_of(p)).find("recorder"), std::string::npos) << "little";
}

TEST(trouble, a_program_that_was_killed_is_shown_at_its_last_reading) {
  profile p = program(2e8, 95 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  EXPECT_EQ(kind_of(p), trouble_kind::death);
  EXPECT_EQ(reading_for(p, trouble_of(p))->time_ns, 10'000'000'000U);
  EXPECT_TRUE(
      sentence_of(trouble_of(p)).starts_with("killed by signal 9 (Killed); its resident memory reached"));
  p.meta["exit"] = {{"signal", SIGTERM}};
  EXPECT_NE(kind_of(p), trouble_kind::death) << "somebody has ended it";
  p.meta["exit"] = {{"signal", SIGABRT}};
  p.meta["address_limit_bytes"] = 200 * mib;
  EXPECT_TRUE(trouble_of(p).may_be_memory());
  EXPECT_NE(sentence_of(trouble_of(p)).find("(ulimit -v) is 200 MiB"), std::string::npos);
  p.meta["exit"] = {{"signal", SIGSEGV}};
  EXPECT_FALSE(trouble_of(p).may_be_memory()) << "a mistake of the program";
  p.meta["peak_address_bytes"] = 199 * mib;
  EXPECT_TRUE(trouble_of(p).may_be_memory()) << "malloc has returned null";
}

TEST(trouble, a_program_that_gives_up_near_the_limit_of_its_address_space) {
  profile p = program(2e8, 95 * mib);
  p.meta["exit"] = {{"status", 1}};
  p.meta["address_limit_bytes"] = 200 * mib;
  p.meta["peak_address_bytes"] = 100 * mib;
  EXPECT_EQ(kind_of(p), trouble_kind::time) << "it had as much again";
  p.meta["peak_address_bytes"] = 195 * mib;
  ASSERT_EQ(kind_of(p), trouble_kind::peak);
  EXPECT_EQ(
      sentence_of(trouble_of(p)),
      "it ended with status 1; its resident memory reached at least 95 MiB; the limit of its address space (ulimit -v) is "
      "200 MiB, of which it used 195 MiB");
  p.meta["exit"] = {{"status", 0}};
  EXPECT_EQ(kind_of(p), trouble_kind::time) << "it had enough";
}

void let_live_bytes_grow(profile& p, double to) {
  for (counter_row& row : p.counters) row.live_bytes = to * static_cast<double>(row.time_ns) / 1e10;
}

TEST(trouble, what_grew_to_the_end_of_a_program_that_did_not_end_by_itself) {
  profile p = program(2e8, 95 * mib);
  let_live_bytes_grow(p, 40 * mib);
  EXPECT_EQ(kind_of(p), trouble_kind::time) << "it has built up what it needed";
  p.meta["exit"] = {{"signal", SIGTERM}};
  ASSERT_EQ(kind_of(p), trouble_kind::growth);
  EXPECT_EQ(
      sentence_of(trouble_of(p)),
      "its live blocks still grew at the end: from 22.4 MiB at 5.60 s to 37.6 MiB at 9.40 s (4 MiB a second)");
  // Sampled blocks stand for so many bytes that it may be chance.
  p.meta["sample_bytes"] = 4 * mib;
  EXPECT_NE(kind_of(p), trouble_kind::growth);
}

TEST(trouble, resident_memory_that_grows_alone_says_what_is_known_of_the_live_blocks) {
  profile p = program(2e8, 95 * mib);
  p.meta["exit"] = {{"signal", SIGTERM}};
  for (counter_row& row : p.counters) {
    row.resident_bytes = 40 * mib * static_cast<double>(row.time_ns) / 1e10;
    row.live_bytes = 1 * mib;
  }
  ASSERT_EQ(kind_of(p), trouble_kind::growth);
  EXPECT_NE(sentence_of(trouble_of(p)).find("a second); its live blocks make up less than half"),
            std::string::npos)
      << sentence_of(trouble_of(p));
  p.meta["sample_bytes"] = 64 * mib;
  EXPECT_NE(sentence_of(trouble_of(p)).find("samples do not tell whether its live blocks did"),
            std::string::npos);
}

// A block of 8 MiB comes and goes; resident bytes are read at another moment than live ones.
void let_grow_unevenly(profile& p, double mib_a_second, unsigned seed) {
  std::mt19937 random(seed);
  for (counter_row& row : p.counters) {
    const double lasting = 40 * mib + mib_a_second * mib * static_cast<double>(row.time_ns) / 1e9;
    row.live_bytes = lasting + (random() % 2 == 0 ? 8 * mib : 0);
    row.resident_bytes = lasting + 20 * mib + (random() % 2 == 0 ? 8 * mib : 0);
  }
}

TEST(trouble, a_block_that_comes_and_goes_hides_no_growth) {
  profile p = program(2e8, 95 * mib);
  p.meta["attached"] = true;
  constexpr int rounds = 200;
  int growing = 0, falsely = 0;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    let_grow_unevenly(p, 3, seed);
    growing += kind_of(p) == trouble_kind::growth ? 1 : 0;
    const std::string told = sentence_of(trouble_of(p));
    EXPECT_EQ(told.find("less than half"), std::string::npos) << told;
    let_grow_unevenly(p, 0, seed);
    falsely += kind_of(p) == trouble_kind::growth ? 1 : 0;
  }
  EXPECT_GE(growing, 0.98 * rounds);
  EXPECT_LE(falsely, 0.03 * rounds);
}

TEST(trouble, what_grows_while_the_load_changes) {
  profile p = program(2e8, 95 * mib);
  p.meta["attached"] = true;
  double live = 20 * mib;
  for (counter_row& row : p.counters) {
    live += (row.time_ns / 1'250'000'000 % 2 == 0 ? 0.2 : 0.07) * mib;
    row.live_bytes = row.resident_bytes = live;
  }
  EXPECT_EQ(kind_of(p), trouble_kind::growth);
}

TEST(trouble, what_has_stopped_growing_is_no_trouble) {
  profile p = program(2e8, 95 * mib);
  p.meta.erase("exit");
  for (counter_row& row : p.counters)
    row.live_bytes = std::min(30 * mib, 50 * mib * static_cast<double>(row.time_ns) / 1e10);
  EXPECT_EQ(kind_of(p), trouble_kind::time);
  for (counter_row& row : p.counters) row.live_bytes = row.time_ns > 9'000'000'000 ? 60 * mib : 10 * mib;
  EXPECT_EQ(kind_of(p), trouble_kind::time) << "one step";
  EXPECT_EQ(kind_of(profile()), trouble_kind::time);
  EXPECT_EQ(reading_for(profile(), trouble_of(profile())), nullptr);
}

}  // namespace
}  // namespace tarn::profiler
