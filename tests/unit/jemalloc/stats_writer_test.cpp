// SPDX-License-Identifier: MIT
// stats_writer: groups, rows and strings as JSON and as text, also where they exceed a piece.
#include "jemalloc/stats_writer.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tarn::jemalloc {
namespace {

void add(void* context, const char* text) { *static_cast<std::string*>(context) += text; }

std::string written(bool json, int rows) {
  std::string out;
  stats_writer w(add, &out, json);
  w.begin_all();
  w.begin("group");
  w.value("number", 7);
  w.value_signed("less", -1);
  w.flag("yes", true);
  w.text("words", "a \"b\" \\ \n");
  w.begin_rows("rows");
  for (int i = 0; i < rows; ++i) {
    w.begin_row();
    w.value("i", static_cast<std::uint64_t>(i));
    w.value("j", 2);
    w.end_row();
  }
  w.end_rows();
  w.end();
  w.end_all();
  return out;
}

TEST(stats_writer, writes_json) {
  EXPECT_EQ(
      written(true, 2),
      "{\"group\":{\"number\":7,\"less\":-1,\"yes\":true,\"words\":\"a \\\"b\\\" \\\\ ?\",\"rows\":[{\"i\":0,\"j\":2},{"
      "\"i\":1,\"j\":2}]}}\n");
}

TEST(stats_writer, writes_text) {
  EXPECT_EQ(
      written(false, 1),
      "___ Begin jemalloc statistics ___\ngroup:\nnumber: 7\nless: -1\nyes: true\nwords: \"a \\\"b\\\" \\\\ ?\"\nrows:\n"
      "  i 0  j 2  \n--- End jemalloc statistics ---\n");
}

TEST(stats_writer, writes_long_output_in_pieces) {
  const std::string out = written(true, 5000);
  EXPECT_NE(out.find("{\"i\":4999,\"j\":2}]}}"), std::string::npos);
  EXPECT_GT(out.size(), 5000U * 14);
}

}  // namespace
}  // namespace tarn::jemalloc
