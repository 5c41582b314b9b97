// SPDX-License-Identifier: MIT
// The places in the verdict of `tarn profile`: functions of one name stay apart, paths to one place are summed.
#include "cli/show/profile_verdict.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace tarn::cli {
namespace {

using profiler::profile;

// Two functions of one name in two modules; each allocates as much as the other.
profile two_places(const profiler::source_frame& first, const profiler::source_frame& second) {
  profile p;
  p.meta = {{"program", "/bin/p"}, {"duration_ns", 1e9}};
  p.mode = profiler::profile_mode::full;
  p.modules = {{"/opt/a/plugin.so", "", 0x1000, 0x2000, 0}, {"/opt/b/plugin.so", "", 0x2000, 0x3000, 0}};
  p.stacks = {{}, {0, 0x1800}, {0, 0x2800}};
  p.symbols[0x1800] = {first};
  p.symbols[0x2800] = {second};
  for (std::uint32_t stack = 1; stack <= 2; ++stack) {
    profiler::site one;
    one.stack = stack;
    one.figures.samples = one.figures.allocations = 1000;
    one.figures.bytes = 64000;
    one.figures.malloc_ns = 1e6;
    p.sites.push_back(one);
  }
  return p;
}

std::multiset<std::string> places_of(const profile& p) {
  const nlohmann::json places = verdict_as_json(p)["places"];
  std::multiset<std::string> names;
  for (const nlohmann::json& one : places) names.insert(one["where"].get<std::string>());
  return names;
}

TEST(profile_verdict, files_of_one_base_name_are_two_places) {
  const profile p =
      two_places({"make", "/src/a/list.cpp", 10, false}, {"make", "/src/b/list.cpp", 10, false});
  EXPECT_EQ(places_of(p),
            (std::multiset<std::string>{"make (/src/a/list.cpp:10)", "make (/src/b/list.cpp:10)"}));
}

TEST(profile_verdict, functions_of_one_name_in_two_modules_are_two_places) {
  const profile p = two_places({"make", {}, 0, false}, {"make", {}, 0, false});
  EXPECT_EQ(places_of(p), (std::multiset<std::string>{"make (/opt/a/plugin.so)", "make (/opt/b/plugin.so)"}));
}

TEST(profile_verdict, paths_to_one_place_are_added_up) {
  const profile p =
      two_places({"make", "/src/a/list.cpp", 10, false}, {"make", "/src/a/list.cpp", 10, false});
  EXPECT_EQ(places_of(p), std::multiset<std::string>{"make (list.cpp:10)"});
}

TEST(profile_verdict, the_terminal_shows_the_summary_that_the_report_has) {
  const profile p = two_places({"make", {}, 0, false}, {"load", {}, 0, false});
  const summary said = summarise(p, profiler::advise(p));
  EXPECT_NE(said.problem.find("\tmake\n"), std::string::npos) << said.problem;
  std::string text;
  for (const char letter : said.problem + said.help + said.next)
    text += letter == '\t' ? "  " : std::string(1, letter);
  EXPECT_EQ(render_verdict(p), text);
}

TEST(profile_verdict, places_whose_cost_may_be_nothing_are_one_row) {
  profile p = two_places({"make", {}, 0, false}, {"load", {}, 0, false});
  p.sites[1].figures.malloc_variance = 1e12;
  const std::string text = render_verdict(p);
  EXPECT_NE(text.find("make"), std::string::npos) << text;
  EXPECT_EQ(text.find("  load"), std::string::npos) << text;
  EXPECT_NE(text.find("others (1 place)"), std::string::npos) << text;
  EXPECT_EQ(places_of(p), std::multiset<std::string>{"make"});
}

TEST(profile_verdict, the_cost_is_a_share_of_the_processor_time_without_the_recorders) {
  profile p = two_places({"make", {}, 0, false}, {"load", {}, 0, false});
  p.counters.emplace_back().user_ns = 50e6;
  p.recorder_ns = 10e6;
  EXPECT_NE(render_verdict(p).find("memory cost 5.0 % of 40 ms processor time: 2 ms, of it "),
            std::string::npos)
      << render_verdict(p);
  EXPECT_NE(render_verdict(p).find("2.5 %          1 ms"), std::string::npos) << render_verdict(p);
}

TEST(profile_verdict, names_the_next_command_that_prove_would_not_refuse) {
  profile p = two_places({"make", {}, 0, false}, {"load", {}, 0, false});
  p.meta["allocator"] = "glibc 2.36";
  p.counters.emplace_back().user_ns = 4e6;
  const auto next = [&p](const nlohmann::json& end) {
    p.meta["exit"] = end;
    const std::string text = render_verdict(p);
    const std::size_t at = text.find("  next: ");
    return at == std::string::npos ? "" : text.substr(at + 8, text.find(" measures", at) - at - 8);
  };
  EXPECT_EQ(next({{"status", 0}}), "tarn prove FILE");
  EXPECT_EQ(next({{"status", 3}}), "");
  EXPECT_EQ(next({{"signal", 15}}), "tarn prove --load COMMAND FILE");
  EXPECT_EQ(next(nullptr), "");  // of an attached program, or of a child
  p.meta["load"] = true;
  EXPECT_EQ(next({{"status", 0}}), "tarn prove --load COMMAND FILE");
}

}  // namespace
}  // namespace tarn::cli
