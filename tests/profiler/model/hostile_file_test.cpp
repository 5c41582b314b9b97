// SPDX-License-Identifier: MIT
// Files with valid chunks and hostile content: small files that would take much memory or deep recursion to load, and
// values that would break the views.
#include <gtest/gtest.h>

#include <string>

#include "profiler/format/table_file.hpp"
#include "profiler/model/profile.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

profile load(const std::string& meta) {
  const scratch_file file;
  table_writer(file.path()).append_json("meta", meta);
  return load_profile(file.path());
}

TEST(hostile_file, meta_that_is_nested_a_million_deep) {
  constexpr std::size_t depth = 1'000'000;
  const profile p = load(R"({"program":"p","x":)" + std::string(depth, '[') + std::string(depth, ']') + "}");
  EXPECT_EQ(p.meta["program"], "p");
  EXPECT_NE(p.damage.find("nested"), std::string::npos) << p.damage;
}

TEST(hostile_file, meta_that_is_long) {
  EXPECT_THROW(load(R"({"x":")" + std::string(std::size_t{20} << 20, 'a') + "\"}"), profile_error);
}

TEST(hostile_file, known_members_of_other_types_are_left_out) {
  const profile p = load(
      R"({"program":5,"arguments":["a",1],"page_bytes":"many","duration_ns":-1,"start":1e300,"pid":7,"other":[1,"b"]})");
  EXPECT_EQ(p.meta.dump(), R"({"other":[1,"b"],"pid":7})");
  EXPECT_NE(p.damage.find("makes no sense"), std::string::npos) << p.damage;
}

TEST(hostile_file, members_of_the_right_types_stay) {
  const std::string meta =
      R"({"arguments":["a"],"duration_ns":1000,"page_bytes":4096,"program":"p","refused":[],"start":1.5})";
  const profile p = load(meta);
  EXPECT_EQ(p.meta.dump(), meta);
  EXPECT_EQ(p.damage, "");
}

TEST(hostile_file, figures_beyond_all_that_can_be_counted_are_zero) {
  const scratch_file file;
  {
    table_writer out(file.path());
    table sites{"sites", 2, {}, true};
    sites.columns = {{"stack", integers{0, 0}},
                     {"type", texts{"", ""}},
                     {"evidence", integers{0, 0}},
                     {"bytes", reals{1e300, 1000}}};
    out.append(sites);
    out.append_json("meta", R"({"other_faults":1e200})");
  }
  const profile p = load_profile(file.path());
  ASSERT_EQ(p.sites.size(), 2U);
  EXPECT_EQ(p.sites[0].figures.bytes, 0);
  EXPECT_EQ(p.sites[1].figures.bytes, 1000);
  EXPECT_EQ(p.other_faults, 0);
}

// 1.3 million sites of three columns are 60 MiB of columns, a few KB of a compressed chunk, and half a gigabyte of
// sites.
TEST(hostile_file, many_sites_without_figures_are_refused) {
  constexpr std::size_t rows = 1'300'000;
  const scratch_file file;
  {
    table_writer out(file.path());
    out.append_json("meta", "{}");
    table sites{"sites", rows, {}, true};
    sites.columns = {{"stack", integers(rows)}, {"type", texts(rows)}, {"evidence", integers(rows)}};
    for (int times = 0; times < 3; ++times) out.append(sites);
  }
  EXPECT_LT(file.contents().size(), 100'000U);
  EXPECT_THROW(load_profile(file.path()), profile_error);
}

}  // namespace
}  // namespace tarn::profiler
