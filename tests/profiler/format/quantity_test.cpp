// SPDX-License-Identifier: MIT
// The spelling of quantities: the table of quantities.json, by which units_test.mjs tests the report's page, and what
// only the C++ side has.
#include "profiler/format/quantity.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace tarn::profiler {
namespace {

TEST(quantity, the_table) {
  const std::map<std::string, base_unit> units = {
      {"ns", base_unit::ns}, {"bytes", base_unit::bytes}, {"count", base_unit::count}};
  std::ifstream file(QUANTITIES);
  const nlohmann::json table = nlohmann::json::parse(file);
  ASSERT_GT(table.size(), 60U);
  for (const auto& [index, row] : table.items()) {
    const double value = row[1], margin = row.size() > 3 ? row[3].get<double>() : 0;
    const auto unit = units.find(row[0]);
    EXPECT_EQ(unit == units.end() ? say_share(value, 1, margin) : say_estimate(unit->second, value, margin),
              row[2].get<std::string>())
        << row;
  }
}

TEST(quantity, the_value_is_the_rounded_number_of_the_text) {
  EXPECT_EQ(spelled(base_unit::ns, 1.0456e9, 4).text, "1.046 s");
  EXPECT_DOUBLE_EQ(spelled(base_unit::ns, 1.0456e9, 4).value, 1.046e9);
  EXPECT_EQ(spelled(base_unit::ns, 12.3e6, 4).text, "12.30 ms");
  EXPECT_DOUBLE_EQ(spelled(base_unit::bytes, 1.23456 * 0x1p20, 4).value, 1.235 * 0x1p20);
  EXPECT_EQ(spelled(base_unit::count, 409512, 4).text, "409.5k");
  EXPECT_DOUBLE_EQ(spelled(base_unit::count, 409512, 4).value, 409500);
  EXPECT_EQ(spelled(base_unit::count, 0.4).value, 0);
  EXPECT_DOUBLE_EQ(spelled(base_unit::ns, -12340).value, -12300);
}

TEST(quantity, a_part_is_no_more_than_the_whole) {
  EXPECT_EQ(say_estimate(base_unit::bytes, 0x1p19, 0x1p21, 0x1p20), "up to 1.0 MiB");
  EXPECT_EQ(say_share(0x1p19, 0x1p22, 0x1p21, 0x1p20), "<25 %");
  EXPECT_EQ(say_share(0x1p19, 0x1p22, 0x1p21), "<63 %");
}

TEST(quantity, the_largest_unit_that_leaves_a_whole_number) {
  EXPECT_EQ(say_exactly(8 << 20), "8 MiB");
  EXPECT_EQ(say_exactly(1536 << 10), "1,536 KiB");
  EXPECT_EQ(say_exactly(std::uint64_t{1} << 31), "2 GiB");
  EXPECT_EQ(say_exactly(1000000), "1,000,000 B");
  EXPECT_EQ(say_exactly(0), "0 B");
}

}  // namespace
}  // namespace tarn::profiler
