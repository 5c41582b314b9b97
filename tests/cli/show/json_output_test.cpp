// SPDX-License-Identifier: MIT
// JSON that is printed row by row is one object.
#include "cli/show/json_output.hpp"

#include <gtest/gtest.h>

namespace tarn::cli {
namespace {

std::string printed_rows(const nlohmann::json& head, std::size_t count) {
  testing::internal::CaptureStdout();
  print_json_rows(head, "rows", count, [](std::size_t index) { return nlohmann::json{{"index", index}}; });
  return testing::internal::GetCapturedStdout();
}

TEST(json_output, rows_are_the_last_member) {
  EXPECT_EQ(printed_rows({{"a", 1}}, 2),
            "{\n  \"a\": 1,\n  \"rows\": [\n    {\"index\":0},\n    {\"index\":1}\n  ]\n}\n");
  EXPECT_EQ(printed_rows({{"a", {{"b", 1}}}}, 0), "{\n  \"a\": {\n    \"b\": 1\n  },\n  \"rows\": []\n}\n");
  EXPECT_EQ(nlohmann::json::parse(printed_rows({{"a", nlohmann::json::array()}}, 3))["rows"].size(), 3U);
}

TEST(json_output, an_object_is_indented_and_a_text_is_utf8) {
  testing::internal::CaptureStdout();
  print_json_object({{"a", "\xff"}});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "{\n  \"a\": \"\xef\xbf\xbd\"\n}\n");
  EXPECT_EQ(json_text({{"a", 1}}), "{\"a\":1}");
  EXPECT_EQ(json_text({{"a", "\x1b\u009b\u202e"}}), "{\"a\":\"\\u001b\\u009b\\u202e\"}");
}

}  // namespace
}  // namespace tarn::cli
