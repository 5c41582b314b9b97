// SPDX-License-Identifier: MIT
// The beginning of the summary of a program that memory or a signal has ended.
#include "cli/show/profile_verdict.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace tarn::cli {
namespace {

constexpr double mib = 1 << 20;

profiler::profile holding(double bytes) {
  profiler::profile p;
  p.mode = profiler::profile_mode::full;
  p.meta = {{"program", "/bin/p"}, {"peak_resident_bytes", bytes}};
  p.stacks = {{}, {0, 0x1800}};
  p.symbols[0x1800] = {{"load", "/src/load.cpp", 7, false}};
  profiler::site one;
  one.stack = 1;
  p.sites.push_back(one);
  profiler::memory_row row{
      .time_ns = 1'500'000'000, .resident_bytes = bytes, .live = 0.75 * bytes, .kept = 0.25 * bytes};
  p.memory.rows = {row};
  p.memory.parts = {{row.time_ns, "live", "", 1, row.live, 0}};
  return p;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(memory_verdict, nothing_for_a_program_that_ended_by_itself_with_room_left) {
  profiler::profile p = holding(100 * mib);
  EXPECT_EQ(render_memory_verdict(p), "");
  p.meta["exit"] = {{"status", 1}};
  p.meta["memory_limit_bytes"] = 200 * mib;
  EXPECT_EQ(render_memory_verdict(p), "");
}

TEST(memory_verdict, what_would_help_is_to_hold_less_or_to_give_back_what_is_free) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.meta["memory_limit_bytes"] = 512 * mib;
  EXPECT_TRUE(has(render_verdict(p),
                  "what would help: to hold less in load  load.cpp:7, or a higher limit; another malloc can "
                  "save no more than the 100 MiB that malloc keeps"))
      << render_verdict(p);
  profiler::profile idle = holding(400 * mib);
  EXPECT_FALSE(has(render_verdict(idle), "kept by malloc: tarn run"));
  std::swap(idle.memory.rows[0].live, idle.memory.rows[0].kept);
  EXPECT_TRUE(has(render_verdict(idle),
                  "300 MiB of 400 MiB resident at 1.50 s were free, but kept by malloc: tarn run -- PROGRAM"))
      << render_verdict(idle);
  idle.meta["attached"] = true;
  EXPECT_TRUE(has(render_verdict(idle), "300 MiB lie in blocks from before tarn attached, or are free"))
      << render_verdict(idle);
}

TEST(memory_verdict, an_estimate_is_told_with_its_margin_and_no_limit_is_raised_that_is_not_there) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.meta["black_box"] = true;
  p.memory.rows[0].live_variance = 400 * mib * mib;
  EXPECT_TRUE(has(render_verdict(p), "  kept by malloc")) << render_verdict(p);
  EXPECT_TRUE(has(render_verdict(p), "100 ± 40 MiB")) << render_verdict(p);
  EXPECT_TRUE(has(render_verdict(p),
                  "to hold less in load  load.cpp:7; another malloc can save no more than the 100 ± 40 MiB"))
      << render_verdict(p);
  // What may be live is not called free.
  std::swap(p.memory.rows[0].live, p.memory.rows[0].kept);
  EXPECT_FALSE(has(render_verdict(p), "were free, but kept")) << "it may be pools'";
  p.meta["engine"] = {{"tarn_in_use_bytes", 100 * mib}};
  EXPECT_TRUE(
      has(render_verdict(p), "were free, but kept by malloc: whole pages of it go back after a second"))
      << render_verdict(p);
  p.memory.rows[0].live_variance = 100 * 100 * mib * mib;
  EXPECT_FALSE(has(render_verdict(p), "were free, but kept")) << render_verdict(p);
}

TEST(memory_verdict, live_blocks_that_were_not_sampled_have_no_place) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.meta["black_box"] = true;
  p.memory.parts = {{p.memory.rows[0].time_ns, "live", profiler::live_not_sampled, 0, 300 * mib, 0}};
  EXPECT_TRUE(has(render_verdict(p), "75 %    [live, but not sampled]")) << render_verdict(p);
  EXPECT_TRUE(has(render_verdict(p), "more samples tell")) << render_verdict(p);
}

