// SPDX-License-Identifier: MIT
// The rows by which every view shows a profile.
#include "profiler/analyze/places.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "profiler/analyze/site_group.hpp"
#include "profiler/analyze/site_label.hpp"
#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

small_program three_places() {
  small_program program;
  program.add({"load", "main"}, 100, 1000).figures.malloc_ns = 1e6;
  for (const char* caller : {"first", "second"}) {
    site& one = program.add({"x", caller, "main"}, 100, 2000);
    one.figures.malloc_ns = 4e6;
    one.figures.malloc_variance = 1e10;
    program.strip(one, "/nowhere/libfew.so.1");
  }
  return program;
}

TEST(places, code_without_names_is_one_row_for_each_file_in_every_view) {
  const small_program program = three_places();
  const std::vector<place_row> places = places_of(program.p);
  ASSERT_EQ(places.size(), 2U);
  EXPECT_EQ(places[0].where.function, "?? (libfew.so.1)");
  EXPECT_EQ(places[0].sites.size(), 2U);
  EXPECT_DOUBLE_EQ(places[0].sum.allocations, 4000);
  EXPECT_DOUBLE_EQ(places[0].charged.malloc_ns, 8e6);
  EXPECT_NEAR(places[0].margin(), 1.96e5 * 1.4142, 100);

  EXPECT_EQ(group_sites(program.p).at(0).place.function, "?? (libfew.so.1)");
}

TEST(places, a_row_without_a_name_has_the_reason_and_the_way_out) {
  const small_program program = three_places();
  const std::string hint = name_hint(program.p, site_label(program.p, program.p.sites[1]));
  for (const char* part :
       {"/nowhere/libfew.so.1 is not there", "Put the file", "DEBUGINFOD_URLS", "--debug-path"})
    EXPECT_NE(hint.find(part), std::string::npos) << hint;
  EXPECT_EQ(name_hint(program.p, site_label(program.p, program.p.sites[0])), "");
}

TEST(places, files_of_one_base_name_are_distinguished_by_their_paths) {
  std::vector<place_row> places(3);
  places[0].where = {"make", "/src/a/list.cpp", 10, false};
  places[1].where = {"make", "/src/b/list.cpp", 10, false};
  places[2].where = {"load", "/src/b/list.cpp", 0, false};
  EXPECT_EQ(names_of(profile(), places),
            (std::vector<std::string>{"make (/src/a/list.cpp:10)", "make (/src/b/list.cpp:10)",
                                      "load (list.cpp)"}));
}

TEST(places, rows_that_may_be_nothing_are_split_off_in_order) {
  std::vector<std::pair<double, double>> rows = {{9, 1}, {8, 8}, {7, 9}, {6, 0}, {5, 1}};
  const auto figure = [](const std::pair<double, double>& row) { return row; };
  EXPECT_EQ(split_off_others(rows, 2, figure), 2U);
  EXPECT_EQ(rows, (std::vector<std::pair<double, double>>{{9, 1}, {6, 0}, {5, 1}, {8, 8}, {7, 9}}));
  EXPECT_EQ(split_off_others(rows, 20, figure), 3U);
}

}  // namespace
}  // namespace tarn::profiler
