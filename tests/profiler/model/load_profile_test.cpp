// SPDX-License-Identifier: MIT
// Tables that do not fit together, of a faulty writer: what stays, and what is said about the rest.
#include <gtest/gtest.h>

#include "../../refusal.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/scratch_file.hpp"
#include "tests/profiler/synthetic_profile.hpp"

namespace tarn::profiler {
namespace {

table rows_of(const char* name, std::size_t rows, std::vector<column> columns, bool replaces = true) {
  return {name, rows, std::move(columns), replaces};
}

table sites_at(const integers& stacks, integers evidence) {
  return rows_of("sites", stacks.size(),
                 {{"stack", stacks}, {"type", texts(stacks.size())}, {"evidence", std::move(evidence)}});
}

profile load_tables(const std::vector<table>& tables, profile_detail detail = profile_detail::all) {
  const scratch_file file;
  {
    table_writer out(file.path());
    for (const table& each : tables) out.append(each);
    out.append_json("meta", "{}");
  }
  return load_profile(file.path(), detail);
}

std::string loading_refusal(const scratch_file& file) {
  return testing_support::refusal_of<profile_error>([&] { load_profile(file.path()); });
}

TEST(load_profile, a_file_without_meta_says_how_far_it_is_whole) {
  scratch_file file;
  { table_writer out(file.path()); }
  const std::string nothing = "the profile " + file.path() + " holds nothing that can be shown";
  const std::string why =
      ": the profiler was stopped too early, or the file is damaged; record the program again: tarn profile -- PROGRAM";
  EXPECT_EQ(loading_refusal(file), nothing + why);
  auto bytes = file.contents();
  bytes.push_back('T');
  file.set(bytes);
  EXPECT_EQ(loading_refusal(file), nothing + " (the file ends too early)" + why);
}

TEST(load_profile, the_end_of_a_file_that_a_killed_writer_left_is_no_damage) {
  for (const bool unfinished : {true, false}) {
    scratch_file file;
    {
      table_writer out(file.path());
      out.append_json("meta", unfinished ? R"({"unfinished":true})" : "{}");
      out.append_json("meta", "{}");
    }
    auto bytes = file.contents();
    bytes.resize(bytes.size() - 3);
    file.set(bytes);
    EXPECT_EQ(load_profile(file.path()).damage.empty(), unfinished);
    bytes.back() ^= 1;
    bytes.insert(bytes.end(), 3, 0);  // all its bytes are there, and wrong
    file.set(bytes);
    EXPECT_FALSE(load_profile(file.path()).damage.empty());
  }
}

TEST(load_profile, meta_that_is_no_object_is_none) {
  const scratch_file file;
  table_writer(file.path()).append_json("meta", "[]");
  EXPECT_NE(loading_refusal(file), "no error");
}

TEST(load_profile, what_is_left_out_is_counted) {
  const profile p = load_tables(
      {rows_of("stacks", 2, {{"parent", integers{0, 9}}, {"address", integers{1, 2}}}, false),
       sites_at({0, 1, 3}, {0, 3, 0}),
       rows_of("site_sizes", 3,
               {{"site", integers{1, 2, 3}}, {"size", integers{8, 8, 8}}, {"exact", integers{1, 1, 1}}}),
       rows_of("site_lifetimes", 2,
               {{"site", integers{0, 0}}, {"lifetime", integers{63, 64}}, {"size", integers{63, 63}}})});
  ASSERT_EQ(p.sites.size(), 2U);
  EXPECT_EQ(p.sites[1].sizes.size(), 1U);
  EXPECT_EQ(p.sites[0].lifetimes.size(), 1U);
  EXPECT_EQ(
      p.damage,
      "1 sites refer to call paths or processes that are not there; 1 call paths refer to callers that are not "
      "there; 2 rows refer to sites or threads that are not there");
}

TEST(load_profile, evidence_of_a_later_version_is_none) {
  const profile p = load_tables({sites_at({0, 0}, {3, 4})});
  EXPECT_EQ(p.sites.at(0).evidence, type_evidence::vtable);
  EXPECT_EQ(p.sites.at(1).evidence, type_evidence::none);
  EXPECT_EQ(p.damage, "");
}

TEST(load_profile, parts_of_memory_follow_their_sites) {
  const profile p = load_tables({sites_at({7, 0, 0}, {0, 0, 0}), rows_of("memory_parts", 5,
                                                                         {{"time_ns", integers(5)},
                                                                          {"kind", texts(5, "live")},
                                                                          {"name", texts(5)},
                                                                          {"site", integers{0, 1, 2, 3, 4}},
                                                                          {"bytes", reals{1, 2, 3, 4, 5}}})});
  ASSERT_EQ(p.memory.parts.size(), 5U);
  const std::vector<std::uint32_t> expected = {0, 0, 1, 2, 0};
  for (std::size_t part = 0; part < 5; ++part) {
    EXPECT_EQ(p.memory.parts[part].site, expected[part]) << part;
    EXPECT_EQ(p.memory.parts[part].bytes, static_cast<double>(part + 1));
  }
  EXPECT_EQ(
      p.damage,
      "1 sites refer to call paths or processes that are not there; 2 rows refer to sites or threads that are not "
      "there");
}

TEST(load_profile, figures_alone_leave_the_lists_of_sites_unread) {
  const scratch_file file;
  write_synthetic_profile(file.path(), {.sites = 20}, 0);
  const profile all = load_profile(file.path());
  const profile figures = load_profile(file.path(), profile_detail::figures);
  ASSERT_EQ(figures.sites.size(), all.sites.size());
  for (std::size_t index = 0; index < all.sites.size(); ++index) {
    EXPECT_EQ(figures.sites[index].figures.bytes, all.sites[index].figures.bytes);
    EXPECT_FALSE(all.sites[index].sizes.empty());
    EXPECT_TRUE(figures.sites[index].sizes.empty());
    EXPECT_TRUE(figures.sites[index].lifetimes.empty());
    EXPECT_TRUE(figures.sites[index].threads.empty());
  }
}

TEST(load_profile, a_table_without_a_column_is_of_another_version) {
  const scratch_file file;
  {
    table_writer out(file.path());
    out.append(rows_of("stacks", 1, {{"parent", integers{0}}}));
    out.append_json("meta", "{}");
  }
  EXPECT_EQ(
      loading_refusal(file),
      "the profile's table 'stacks' has no column 'address' of whole numbers; it may be of another version of tarn: "
      "make a new one with tarn profile");
}

TEST(load_profile, the_share_of_wrong_paths_is_at_most_1) {
  profile p;
  set_meta(p, {{"mode", "faults"}, {"unwind_checked", 10}, {"unwind_wrong", 5}, {"prices", {{"fault", 7}}}});
  EXPECT_EQ(p.mode, profile_mode::faults);
  EXPECT_EQ(p.unwind_error_rate, 0.5);
  EXPECT_EQ(p.prices.fault, 7);
  set_meta(p, {{"mode", "other"}, {"unwind_checked", 10}, {"unwind_wrong", 50}});
  EXPECT_EQ(p.mode, profile_mode::sample);
  EXPECT_EQ(p.unwind_error_rate, 1);
  set_meta(p, {{"unwind_wrong", 50}, {"prices", 3}});
  EXPECT_EQ(p.unwind_error_rate, 0);
}

}  // namespace
}  // namespace tarn::profiler
