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
  live_place place;
  place.name = "parser::read_object(parser::state&, bool)  parse.cpp:120";
  place.type = "node";
  place.suggestion = "typed pool";
  place.total_ns = 12.3e6;
  place.hidden_ns = 4.5e6;
  place.faults = 1234;
  place.allocations = 98765;
  place.bytes = 3 << 20;
  place.live_bytes = 700 << 20;
  return place;
}

TEST(live_view, names_come_first_and_fit_beside_the_figures) {
  for (const std::size_t width : {60U, 80U, 100U, 132U, 250U}) {
    const auto lines = lines_of(render_places({some_place()}, 10, live_order::cost, width, false));
    ASSERT_EQ(lines.size(), 2U);
    for (const std::string& line : lines) EXPECT_LE(display_width(line), width) << line;
    EXPECT_TRUE(lines[0].starts_with("place")) << lines[0];
    EXPECT_TRUE(lines[1].starts_with("parser::read_object")) << lines[1];
  }
}

TEST(live_view, columns_are_left_out_by_rank_but_never_the_one_sorted_by) {
  const auto heading = [](live_order order, std::size_t width) {
    return lines_of(render_places({some_place()}, 10, order, width, false))[0];
  };
  const std::string usual = heading(live_order::cost, 80);
  EXPECT_NE(usual.find("cost*"), std::string::npos) << usual;
  EXPECT_NE(usual.find("live"), std::string::npos) << usual;
  EXPECT_EQ(usual.find("bytes/s"), std::string::npos) << usual;
  EXPECT_NE(heading(live_order::bytes, 80).find("bytes/s*"), std::string::npos);
  const std::string all = heading(live_order::cost, 200);
  for (const char* name : {"cost*", "hidden", "faults/s", "allocs/s", "bytes/s", "live", "suggested"}) {
    EXPECT_NE(all.find(name), std::string::npos) << name;
  }
}

TEST(live_view, since_a_mark_live_bytes_are_what_they_grew_by) {
  profiler::profile before;
  before.stacks = {{}, {0, 0x10}};
  before.symbols[0x10] = {{"load", "load.cpp", 3, false}};
  before.sites.emplace_back().stack = 1;
  before.sites[0].figures.live_bytes = 5000;
  profiler::profile after = before;
  after.sites[0].figures.live_bytes = 7000;
  const auto live = [&](live_figure what) {
    return places_between(before, after, live_order::live, what).at(0).live_bytes;
  };
  EXPECT_EQ(live(live_figure::total), 7000);
  EXPECT_EQ(live(live_figure::growth), 2000);
  after.sites[0].figures.live_bytes = 1000;
  EXPECT_EQ(live(live_figure::growth), -4000);
}

TEST(live_view, the_header_is_cut_at_whole_figures) {
  live_rates rates;
  rates.resident_bytes = 3e9;
  rates.live_bytes = 2e9;
  for (const std::string& line : lines_of(render_rates(rates, 40, false)))
    EXPECT_LE(display_width(line), 40U) << line;
  EXPECT_NE(render_rates(rates, 40, false).find("resident"), std::string::npos);
  EXPECT_NE(render_rates(rates, 200, false).find("untouched"), std::string::npos);
}

}  // namespace
}  // namespace tarn::cli
