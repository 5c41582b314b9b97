// SPDX-License-Identifier: MIT
// Sites that are packed part by part are those of one list.
#include "profiler/model/packed_sites.hpp"

#include <gtest/gtest.h>

#include <map>

#include "tests/profiler/scratch_file.hpp"

namespace tarn::profiler {
namespace {

std::map<std::string, table> written(packed_sites& sites) {
  const scratch_file file;
  table_writer out(file.path());
  sites.write(out);
  std::map<std::string, table> tables;
  read_tables(file.path(), [&tables](table&& one) { tables[one.name] = std::move(one); });
  return tables;
}

TEST(packed_sites, without_a_site_each_table_has_its_columns) {
  packed_sites none(false);
  none.add({});
  const auto tables = written(none);
  ASSERT_EQ(tables.size(), 4U);
  EXPECT_TRUE(tables.at("sites").real("malloc_variance").empty());
  EXPECT_FALSE(tables.at("sites").has("process"));
  EXPECT_TRUE(tables.at("site_sizes").whole("exact").empty());
  EXPECT_TRUE(tables.at("site_lifetimes").whole("site").empty());
  EXPECT_TRUE(tables.at("site_threads").whole("from").empty());
}

TEST(packed_sites, rows_of_lists_name_their_site_whatever_part_it_came_in) {
  constexpr std::size_t count = 20000;  // more than are made into rows at once
  std::vector<site> sites(count);
  for (std::size_t index = 0; index < count; ++index) {
    sites[index].stack = static_cast<std::uint32_t>(index % 7);
    sites[index].process = static_cast<std::uint32_t>(index % 3);
    if (index % 2 == 0) sites[index].sizes = {{index, 1, true}, {index, 2, true}};
  }
  packed_sites packed(true);
  packed.add(std::span(sites).first(1));
  packed.add(std::span(sites).subspan(1));
  const auto tables = written(packed);
  ASSERT_EQ(tables.at("sites").rows, count);
  EXPECT_EQ(tables.at("sites").whole("process")[19998], 19998 % 3U);
  EXPECT_EQ(tables.at("sites").whole("stack")[19999], 19999 % 7U);
  const table& sizes = tables.at("site_sizes");
  ASSERT_EQ(sizes.rows, count);
  EXPECT_TRUE(sizes.whole("site") == sizes.whole("size"));
  EXPECT_EQ(sizes.whole("site").back(), 19998U);
}

TEST(packed_sites, more_than_a_reader_accepts_is_refused) {
  const std::vector<site> sites(std::size_t{1} << 16);
  packed_sites packed(false);
  std::size_t added = 0;
  EXPECT_THROW(for (; added < 64; ++added) packed.add(sites), profile_error);
  EXPECT_GE(added, 8U);  // 22 MiB each
}

}  // namespace
}  // namespace tarn::profiler
