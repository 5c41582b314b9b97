// SPDX-License-Identifier: MIT
// Table, sentences and JSON of `tarn cost` from a made-up outcome; the worker's cycles and the machine's prices.
#include "cli/cost/cost_report.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "cli/cost/memory_prices.hpp"

namespace tarn::cli {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

cost_figures figures(double allocate, double first, double second, double free) {
  return {.allocate_seconds = allocate,
          .first_write_seconds = first,
          .second_write_seconds = second,
          .free_seconds = free,
          .cycles = 5};
}

// Each of two writes of 10 MiB takes 1 ms. "system" takes 10 ms more, of which a timer around malloc and free sees 1
// ms. "keeper" keeps its memory after free.
cost_outcome some_outcome() {
  cost_outcome outcome;
  outcome.ways = {{recycled_name, buffer_source::recycled, {system_name, ""}},
                  {"system", buffer_source::heap, {system_name, ""}},
                  {"keeper", buffer_source::heap, {"keeper", "/lib/k<eep>er.so"}},
                  {"mmap-huge", buffer_source::huge, {system_name, ""}}};
  outcome.sizes = {10 * mib};
  outcome.rounds = 3;
  outcome.results.resize(4);
  for (std::size_t way = 0; way < 4; ++way) {
    outcome.results[way].way = way;
    outcome.results[way].size = 10 * mib;
  }
  for (const double noise : {0.0, 1e-4, -2e-4}) {
    outcome.results[0].rounds.push_back(figures(30e-9, 1e-3, 1e-3, 30e-9));
    outcome.results[1].rounds.push_back(figures(20e-6, 10e-3 + noise, 1e-3, 980e-6));
    outcome.results[2].rounds.push_back(figures(50e-9, 1e-3, 1e-3, 50e-9));
    outcome.results[2].rounds.back().kept_bytes = 10 * mib;
    outcome.results[3].rounds.push_back(figures(5e-6, 2e-3, 1e-3, 20e-6));
    outcome.results[3].rounds.back().faults = 5;
  }
  return outcome;
}

TEST(cost_report, true_total_is_what_a_recycled_buffer_saves) {
  const cost_outcome outcome = some_outcome();
  const std::vector<cost_row> rows = rows_of(outcome, 10 * mib);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_TRUE(rows[0].is_reference);
  EXPECT_FALSE(rows[0].seen_share);
  EXPECT_NEAR(rows[1].total_seconds, 10e-3, 1e-9);
  EXPECT_NEAR(rows[1].lowest_total, 9.8e-3, 1e-9);
  EXPECT_NEAR(rows[1].highest_total, 10.1e-3, 1e-9);
  ASSERT_TRUE(rows[1].seen_share);
  EXPECT_NEAR(*rows[1].seen_share, 0.1, 1e-6);
  EXPECT_FALSE(rows[2].seen_share);
}

TEST(cost_report, table) {
  const std::string table = render_cost_table(some_outcome(), false);
  for (const char* word : {"10 MiB", "recycled", "system", "keeper", "20 us", "980 us", "1 ms", "10 %",
                           "10 ms", "9.80 to 10.1 ms", "10 MiB", "medians of 3 rounds"}) {
    EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
  }
  EXPECT_EQ(table.find('\033'), std::string::npos);
  // All lines of one buffer size have the same width.
  std::size_t width = 0;
  std::size_t begin = 0;
  for (int line = 0; line < 6; ++line) {
    const std::size_t end = table.find('\n', begin);
    if (line == 0) width = end - begin;
    EXPECT_EQ(end - begin, width) << table;
    begin = end + 1;
  }
}

TEST(cost_report, a_narrow_terminal_gets_the_columns_that_say_most) {
  const std::string table = render_cost_table(some_outcome(), false, 60);
  std::istringstream lines(table.substr(0, table.find("medians of")));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 64U) << line;
  EXPECT_NE(table.find("total"), std::string::npos);
  EXPECT_EQ(table.find("2nd write"), std::string::npos);
  EXPECT_NE(table.find("(all columns: a wider terminal"), std::string::npos);
}

