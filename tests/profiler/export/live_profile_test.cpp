// SPDX-License-Identifier: MIT
// live_profile: live memory is kept, what is not live is not, and bytes that are no profile are refused.
#include "profiler/export/live_profile.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "profiler/format/pprof_message.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {
namespace {

using pprof::message;
using pprof::message_field;
using pprof::message_reader;

// Numbers in the table of strings.
enum live_text : std::uint64_t {
  of_alloc_space = 1,
  of_bytes,
  of_inuse_space,
  of_function_name,
  of_path,
  of_build_id
};

// Two places, of which the first one has nothing live.
std::string made_profile() {
  message out;
  for (const std::uint64_t type : {of_alloc_space, of_inuse_space}) {
    message one;
    one.number(1, type).number(2, of_bytes);
    out.nested(pprof::sample_type, one);
  }
  const std::uint64_t figures[][2] = {{100, 0}, {300, 70}};
  for (const auto& values : figures) {
    message one;
    const std::uint64_t place = 9;
    one.numbers(1, &place, 1).numbers(2, values, 2);
    out.nested(pprof::sample, one);
  }
  message module;
  module.number(1, 4).number(2, 0x1000).number(3, 0x2000).number(5, of_path).number(6, of_build_id);
  out.nested(pprof::mapping, module);
  message line;
  line.number(1, 7).number(2, 42);
  message place;
  place.number(1, 9).number(2, 4).number(3, 0x1234);
  place.nested(4, line);
  out.nested(pprof::location, place);
  message function;
  function.number(1, 7).number(2, of_function_name);
  out.nested(pprof::function, function);
  for (const char* const text : {"", "alloc_space", "bytes", "inuse_space", "keep", "/bin/shop", "abcd"})
    out.text(pprof::string_table, text);
  out.number(pprof::time_nanos, 5);
  return out.take();
}

std::vector<std::string> live_parts(std::string_view text, unsigned number) {
  std::vector<std::string> found;
  message_reader reader(text);
  for (message_field field; reader.next(field);)
    if (field.number == number) found.emplace_back(field.bytes);
  EXPECT_FALSE(reader.is_broken());
  return found;
}

std::vector<std::uint64_t> live_numbers(std::string_view text, unsigned number) {
  std::vector<std::uint64_t> found;
  message_reader reader(text);
  for (message_field field; reader.next(field);)
    if (field.number == number && !pprof::add_numbers(field, found)) ADD_FAILURE();
  return found;
}

TEST(live_profile, keeps_live_memory_alone) {
  const std::string live = live_profile(made_profile());
  ASSERT_EQ(live_parts(live, pprof::sample_type).size(), 1U);
  EXPECT_EQ(live_numbers(live_parts(live, pprof::sample_type)[0], 1),
            std::vector<std::uint64_t>{of_inuse_space});
  ASSERT_EQ(live_parts(live, pprof::sample).size(), 1U);
  EXPECT_EQ(live_numbers(live_parts(live, pprof::sample)[0], 2), std::vector<std::uint64_t>{70});
  EXPECT_EQ(live_parts(live, pprof::string_table).size(), 7U);
}

TEST(live_profile, becomes_tables_of_otlp) {
  const std::string request = otlp_profiles(live_profile(made_profile()), {{"service.name", "shop"}}, "1");
  const std::string tables = live_parts(request, 2).at(0);
  const auto mappings = live_parts(tables, 1), locations = live_parts(tables, 2),
             functions = live_parts(tables, 3), attributes = live_parts(tables, 6),
             stacks = live_parts(tables, 7);
  for (const auto& table : {mappings, locations, functions, attributes, stacks}) {
    ASSERT_EQ(table.size(), 2U);
    EXPECT_EQ(table[0], "");
  }
  EXPECT_EQ(live_numbers(mappings[1], 5), std::vector<std::uint64_t>{1});
  EXPECT_EQ(live_parts(live_parts(attributes[1], 2).at(0), 1).at(0), "abcd");
  EXPECT_EQ(live_numbers(locations[1], 1), std::vector<std::uint64_t>{1});
  EXPECT_EQ(live_numbers(live_parts(locations[1], 3).at(0), 2), std::vector<std::uint64_t>{42});
  EXPECT_EQ(live_numbers(functions[1], 1), std::vector<std::uint64_t>{of_function_name});
  EXPECT_EQ(live_numbers(stacks[1], 1), std::vector<std::uint64_t>{1});
  const std::string profile = live_parts(live_parts(live_parts(request, 1).at(0), 2).at(0), 2).at(0);
  EXPECT_EQ(live_numbers(live_parts(profile, 2).at(0), 4), std::vector<std::uint64_t>{70});
}

TEST(live_profile, refuses_what_is_no_profile) {
  EXPECT_THROW(live_profile(""), profile_error);
  message allocations_only;
  message type;
  type.number(1, 1).number(2, 2);
  allocations_only.nested(pprof::sample_type, type);
  for (const char* const text : {"", "alloc_space", "bytes"})
    allocations_only.text(pprof::string_table, text);
  EXPECT_THROW(live_profile(allocations_only.whole()), profile_error);
}

TEST(live_profile, survives_any_bytes) {
  const std::string whole = made_profile();
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole.substr(0, random() % (whole.size() + 1));
    for (unsigned change = random() % 4; change != 0 && !text.empty(); --change)
      text[random() % text.size()] = static_cast<char>(random());
    try {
      otlp_profiles(live_profile(text), {}, "1");
    } catch (const profile_error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace tarn::profiler
