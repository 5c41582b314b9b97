// SPDX-License-Identifier: MIT
// The report's HTML: valid data, no markup from the program's names, a bounded size.
#include "profiler/report/report_file.hpp"

#include <gtest/gtest.h>

#include "profiler/report/report_data.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

std::size_t count_of(std::string_view text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + word.size()))
    ++count;
  return count;
}

// The JSON of the page's data element.
nlohmann::json data_in(const std::string& html) {
  const std::string_view open = "id=\"data\">";
  const std::size_t from = html.find(open) + open.size();
  return nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
}

TEST(report_file, the_page_has_its_placeholders_and_forbids_the_network) {
  const std::string_view page = report_page();
  EXPECT_TRUE(begins_like_report(page));
  EXPECT_EQ(count_of(page, "@TITLE@"), 1U);
  EXPECT_EQ(count_of(page, "@DATA@"), 1U);
  EXPECT_LT(page.find("@TITLE@"), page.find("@DATA@"));
  EXPECT_NE(page.find("default-src 'none'"), std::string_view::npos);
  EXPECT_EQ(page.find("unsafe-inline"), std::string_view::npos);
}

TEST(report_file, holds_the_data) {
  const profile p = synthetic_profile();
  const report_file made = render_report(p, {});
  EXPECT_EQ(made.all_sites, p.sites.size());
  EXPECT_EQ(data_in(made.html)["totals"], report_data(p, {})["totals"]);
}

TEST(report_file, nothing_from_the_program_ends_an_element) {
  profile p = synthetic_profile({.sites = 20});
  const std::string evil = "</script><img src=x onerror=alert(1)><!--<script>";
  const std::size_t usual = count_of(render_report(p, {}).html, "<");
  for (auto& [address, frames] : p.symbols) frames.front().function = evil;
  p.sites[0].type = evil;
  p.modules[0].path = "/" + evil;
  p.threads[0].name = evil;
  p.meta["program"] = "/bin/" + evil;
  p.meta["arguments"] = {evil};
  p.damage = evil;
  const report_file made = render_report(p, {});
  EXPECT_EQ(count_of(made.html, "<"), usual);
  EXPECT_EQ(data_in(made.html)["sites"]["kind"].size(), 21U);
}

TEST(report_file, names_need_not_be_utf8) {
  profile p = synthetic_profile({.sites = 5});
  p.meta["program"] = "/bin/\xff\xfe";
  p.sites[0].type = "\xc3";
  EXPECT_FALSE(data_in(render_report(p, {}).html).is_null());
}

TEST(report_file, stays_below_its_bound_and_keeps_its_totals) {
  const profile p = synthetic_profile({.sites = 20000});
  const report_file large = render_report(p, {});
  EXPECT_LT(large.html.size(), std::size_t{20} << 20);
  const report_file small = render_report(p, {}, {.most_bytes = 200'000});
  EXPECT_LT(small.named_sites, large.named_sites);
  EXPECT_EQ(data_in(small.html)["totals"], data_in(large.html)["totals"]);
}

}  // namespace
}  // namespace tarn::profiler
