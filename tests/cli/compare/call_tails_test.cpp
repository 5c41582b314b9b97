// SPDX-License-Identifier: MIT
// Durations of calls: the buckets, what is concluded from them, and the table of `tarn compare --tail`.
#include "cli/compare/call_tails.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "cli/compare/comparison.hpp"
#include "cli/compare/tail_report.hpp"

namespace tarn::cli {
namespace {

namespace tail = profiler::tail;

void count(tail::counted_calls& to, std::uint64_t ticks, std::uint64_t times = 1) {
  to.buckets[tail::bucket_of(ticks)] += times;
  to.worst = std::max<std::uint64_t>(to.worst, ticks);
}

call_durations of(std::initializer_list<std::pair<std::uint64_t, std::uint64_t>> ticks_and_times) {
  const auto counted = std::make_unique<tail::counted_calls>();
  for (const auto& [ticks, times] : ticks_and_times) count(*counted, ticks, times);
  call_durations durations;
  durations.add(*counted);
  return durations;
}

TEST(call_tails, buckets_follow_each_other_and_are_3_percent_wide) {
  std::size_t before = 0;
  for (std::uint64_t ticks = 0; ticks < 1U << 16; ++ticks) {
    const std::size_t bucket = tail::bucket_of(ticks);
    ASSERT_TRUE(bucket == before || bucket == before + 1) << ticks;
    ASSERT_NEAR(tail::middle_of(bucket), static_cast<double>(ticks), static_cast<double>(ticks) / 64)
        << ticks;
    before = bucket;
  }
  EXPECT_EQ(tail::bucket_of((std::uint64_t{1} << tail::duration_bits) - 1), tail::bucket_count - 1);
  EXPECT_EQ(tail::bucket_of(~std::uint64_t{0}), tail::bucket_count - 1);
}

TEST(call_tails, sizes_have_groups) {
  for (const auto& [size, group] : {std::pair<std::size_t, int>{0, 0},
                                    {1024, 0},
                                    {1025, 1},
                                    {32768, 1},
                                    {32769, 2},
                                    {1 << 20, 2},
                                    {(1 << 20) + 1, 3},
                                    {~std::size_t{0}, 3}})
    EXPECT_EQ(tail::group_of(size), group) << size;
}

TEST(call_tails, quantiles_of_many_calls) {
  const call_durations calls = of({{20, 990'000}, {1000, 9'850}, {100'000, 149}, {5'000'000, 1}});
  EXPECT_EQ(calls.calls(), 1'000'000U);
  EXPECT_EQ(calls.worst(), 5'000'000U);
  EXPECT_EQ(calls.quantile(0.5), 20);
  EXPECT_EQ(calls.quantile(0.99), 20);
  EXPECT_NEAR(*calls.quantile(0.9999), 100'000, 1'600);
  EXPECT_NEAR(*calls.quantile(0.995), 1000, 16);
}

TEST(call_tails, a_quantile_needs_ten_calls_beyond_it) {
  EXPECT_EQ(call_durations().quantile(0.5), std::nullopt);
  EXPECT_EQ(of({{7, 19}}).quantile(0.5), std::nullopt);
  EXPECT_EQ(of({{7, 20}}).quantile(0.5), 7);
  EXPECT_EQ(of({{7, 999}}).quantile(0.99), std::nullopt);
  EXPECT_EQ(of({{7, 1000}}).quantile(0.99), 7);
  EXPECT_EQ(of({{7, 99'999}}).quantile(0.9999), std::nullopt);
  EXPECT_EQ(of({{7, 100'000}}).quantile(0.9999), 7);
}

TEST(call_tails, no_quantile_exceeds_the_worst) {
  EXPECT_EQ(of({{1024, 100}}).quantile(0.5), 1024);  // the middle of its bucket is 1039.5
}

TEST(call_tails, sums) {
  call_durations all = of({{10, 60}});
  all.add(of({{2000, 40}}));
  all.add(call_durations());
  EXPECT_EQ(all.calls(), 100U);
  EXPECT_EQ(all.worst(), 2000U);
  EXPECT_EQ(all.quantile(0.6), 10);
  EXPECT_NEAR(*all.quantile(0.61), 2000, 32);
}

TEST(call_tails, the_file_holds_what_processes_count_in_it) {
  const tail_file file({"/lib/libtarn_tail.so", profiler::tick_source::system_clock});
  environment variables;
  variables.set("LD_PRELOAD", "/lib/other.so");
  file.join(variables);
  EXPECT_EQ(variables.get("LD_PRELOAD"), "/lib/libtarn_tail.so:/lib/other.so");
  const int descriptor = open(variables.get(tail::page_variable)->c_str(), O_RDWR);
  ASSERT_GE(descriptor, 0);
  EXPECT_NE(ftruncate(descriptor, 0), 0) << "a program could shorten the file";
  auto* const page = static_cast<tail::tail_page*>(
      mmap(nullptr, sizeof(tail::tail_page), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0));
  close(descriptor);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(page->header.magic, tail::page_magic);
  EXPECT_EQ(page->header.source, profiler::tick_source::system_clock);
  page->header.threads = tail::slot_count + 1;  // two threads share the first slot
  count(page->slots[0].calls[tail::place_of(call_kind::get, 1, call_state::whole)], 30, 2);
  count(page->slots[tail::slot_count - 1].calls[tail::place_of(call_kind::get, 1, call_state::whole)], 40);
  const call_tails found = file.read();
  EXPECT_EQ(found.threads, tail::slot_count + 1);
  EXPECT_EQ(found.of(call_kind::get, 1, call_state::whole).calls(), 3U);
  EXPECT_EQ(found.of(call_kind::get, 1, call_state::whole).worst(), 40U);
  EXPECT_EQ(found.of(call_kind::give, 1, call_state::whole).calls(), 0U);
  munmap(page, sizeof(tail::tail_page));
}

contender_result result_of(const std::string& name, std::uint64_t ticks) {
  contender_result made{{name, name == system_name ? "" : "/lib" + name + ".so"}, {}, {}, {}};
  for (int round = 0; round < 2; ++round) {
    call_tails& tails = made.tails.emplace_back();
    made.rounds.emplace_back();
    tails.threads = 1;
    tails.timer_ticks = 5;
    tails.calls[tail::place_of(call_kind::get, 0, call_state::whole)] =
        of({{ticks, 100'000}, {1'000'000, 1}});
    tails.calls[tail::place_of(call_kind::get, 0, call_state::faulted)] = of({{2000, 50}});
    tails.calls[tail::place_of(call_kind::get, 0, call_state::interrupted)] = of({{9'000'000, 3}});
  }
  return made;
}

TEST(tail_report, a_row_for_each_contender_and_for_its_page_faults) {
  comparison_outcome outcome;
  outcome.results = {result_of("system", 40), result_of("tarn", 3)};
  const std::string text = render_tails(outcome, {.ns = 2, .step_ns = 20}, false);
  for (const char* phrase :
       {"malloc, up to 1 KiB\n", "  system              200k   80 ns   80 ns   80 ns   2 ms            6\n",
        "  tarn                200k  <20 ns  <20 ns  <20 ns   2 ms            6\n",
        "    page faults        100    4 us       -       -   4 us\n", "calls of 2 rounds together",
        "or to 20 ns, a step", "from each call: 10 ns", "by events of the kernel (perf_event_open)\n"})
    EXPECT_NE(text.find(phrase), std::string::npos) << phrase << text;
  EXPECT_EQ(text.find("free"), std::string::npos);
}

TEST(tail_report, says_how_page_faults_became_known) {
  comparison_outcome outcome;
  outcome.results = {result_of("system", 40)};
  outcome.results[0].tails[0].by_usage = 1;
  outcome.results[0].tails[0].refusal = EACCES;
  EXPECT_NE(render_tails(outcome, {}, false).find("in 1 of 2 threads by getrusage around each call"),
            std::string::npos);
  outcome.results[0].tails[1].by_usage = 1;
  EXPECT_NE(
      render_tails(outcome, {}, false)
          .find(
              "interruptions: by getrusage around each call, as perf_event_open failed (Permission denied)\n"),
      std::string::npos);
}

TEST(tail_report, json_has_all_rounds) {
  comparison_outcome outcome;
  outcome.results = {result_of("system", 40)};
  const nlohmann::json object = tails_as_json(outcome, {.ns = 0.5, .step_ns = 1});
  EXPECT_FALSE(object.contains("verdicts"));
  const nlohmann::json& rows = object["contenders"][0]["tails"]["rows"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["function"], "malloc");
  EXPECT_EQ(rows[0]["size"], "up to 1 KiB");
  EXPECT_EQ(rows[0]["calls"], 200'002);
  EXPECT_EQ(rows[0]["interrupted"], 6);
  EXPECT_EQ(rows[0]["worst_ns"], 500'000);
  EXPECT_EQ(rows[0]["rounds"].size(), 2U);
  EXPECT_EQ(rows[1]["page_faults"], true);
  EXPECT_TRUE(rows[1]["p99_99_ns"].is_null());
}

}  // namespace
}  // namespace tarn::cli
