// SPDX-License-Identifier: MIT
#include "observe/socket/openmetrics.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tarn::control_socket {
namespace {

struct row {
  std::string name;
  std::vector<std::uint64_t> values;
};
std::vector<row> rows;

constexpr metric two[] = {{"tarn_x_bytes", metric_kind::gauge, metric_unit::bytes, "Bytes of x"},
                          {"tarn_x_calls", metric_kind::counter, metric_unit::none, "Calls of x"}};

void visit(metric_receiver to) {
  for (const row& each : rows) to.receive(to.context, each.name.c_str(), each.values.data());
}

std::string written(const metric_group& group) {
  static char text[1 << 20];
  text_writer out(text, sizeof text);
  write_group(out, group);
  return {out.data(), out.stored()};
}

constexpr metric_group named{"x", two, 2, visit};

TEST(openmetrics, puts_the_samples_of_a_metric_together) {
  rows = {{"a", {1, 15}}, {"b", {2, 3}}};
  EXPECT_EQ(written(named),
            "# TYPE tarn_x_bytes gauge\n# UNIT tarn_x_bytes bytes\n# HELP tarn_x_bytes Bytes of x.\n"
            "tarn_x_bytes{x=\"a\"} 1\ntarn_x_bytes{x=\"b\"} 2\n"
            "# TYPE tarn_x_calls counter\n# HELP tarn_x_calls Calls of x.\n"
            "tarn_x_calls_total{x=\"a\"} 15\ntarn_x_calls_total{x=\"b\"} 3\n");
}

TEST(openmetrics, adds_members_with_equal_labels) {
  rows = {{"a", {1, 0}}, {"a", {41, 0}}, {"b", {7, 0}}};
  const std::string text = written({"x", two, 1, visit});
  EXPECT_NE(text.find("tarn_x_bytes{x=\"a\"} 42\n"), std::string::npos) << text;
  EXPECT_NE(text.find("tarn_x_bytes{x=\"b\"} 7\n"), std::string::npos) << text;
}

TEST(openmetrics, leaves_out_what_has_no_value_and_what_has_no_member) {
  rows = {{"a", {no_value, 2}}};
  EXPECT_EQ(written(named).find("tarn_x_bytes"), std::string::npos);
  rows.clear();
  EXPECT_EQ(written(named), "");
}

TEST(openmetrics, escapes_names_and_cuts_long_ones) {
  rows = {{"map<int>\"\\\n", {1, 0}}, {std::string(1000, 'n'), {2, 0}}};
  const std::string text = written({"x", two, 1, visit});
  EXPECT_NE(text.find("{x=\"map<int>\\\"\\\\?\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("{x=\"" + std::string(159, 'n') + "\"} 2\n"), std::string::npos) << text;
}

TEST(openmetrics, members_of_a_group_without_a_label_may_have_labels_of_their_own) {
  rows = {{"x=\"a\\\"\",le=\"0.5\"", {1, 0}}, {"", {2, 0}}};
  const std::string text = written({nullptr, two, 1, visit});
  EXPECT_NE(text.find("\ntarn_x_bytes{x=\"a\\\"\",le=\"0.5\"} 1\ntarn_x_bytes 2\n"), std::string::npos)
      << text;
}

TEST(openmetrics, adds_members_beyond_the_bound_together) {
  rows.clear();
  for (unsigned i = 0; i < most_members + 10; ++i) rows.push_back({"m" + std::to_string(i), {1, 0}});
  const std::string text = written({"x", two, 1, visit});
  EXPECT_NE(text.find("{x=\"(others)\"} 10\n"), std::string::npos);
}

TEST(openmetrics, writes_all_groups_and_an_end) {
  std::vector<char> memory(1 << 20);
  text_writer out(memory.data(), memory.size());
  write_openmetrics(out);
  const std::string text(out.data(), out.stored());
  EXPECT_EQ(text.substr(text.size() - 6), "# EOF\n");
  for (const char* const name :
       {"\ntarn_build_info{version=", "\ntarn_in_use_bytes ", "\ntarn_returned_bytes_total ",
        "\ntarn_process_resident_memory_bytes ", "\ntarn_span_free_bytes "}) {
    EXPECT_NE(text.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tarn::control_socket
