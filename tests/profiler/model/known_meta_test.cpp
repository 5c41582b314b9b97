// SPDX-License-Identifier: MIT
// Members of the table "meta" that views rely on; what is left out is told.
#include "profiler/model/known_meta.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

// What remains of the text, and what is said about it.
std::string remaining(const std::string& text, std::string& problem) {
  problem = "nothing";
  return read_meta(text, problem).dump();
}

TEST(known_meta, members_stay_within_their_ranges) {
  std::string problem;
  const std::string all =
      R"({"duration_ns":1e+18,"page_bytes":512,"pid":2147483648,"processes":1,"start":0})";
  EXPECT_EQ(nlohmann::json::parse(remaining(all, problem)), nlohmann::json::parse(all));
  EXPECT_EQ(problem, "nothing");
  for (const auto& [member, value] : {std::pair{"duration_ns", "1.1e18"},
                                      {"page_bytes", "511"},
                                      {"page_bytes", "1e10"},
                                      {"pid", "2147483649"},
                                      {"pid", "-1"},
                                      {"pid", "true"},
                                      {"pid", "null"},
                                      {"processes", "0"},
                                      {"program", "1"},
                                      {"arguments", "\"a\""},
                                      {"refused", "[1]"},
                                      {"start", "\"now\""}}) {
    EXPECT_EQ(remaining("{\"" + std::string(member) + "\":" + value + ",\"own\":1}", problem), R"({"own":1})")
        << member;
    EXPECT_EQ(problem, "the member '" + std::string(member) + "' of the table 'meta' makes no sense")
        << value;
  }
}

TEST(known_meta, text_that_is_no_json_object_is_null) {
  std::string problem;
  for (const char* text : {"", "[1]", "7", "{", "{\"a\":1", "{\"a\":\"\xff\"}"}) {
    EXPECT_EQ(remaining(text, problem), "null") << text;
    EXPECT_EQ(problem, "the table 'meta' is no JSON object") << text;
  }
}

TEST(known_meta, sixteen_levels_are_read) {
  const auto nested = [](std::size_t levels) {
    return "{\"a\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
  };
  std::string problem;
  EXPECT_EQ(remaining(nested(17), problem), nested(17));
  EXPECT_EQ(problem, "nothing");
  EXPECT_NE(remaining(nested(18), problem), nested(18));
  EXPECT_EQ(problem, "what is nested deeply in the table 'meta' is left out");
}

TEST(known_meta, eight_mebibytes_are_read) {
  const auto long_text = [](std::size_t bytes) { return "{\"a\":\"" + std::string(bytes - 8, 'x') + "\"}"; };
  std::string problem = "nothing";
  EXPECT_TRUE(read_json_object(long_text(std::size_t{8} << 20), "proof", problem).is_object());
  EXPECT_EQ(problem, "nothing");
  EXPECT_TRUE(read_json_object(long_text((std::size_t{8} << 20) + 1), "proof", problem).is_null());
  EXPECT_EQ(problem, "the table 'proof' is longer than one may be");
}

TEST(known_meta, a_member_of_another_kind_counts_as_missing) {
  const nlohmann::json object = {{"n", 7}, {"t", "text"}, {"f", true}, {"zero", 0}};
  EXPECT_EQ(number_in(object, "n", 1), 7);
  EXPECT_EQ(number_in(object, "t", 1), 1);
  EXPECT_EQ(number_in(object, "f", 1), 1);
  EXPECT_EQ(number_in(object, "missing"), 0);
  EXPECT_EQ(positive_in(object, "zero", 5), 5);
  EXPECT_EQ(positive_in(object, "n", 5), 7);
  EXPECT_EQ(text_in(object, "t"), "text");
  EXPECT_EQ(text_in(object, "n"), "");
  EXPECT_TRUE(flag_in(object, "f"));
  EXPECT_FALSE(flag_in(object, "n"));
  for (const nlohmann::json& other : {nlohmann::json(), nlohmann::json(3), nlohmann::json::array({1})}) {
    EXPECT_EQ(member_in(other, "n"), nullptr);
    EXPECT_EQ(number_in(other, "n", 2), 2);
    EXPECT_EQ(text_in(other, "t"), "");
    EXPECT_FALSE(flag_in(other, "f"));
  }
}

}  // namespace
}  // namespace tarn::profiler
