// SPDX-License-Identifier: MIT
// The rows and the header of `tarn top` at several terminal widths.
#include "cli/show/live_view.hpp"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/show/text.hpp"

namespace tarn::cli {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

live_place some_place() {
  return {.frame = {"parser::read_object(parser::state&, bool)", "src/parse.cpp", 120},
          .type = "node",
          .suggestion = "typed pool",
          .cost_share = 0.123,
          .hidden_share = 0.045,
          .faults = 1234,
          .allocations = 98765,
          .bytes = 3 << 20,
          .live_bytes = 700 << 20,
          .growth = 12 << 20};
}

std::vector<std::string> lines_for(const std::vector<live_place>& places, std::size_t width,
                                   live_order order = live_order::cost, std::size_t most = 10) {
  return lines_of(render_places(places, most, order, width, false));
}

TEST(live_view, names_come_first_and_fit_beside_the_figures) {
  for (const std::size_t width : {60U, 80U, 100U, 132U, 250U}) {
    const auto lines = lines_for({some_place()}, width);
    ASSERT_EQ(lines.size(), 2U);
    for (const std::string& line : lines) EXPECT_LE(display_width(line), width) << line;
    EXPECT_TRUE(lines[0].starts_with("where")) << lines[0];
    EXPECT_TRUE(lines[1].starts_with("parser::")) << lines[1];
    EXPECT_NE(lines[1].find("parse.cpp:120"), std::string::npos) << lines[1];
  }
}

TEST(live_view, figures_are_percent_of_a_processor_and_mib) {
  const std::string line = lines_for({some_place()}, 200)[1];
  for (const char* figure :
       {" 12.3 ", " 4.5 ", " 1,234 ", " 98,765 ", " 3.0 ", " 700.0 ", " +12.0", "typed pool"})
    EXPECT_NE(line.find(figure), std::string::npos) << figure << line;
}

TEST(live_view, columns_are_left_out_by_rank_but_never_the_one_sorted_by) {
  const std::string usual = lines_for({some_place()}, 80)[0];
  for (const char* name : {"*cost %", "allocs/s", "live MiB", "MiB/min"})
    EXPECT_NE(usual.find(name), std::string::npos) << usual;
  EXPECT_EQ(usual.find("MiB/s"), std::string::npos) << usual;
  EXPECT_NE(lines_for({some_place()}, 80, live_order::bytes)[0].find("*MiB/s"), std::string::npos);
  const std::string all = lines_for({some_place()}, 200)[0];
  for (const char* name :
       {"*cost %", "hidden %", "faults/s", "allocs/s", "MiB/s", "live MiB", "MiB/min", "suggested"})
    EXPECT_NE(all.find(name), std::string::npos) << name;
}

TEST(live_view, places_without_figures_are_counted_only) {
  std::vector<live_place> places(5, some_place());
  places.emplace_back().frame = {"idle", "", 0};
  const auto lines = lines_for(places, 80);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[6], "and 1 more");
  const auto cut = lines_for(places, 80, live_order::cost, 3);
  ASSERT_EQ(cut.size(), 4U);
  EXPECT_EQ(cut[3], "and 4 more");
  EXPECT_EQ(lines_for({5, some_place()}, 80, live_order::cost, 5).size(), 6U);
}

profiler::profile profile_at(double seconds, double live) {
  profiler::profile p{.meta = {{"duration_ns", seconds * 1e9}}, .stacks = {{}, {0, 0x10}}};
  p.symbols[0x10] = {{"load", "load.cpp", 3, false}};
  p.sites.emplace_back().stack = 1;
  p.sites[0].figures.live_bytes = live;
  return p;
}

TEST(live_view, growth_is_per_minute) {
  live_growth growth;
  const profiler::profile before = profile_at(1, 5000);
  const profiler::profile after = profile_at(11, 7000);
  growth.add(before);
  growth.add(after);
  const live_place place = places_between(before, after, live_order::growth, growth).at(0);
  EXPECT_EQ(place.live_bytes, 7000);
  EXPECT_NEAR(place.growth.value(), 12000, 1e-6);
  EXPECT_NEAR(rates_between(before, after, growth).live_growth.value(), 12000, 1e-6);
}

// One place holds much, one is a little busier than nothing, and one is busy.
TEST(live_view, idle_places_are_in_the_order_of_their_live_memory) {
  profiler::profile before{.meta = {{"duration_ns", 1e9}}, .stacks = {{}, {0, 0x10}, {0, 0x20}, {0, 0x30}}};
  before.sites.resize(3);
  for (std::uint32_t index = 0; index < 3; ++index) {
    before.symbols[0x10U * (index + 1)] = {{std::string(1, "abc"[index]), "x.cpp", 1, false}};
    before.sites[index].stack = index + 1;
    before.sites[index].figures.live_bytes = 1e6 * (index + 1);
  }
  profiler::profile after = before;
  after.meta["duration_ns"] = 11e9;
  after.sites[0].figures.malloc_ns = 1000;
  const auto order = [&] {
    std::string names;
    for (const live_place& one : places_between(before, after, live_order::cost, {}))
      names += one.frame.function;
    return names;
  };
  EXPECT_EQ(order(), "cba");
  after.sites[1].figures.malloc_ns = 1e9;
  EXPECT_EQ(order(), "bca");
}

TEST(live_view, the_header_is_cut_at_whole_figures) {
  live_rates rates{.resident_bytes = 3e9, .live_bytes = 2e9};
  for (const std::string& line : lines_of(render_rates(rates, 40, false)))
    EXPECT_LE(display_width(line), 40U) << line;
  EXPECT_NE(render_rates(rates, 40, false).find("resident 2,861 MiB"), std::string::npos);
  EXPECT_NE(render_rates(rates, 200, false).find("untouched"), std::string::npos);
}

TEST(live_view, rows_name_the_most_expensive_site_where_it_has_room) {
  const auto row = [](std::size_t width) { return live_row(3, {}, {some_place()}, width); };
  EXPECT_NE(row(0).find("parse.cpp:120"), std::string::npos);
  EXPECT_LE(display_width(row(80)), 80U);
  EXPECT_LE(display_width(row(120)), 120U);
  EXPECT_NE(row(120).find(":120"), std::string::npos);
  EXPECT_TRUE(live_row_heading(0).ends_with("most expensive site"));
}

}  // namespace
}  // namespace tarn::cli
