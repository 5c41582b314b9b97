// SPDX-License-Identifier: MIT
// Metrics, the call tree, and each export format, from synthetic and from awkward profiles.
#include "profiler/export/exports.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "profiler/export/call_tree.hpp"
#include "profiler/export/packer.hpp"
#include "tests/profiler/scratch_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

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

TEST(metrics, sums_are_those_of_the_model) {
  const profile p = synthetic_profile();
  const cost all = cost_of_all(p);
  const double nearly = 1e-6 * all.total();
  EXPECT_NEAR(sum_of(p, *find_metric("cost")), all.total(), nearly);
  EXPECT_NEAR(sum_of(p, *find_metric("malloc")), all.malloc_ns, nearly);
  EXPECT_NEAR(sum_of(p, *find_metric("hidden")), all.hidden(), nearly);
  EXPECT_EQ(sum_of(p, *find_metric("faults")), p.counters.back().faults);
  EXPECT_EQ(sum_of(p, *find_metric("allocations")), p.counters.back().allocations);
  EXPECT_EQ(find_metric("costs"), nullptr);
  EXPECT_EQ(find_metric(""), nullptr);
}

TEST(metrics, margins_are_those_of_the_sampling) {
  profile p;
  p.prices.fault = 100;
  p.fit.malloc = 0.5;
  p.sites.resize(2);
  for (site& each : p.sites) {
    each.figures.allocations_variance = 50;
    each.figures.faults_variance = 9;
    each.figures.malloc_variance = 1600;
  }
  const site_figures& one = p.sites[0].figures;
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("allocations"), one), 1.96 * std::sqrt(50));
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("malloc"), one), 1.96 * 20);
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("hidden"), one), 1.96 * 300);
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("cost"), one), 1.96 * std::sqrt(300 * 300 + 20 * 20));
  EXPECT_EQ(margin_of(p, *find_metric("bytes"), one), 0);
  EXPECT_EQ(margin_of(p, *find_metric("peak"), one), 0);
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("allocations")), 1.96 * 10);
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("cost")), margin_of(cost_of_all(p).variance()));
  // The kernel counts all faults, so their number does not depend on samples.
  p.other_faults = 1;
  EXPECT_EQ(margin_of_sum(p, *find_metric("faults")), 0);
  // If the clock gives three quarters of the sum, the error of the timed calls counts for one quarter.
  p.malloc_time.clock_part = 0.75;
  p.malloc_time.factor = 0.5;
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("malloc")), 1.96 * 0.5 * std::sqrt(3200.0 / 4));
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("malloc"), one), 1.96 * 20);
  // The faults of no site have the margin of those that the sites take.
  p.sites[0].figures.faults = 4;
  const metric_row others = metric_rows(p).back();
  EXPECT_EQ(others.faults, 1);
  EXPECT_DOUBLE_EQ(margin_of(p, *find_metric("faults"), others.figures()), 1.96 * std::sqrt(9 + 9))
      << "a site without a fault in the sample may have some, too";
  EXPECT_DOUBLE_EQ(margin_of_sum(p, *find_metric("cost")), margin_of(cost_of_all(p).variance()));
}

TEST(call_tree, a_node_is_its_own_and_its_children) {
  const profile p = synthetic_profile();
  for (const bool inverted : {false, true}) {
    const metric& what = *find_metric("cost");
    const call_tree tree = call_tree::of(p, what, inverted);
    EXPECT_NEAR(tree.root().value, sum_of(p, what), 1);
    std::vector<call_node> nodes = {tree.root()};
    for (std::size_t index = 0; index < nodes.size(); ++index) {
      const call_node node = nodes[index];
      double sum = node.own;
      std::set<std::string> functions;
      for (const call_node& child : tree.children(node)) {
        sum += child.value;
        EXPECT_TRUE(functions.insert(tree.frame_of(child).function).second) << "two children of one function";
        nodes.push_back(child);
      }
      EXPECT_NEAR(sum, node.value, 1);
    }
    EXPECT_GT(nodes.size(), 200U);
  }
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
    const std::string packed = export_pprof(p);
    std::string text(10 << 20, '\0');
    z_stream stream{};
    ASSERT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(packed.size());
    stream.next_out = reinterpret_cast<Bytef*>(text.data());
    stream.avail_out = static_cast<uInt>(text.size());
    EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
    text.resize(stream.total_out);
    inflateEnd(&stream);
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

TEST(packer, compresses_as_the_name_says) {
  const std::string text(3000000, 'x');
  for (const auto& [name, magic] : {std::pair{"a.gz", "\x1f\x8b"}, {"a.zst", "\x28\xb5"}, {"a", "xx"}}) {
    std::string packed;
    packer pack(name, [&packed](const std::string& piece) { packed += piece; });
    for (std::size_t part = 0; part < 3; ++part)
      pack.write(std::string_view(text).substr(1000000 * part, 1000000));
    pack.finish();
    EXPECT_EQ(packed.substr(0, 2), magic) << name;
    EXPECT_EQ(packed.size() == text.size(), std::string_view(name) == "a") << name;
  }
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