TEST(memory_verdict, before_the_first_sample_nothing_is_claimed) {
  profiler::profile p = holding(100 * mib);
  p.meta["exit"] = {{"signal", SIGSEGV}};
  p.meta["black_box"] = true;
  p.meta["malloc_untold"] = true;
  p.memory.rows[0].mapped = p.memory.rows[0].live;
  EXPECT_TRUE(has(render_verdict(p), "not told apart before the first sample")) << render_verdict(p);
  p.memory.rows.clear();
  p.memory.parts.clear();
  EXPECT_TRUE(has(render_verdict(p), "what lived at the end is not known: no sample")) << render_verdict(p);
}

TEST(memory_verdict, a_killed_program_with_its_limit_and_who_held_the_memory) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.meta["memory_limit_bytes"] = 512 * mib;
  const std::string text = render_memory_verdict(p);
  EXPECT_TRUE(text.starts_with("killed by signal 9 (Killed); its resident memory reached at least 400 MiB"))
      << text;
  EXPECT_TRUE(has(text, "the limit of its control group is 512 MiB")) << text;
  EXPECT_TRUE(has(text, "what was resident at 1.5")) << text;
  EXPECT_TRUE(has(text, "300 MiB    75 %  live blocks\n")) << text;
  EXPECT_TRUE(has(text, "300 MiB    75 %    load  load.cpp:7\n")) << text;
  EXPECT_TRUE(has(text, "100 MiB    25 %  kept by malloc")) << text;
  EXPECT_TRUE(has(text, "400 MiB   100 %  sum of all mappings")) << text;
  EXPECT_EQ(render_verdict(p).find(text), 0U) << "the summary begins with it";
  EXPECT_FALSE(has(render_verdict(p), "Leave")) << "advice is about time";
}

TEST(memory_verdict, what_malloc_keeps_is_told_apart_where_the_recording_knows_it) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.memory.parts.push_back({p.memory.rows[0].time_ns, "kept", "", 1, 70 * mib, 0});
  p.memory.parts.push_back({p.memory.rows[0].time_ns, "kept", profiler::pinned_by_nobody, 0, 30 * mib, 0});
  const std::string text = render_memory_verdict(p);
  EXPECT_TRUE(has(text, "70 MiB    18 %  free, but pinned by live blocks near it")) << text;
  EXPECT_TRUE(has(text, "30 MiB   7.5 %  free: caches")) << text;
}

TEST(memory_verdict, parts_that_may_be_nothing_are_one_row) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  for (std::uint64_t place = 1; place <= 3; ++place) {
    p.stacks.push_back({0, 0x1800 + place});
    p.symbols[0x1800 + place] = {{"few" + std::to_string(place), "/src/load.cpp", 9, false}};
    profiler::site one;
    one.stack = static_cast<std::uint32_t>(place + 1);
    p.sites.push_back(one);
    p.memory.parts.push_back(
        {p.memory.rows[0].time_ns, "live", "", static_cast<std::uint32_t>(place + 1), mib, mib * mib});
  }
  const std::string text = render_memory_verdict(p);
  EXPECT_TRUE(has(text, "others (3)")) << text;
  EXPECT_FALSE(has(text, "few1")) << text;
}

