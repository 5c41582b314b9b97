// SPDX-License-Identifier: MIT
// Each export format, from synthetic and from awkward profiles.
#include "profiler/export/exports.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/profiler/scratch_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"
#include "unpacked.hpp"

namespace tarn::profiler {
namespace {

// A profile with names that formats must escape, and with sites without call path or type.
profile awkward_profile() {
  profile p;
  p.meta = {{"program", "/opt/a \"b\"\\c"}, {"arguments", {"a\nb"}}};
  p.prices.fault = 1000;
  p.stacks = {{}, {0, 0x10}, {1, 0x20}};
  p.symbols[0x10] = {{"outer;one\nmore", "o.cpp", 1, false}};
  p.symbols[0x20] = {{"\xff\xfe", "\"quoted\\.cpp", 2, false}};
  p.sites.resize(3);
  p.sites[0].stack = 2;
  p.sites[0].figures.allocations = 3;
  p.sites[0].figures.bytes = 1000;
  p.sites[0].figures.faults = 2;
  p.sites[0].figures.malloc_ns = 0.4;
  p.sites[1].figures.allocations = 1;
  p.sites[1].figures.bytes = 1e300;
  p.sites[2].stack = 1;
  return p;
}

std::string heaptrack_text(const profile& p, const std::string& path, heaptrack_outcome* outcome = nullptr) {
  std::string text;
  const heaptrack_outcome got = export_heaptrack(p, path, [&text](std::string_view piece) { text += piece; });
  if (outcome != nullptr) *outcome = got;
  return text;
}

std::string collapsed(const profile& p) {
  std::string text;
  export_collapsed(p, *find_metric("cost"), [&text](std::string_view piece) { text += piece; });
  return text;
}

std::string json_of(const profile& p) {
  std::string text;
  export_json(p, [&text](std::string_view piece) { text += piece; });
  return text;
}

TEST(exports, collapsed_lines_have_a_path_and_a_number) {
  const std::string text = collapsed(awkward_profile());
  EXPECT_EQ(text, "outer,one more;\xff\xfe 2000\n");
  EXPECT_EQ(collapsed(profile()), "");
}

TEST(exports, json_is_valid_whatever_the_names_are) {
  const nlohmann::json whole = nlohmann::json::parse(json_of(awkward_profile()));
  EXPECT_EQ(whole["sites"].size(), 3U);
  EXPECT_EQ(whole["totals"]["faults"], 2);
  EXPECT_EQ(whole["sites"][0]["frames"][1]["function"], "outer;one\nmore");
  EXPECT_EQ(whole["sites"][0]["margins"]["bytes"], 0);
  EXPECT_EQ(whole["margins"]["cost"], 0);
  EXPECT_FALSE(nlohmann::json::parse(json_of(profile()), nullptr, false).is_discarded());
}

TEST(exports, json_has_what_resident_memory_consisted_of) {
  const profile p = synthetic_profile();
  const nlohmann::json memory = nlohmann::json::parse(json_of(p))["memory"];
  ASSERT_EQ(memory["over_time"].size(), p.memory.rows.size());
  double sum = 0;
  for (const memory_column& each : memory_columns) {
    if (each.member == &memory_row::live_variance) continue;
    const auto bytes = memory["over_time"][3][each.name].get<double>();
    EXPECT_EQ(bytes, p.memory.rows[3].*each.member);
    sum += each.member == &memory_row::resident_bytes ? -bytes : bytes;
  }
  EXPECT_EQ(sum, 0);
  EXPECT_EQ(memory["parts"][0]["site"], 0);
  EXPECT_TRUE(memory["parts"][20]["site"].is_null());
  EXPECT_EQ(memory["parts"][20]["kind"], "files");
}

TEST(exports, prometheus_escapes_names_and_sums_up_other_sites) {
  const std::string text = export_prometheus(awkward_profile(), 1);
  EXPECT_NE(text.find("program=\"/opt/a \\\"b\\\"\\\\c\""), std::string::npos);
  EXPECT_NE(text.find("file=\"\\\"quoted\\\\.cpp\""), std::string::npos);
  EXPECT_NE(text.find("function=\"(all others)\""), std::string::npos);
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("# ") || line.starts_with("tarn_profile_")) << line;
  }
}