TEST(cost_report, failed_measurements_are_reported_and_left_out) {
  cost_outcome outcome = some_outcome();
  outcome.results[1].failure = "cannot get 10 MiB: Cannot allocate memory";
  outcome.results[1].rounds.clear();
  EXPECT_EQ(rows_of(outcome, 10 * mib).size(), 3U);
  const std::vector<std::string> remarks = cost_remarks(outcome);
  ASSERT_FALSE(remarks.empty());
  EXPECT_EQ(remarks[0], "system, 10 MiB: not measured: cannot get 10 MiB: Cannot allocate memory");
  EXPECT_EQ(as_json(outcome)["failures"].size(), 1U);
  EXPECT_EQ(as_json(outcome)["results"].size(), 3U);
  // Without the reference "recycled" no total can be computed.
  outcome.results[0].rounds.clear();
  outcome.results[0].failure = "killed";
  EXPECT_TRUE(rows_of(outcome, 10 * mib).empty());
}

TEST(cost_report, missing_huge_pages_are_reported) {
  cost_outcome outcome = some_outcome();
  if (huge_page_size() > 0) {
    EXPECT_TRUE(cost_remarks(outcome).empty());
  }
  for (cost_figures& round : outcome.results[3].rounds) round.faults = 2560;
  const std::vector<std::string> remarks = cost_remarks(outcome);
  ASSERT_EQ(remarks.size(), 1U);
  EXPECT_NE(remarks[0].find("the system used small pages"), std::string::npos);
}

TEST(cost_report, json_has_every_run) {
  const nlohmann::json object = as_json(some_outcome());
  const nlohmann::json& system = object["results"][1];
  EXPECT_EQ(system["way"], "system");
  EXPECT_EQ(system["size_bytes"], 10 * mib);
  EXPECT_EQ(system["metrics"]["first_write_seconds"]["runs"].size(), 3U);
  EXPECT_NEAR(system["true_total_seconds"].get<double>(), 10e-3, 1e-9);
  EXPECT_NEAR(system["timer_share"].get<double>(), 0.1, 1e-6);
  EXPECT_TRUE(object["results"][0]["timer_share"].is_null());
}

TEST(cost_worker, faults_are_those_of_the_buffer) {
  constexpr std::size_t size = 2 * mib + 4096;
  const cost_figures mapped = measure_cycles(buffer_source::mapped, size, 0);
  const cost_figures recycled = measure_cycles(buffer_source::recycled, size, 0);
  const cost_figures populated = measure_cycles(buffer_source::populated, size, 0);
  EXPECT_GE(mapped.cycles, 3);
  // At least one fault, as transparent huge pages may serve most of the buffer with one.
  EXPECT_GE(mapped.faults, 1);
  EXPECT_LT(recycled.faults, 1);
  EXPECT_GE(recycled.kept_bytes, 2 * mib);
  EXPECT_GT(populated.allocate_seconds, mapped.allocate_seconds);
  EXPECT_GT(mapped.first_write_seconds, 0);
}

TEST(memory_prices, are_those_of_a_machine) {
  const memory_prices prices = measure_prices(8 * mib);
  EXPECT_GT(prices.fault_seconds, 20e-9);
  EXPECT_LT(prices.fault_seconds, 1e-3);
  EXPECT_GT(prices.zeroing_per_mib, 1e-6);
  EXPECT_GT(prices.writing_per_mib, 1e-6);
  EXPECT_EQ(prices.first_bytes, 8 * mib);
  // A fault zeroes its page: all of them cost more than zeroing alone.
  const double pages = static_cast<double>(mib) / static_cast<double>(prices.page_bytes);
  EXPECT_GT(prices.fault_seconds * pages, prices.zeroing_per_mib);
  const memory_prices again = prices_from_json(as_json(prices));
  EXPECT_DOUBLE_EQ(again.fault_seconds, prices.fault_seconds);
  EXPECT_EQ(again.costly_bytes, prices.costly_bytes);
  EXPECT_NE(describe_prices(prices).find("per MiB"), std::string::npos);
}

TEST(memory_prices, costly_first_touches_are_reported_apart) {
  memory_prices prices{
      .page_bytes = 4096, .fault_seconds = 1e-6, .first_bytes = 256 * mib, .first_fault_seconds = 1.1e-6};
  EXPECT_NE(describe_first_touch(prices).find("ready"), std::string::npos);
  // A few costly pages are ignored: there the program may have been interrupted.
  prices.costly_bytes = 2 * mib;
  EXPECT_NE(describe_first_touch(prices).find("ready"), std::string::npos);
  prices.costly_bytes = 64 * mib;
  prices.costly_fault_seconds = 9e-6;
  const std::string text = describe_first_touch(prices);
  EXPECT_NE(text.find("9 us per page in 64 MiB of the 256 MiB touched first, 9 times the usual"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tarn::cli