TEST(memory_verdict, what_a_program_that_ended_by_itself_has_never_freed) {
  profiler::profile p = holding(100 * mib);
  profiler::site_figures& f = p.sites[0].figures;
  f.bytes_at_peak = 100 * mib;
  f.live = 30000;
  f.live_bytes = 30 * mib;
  EXPECT_FALSE(has(render_verdict(p), "freed")) << "it runs";
  p.meta["exit"] = {{"status", 0}};
  EXPECT_TRUE(has(render_verdict(p), "  30 MiB were never freed (where: tarn show --by leaks FILE)\n"))
      << render_verdict(p);
  f.live_bytes_variance = 30.0 * mib * mib;
  EXPECT_TRUE(has(render_verdict(p), "  30 ± 11 MiB were never freed (where")) << render_verdict(p);
  p.meta["leaks"] = {{"known", true}};
  EXPECT_FALSE(has(render_verdict(p), "freed")) << "something points to all of them";
  f.lost = 1;
  f.lost_bytes = 9 * mib;
  EXPECT_FALSE(has(render_verdict(p), "freed")) << "little";
  f.indirect = 299;
  f.indirect_bytes = 2 * mib;
  EXPECT_TRUE(has(render_verdict(p),
                  "  11 MiB in 300 blocks were lost: never freed, and nothing pointed to them (where: tarn"))
      << render_verdict(p);
  p.meta["exit"] = {{"signal", SIGTERM}};
  EXPECT_FALSE(has(render_verdict(p), "freed")) << "it was still at work";
}

// VmRSS is read before the mappings, between which a program grows.
TEST(memory_verdict, what_was_resident_is_the_sum_of_its_parts_and_no_more_than_the_peak) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.memory.rows[0].live += 10 * mib;
  const std::string text = render_memory_verdict(p);
  EXPECT_TRUE(has(text, "what was resident at 1.50 s, 410 MiB")) << text;
  EXPECT_TRUE(has(text, "410 MiB   100 %  sum of all mappings")) << text;
  EXPECT_TRUE(has(text, "its resident memory reached at least 410 MiB")) << text;
  p.meta["peak_resident_exact"] = true;
  EXPECT_TRUE(has(render_memory_verdict(p), "its resident memory reached 400 MiB"));
}

TEST(memory_verdict, a_program_near_its_limit_and_one_that_crashed) {
  profiler::profile p = holding(190 * mib);
  p.meta["memory_limit_bytes"] = 200 * mib;
  EXPECT_TRUE(has(render_memory_verdict(p), "load"));
  profiler::profile crashed = holding(190 * mib);
  crashed.meta["exit"] = {{"signal", SIGSEGV}};
  EXPECT_TRUE(has(render_memory_verdict(crashed), "signal 11"));
  EXPECT_FALSE(has(render_memory_verdict(crashed), "load"));
}

TEST(memory_verdict, what_grew_by_place) {
  profiler::profile p = holding(100 * mib);
  p.meta["growth_from_ns"] = 4e9;
  p.meta["attached"] = true;
  p.sites[0].figures.live_bytes = 60 * mib;
  p.sites[0].figures.earlier_live_bytes = 20 * mib;
  for (std::uint64_t second = 0; second <= 8; ++second) {
    p.counters.push_back(
        {.time_ns = second * 1'000'000'000, .live_bytes = 7.5 * mib * static_cast<double>(second)});
  }
  const std::string text = render_memory_verdict(p);
  EXPECT_TRUE(
      text.starts_with("its live blocks still grew at the end: from 30 MiB at 4 s to 56.3 MiB at 7.50 s"))
      << text;
  EXPECT_TRUE(has(text, "what grew since 4 s, by place")) << text;
  EXPECT_TRUE(has(text, "+40 MiB  load (load.cpp:7); 60 MiB live at the end")) << text;
  p.sites[0].figures.live_bytes_variance = 20 * mib * mib;
  EXPECT_TRUE(has(render_memory_verdict(p), "load (load.cpp:7); 60 ± 9 MiB live at the end"))
      << render_memory_verdict(p);
}

TEST(memory_verdict, what_is_not_mallocs_is_of_the_last_look_of_a_box) {
  profiler::profile p = holding(400 * mib);
  p.meta["exit"] = {{"signal", SIGKILL}};
  p.memory.rows.push_back(p.memory.rows[0]);
  p.memory.rows[1].time_ns += 150'000'000;
  EXPECT_FALSE(has(render_memory_verdict(p), "was read")) << render_memory_verdict(p);
  p.meta["black_box"] = true;
  EXPECT_TRUE(has(render_verdict(p), "  what is not malloc's was read 150 ms before\n")) << render_verdict(p);
}

}  // namespace
}  // namespace tarn::cli