TEST(exports, pprof_is_gzip_of_a_message) {
  for (const profile& p : {awkward_profile(), profile(), synthetic_profile()}) {
    const std::string text = unpacked(export_pprof(p));
    EXPECT_NE(text.find("nanoseconds"), std::string::npos);
  }
}

TEST(exports, heaptrack_keeps_the_order_of_events) {
  scratch_file file;
  write_synthetic_profile(file.path(), {}, 2000);
  heaptrack_outcome outcome;
  const std::string text = heaptrack_text(load_profile(file.path()), file.path(), &outcome);
  EXPECT_TRUE(outcome.from_events);
  EXPECT_EQ(outcome.each_stands_for, 1);
  std::size_t allocations = 0, frees = 0, infos = 0;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("a ")) ++infos;
    if (line.starts_with("+ ")) {
      ++allocations;
      EXPECT_LT(std::stoull(line.substr(2), nullptr, 16), infos);
    }
    if (line.starts_with("- ")) ++frees;
  }
  EXPECT_EQ(allocations + frees, 2000U);
  EXPECT_GT(allocations, frees);
}

// Replays the lines to get the allocated bytes in total, at the peak and at the end.
TEST(exports, heaptrack_without_events_agrees_with_the_sums) {
  synthetic_options options;
  options.mode = profile_mode::sample;
  const profile p = synthetic_profile(options);
  heaptrack_outcome outcome;
  const std::string text = heaptrack_text(p, "", &outcome);
  EXPECT_FALSE(outcome.from_events);
  EXPECT_GT(outcome.each_stands_for, 1);
  std::vector<double> sizes;
  double all = 0, now = 0, highest = 0;
  std::size_t count = 0;
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("a "))
      sizes.push_back(static_cast<double>(std::stoull(line.substr(2), nullptr, 16)));
    if (!line.starts_with("+ ") && !line.starts_with("- ")) continue;
    const double size = sizes.at(std::stoull(line.substr(2), nullptr, 16));
    now += line[0] == '+' ? size : -size;
    all += line[0] == '+' ? size : 0;
    count += line[0] == '+' ? 1 : 0;
    highest = std::max(highest, now);
    ASSERT_GE(now, 0);
  }
  EXPECT_LT(count, 4000000U);
  EXPECT_NEAR(all / sum_of(p, *find_metric("bytes")), 1, 0.01);
  EXPECT_NEAR(highest / sum_of(p, *find_metric("peak")), 1, 0.03);
  EXPECT_NEAR(now / sum_of(p, *find_metric("live_bytes")), 1, 0.03);
}

TEST(exports, heaptrack_of_awkward_and_of_empty_profiles) {
  EXPECT_NE(heaptrack_text(awkward_profile(), "").find("X a b\n"), std::string::npos);
  EXPECT_TRUE(heaptrack_text(profile(), "").starts_with("v 10400 3\n"));
}

// Figures of a hostile file: 10^15 allocations and bytes, but a peak of a thousandth of a byte.
TEST(exports, heaptrack_of_contradictory_figures_is_bounded) {
  profile p;
  p.stacks.emplace_back();
  p.sites.resize(50);
  for (site& one : p.sites) {
    one.figures.allocations = 1e15;
    one.figures.bytes = 1e15;
    one.figures.bytes_at_peak = 1e-3;
  }
  struct too_much {};
  std::size_t bytes = 0;
  EXPECT_NO_THROW(export_heaptrack(p, "", [&bytes](std::string_view piece) {
    bytes += piece.size();
    if (bytes > std::size_t{256} << 20) throw too_much();
  }));
}

}  // namespace
}  // namespace tarn::profiler
