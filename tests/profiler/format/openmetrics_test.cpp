// SPDX-License-Identifier: MIT
// What a process says of itself is read, and written anew: whatever it sends, the text stays valid, and others' metrics
// stay theirs.
#include "profiler/format/openmetrics.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tarn::profiler {
namespace {

std::string anew(std::string_view text, metrics_format format = metrics_format::openmetrics) {
  return write_metrics({{"", read_metrics(text)}}, format);
}

constexpr const char* sent =
    "# TYPE tarn_in_use_bytes gauge\n# UNIT tarn_in_use_bytes bytes\n# HELP tarn_in_use_bytes Memory in use.\n"
    "tarn_in_use_bytes 7\n"
    "# TYPE tarn_x_waited_seconds counter\n# UNIT tarn_x_waited_seconds seconds\n"
    "# HELP tarn_x_waited_seconds For how long.\n"
    "tarn_x_waited_seconds_total{x=\"a \\\"b\\\" \\\\\",object_size=\"8\"} 0.250000000\n"
    "tarn_x_waited_seconds_total{x=\"c\",object_size=\"18446744073709551615\"} 18446744073709551615\n";

TEST(openmetrics, what_a_process_sends_comes_out_as_it_is) {
  EXPECT_EQ(anew(std::string(sent) + "# EOF\n"), std::string(sent) + "# EOF\n");
}

TEST(openmetrics, the_older_format_has_endings_and_no_units) {
  EXPECT_EQ(anew("# HELP tarn_x_bytes Help.\ntarn_x_bytes_total 1\n", metrics_format::prometheus),
            "# TYPE tarn_x_bytes_total counter\n# HELP tarn_x_bytes_total Help.\ntarn_x_bytes_total 1\n");
}

TEST(openmetrics, processes_stand_together_with_their_labels) {
  const std::string text =
      write_metrics({{written_labels({{"pid", "1"}, {"program", "a\"\\\n"}}),
                      read_metrics("tarn_a 1\ntarn_b{x=\"y\"} 2\n")},
                     {written_labels({{"pid", "2"}}), read_metrics("tarn_b 3\ntarn_a 4\n")}},
                    metrics_format::openmetrics);
  EXPECT_EQ(
      text,
      "# TYPE tarn_a gauge\ntarn_a{pid=\"1\",program=\"a\\\"\\\\\\\\n\"} 1\ntarn_a{pid=\"2\"} 4\n"
      "# TYPE tarn_b gauge\ntarn_b{pid=\"1\",program=\"a\\\"\\\\\\\\n\",x=\"y\"} 2\ntarn_b{pid=\"2\"} 3\n# EOF\n");
}

TEST(openmetrics, what_a_process_may_not_say_is_left_out) {
  for (const char* const line : {"up 1",
                                 "tarn_up 1",
                                 "tarn_up{pid=\"1\"} 0",
                                 "tarn_a{pid=\"1\"} 0",
                                 "tarn_a{program=\"x\"} 0",
                                 "tarn_a{b=\"1\",b=\"2\"} 0",
                                 "tarn_a{B=\"1\"} 0",
                                 "tarn_a{__name__=\"up\"} 0",
                                 "tarn_a{b=\"1\" 0",
                                 "tarn_a{b=\"1} 0",
                                 "tarn_a{b=1} 0",
                                 "tarn_a{=\"1\"} 0",
                                 "tarn_a{b=\"1\"}0",
                                 "tarn_a",
                                 "tarn_a ",
                                 "tarn_a x",
                                 "tarn_a 1 2",
                                 "tarn_a 1e9",
                                 "tarn_a NaN",
                                 "tarn_a -1",
                                 "tarn_a 1.",
                                 "tarn_a .1",
                                 "tarn_a 1 \x1b[2J",
                                 "tarn_\x1b 1",
                                 "tarn_A 1",
                                 "tarn_a_count 1",
                                 "tarn_a{,} 1",
                                 "tarn_a{a=\"1\",} 1",
                                 "this is no metric",
                                 "# TYPE x gauge\nx 1"})
    EXPECT_EQ(anew(std::string(line) + "\n"), "# EOF\n") << line;
  EXPECT_EQ(anew("tarn_a " + std::string(41, '1') + "\n"), "# EOF\n");
  EXPECT_EQ(anew("tarn_a{b=\"" + std::string(2000, 'x') + "\"} 1\n"), "# EOF\n");
  EXPECT_EQ(anew("tarn_" + std::string(96, 'a') + " 1\n"), "# EOF\n");
  EXPECT_EQ(anew("tarn_a{a=\"\",b=\"\",c=\"\",d=\"\",e=\"\",f=\"\",g=\"\",h=\"\",i=\"\"} 1\n"), "# EOF\n");
  EXPECT_EQ(anew("# HELP tarn_a " + std::string(300, 'x') + "\ntarn_a 1\n"),
            "# TYPE tarn_a gauge\ntarn_a 1\n# EOF\n");
  EXPECT_EQ(anew("tarn_a 1\n# EOF\ntarn_b 1\n"), "# TYPE tarn_a gauge\ntarn_a 1\n# EOF\n");
}

TEST(openmetrics, texts_are_printable) {
  EXPECT_EQ(anew("# HELP tarn_a \x1b]0;x\x07 \xff\ntarn_a{b=\"\x1b[2J\xff\xe2\x80\xae\"} 1\n"),
            "# TYPE tarn_a gauge\n# HELP tarn_a \\\\x1b]0;x\\\\x07 \\\\xff\n"
            "tarn_a{b=\"\\\\x1b[2J\\\\xff\\\\u{202e}\"} 1\n# EOF\n");
}

TEST(openmetrics, a_sample_is_there_once) {
  EXPECT_EQ(anew("tarn_a{b=\"1\",c=\"2\"} 1\ntarn_a{b=\"1\",c=\"2\"} 2\ntarn_a{c=\"2\",b=\"1\"} 3\n"),
            "# TYPE tarn_a gauge\ntarn_a{b=\"1\",c=\"2\"} 1\n# EOF\n");
}

TEST(openmetrics, no_process_changes_the_type_of_another_one_s_metric) {
  const auto both = [](const char* first, const char* second) {
    return write_metrics({{"pid=\"1\"", read_metrics(first)}, {"pid=\"2\"", read_metrics(second)}},
                         metrics_format::openmetrics);
  };
  const char* const forged = "# TYPE tarn_a counter\n# UNIT tarn_a bytes\ntarn_a_total 9\n";
  const char* const real = "# TYPE tarn_a gauge\n# HELP tarn_a A.\ntarn_a 1\n";
  EXPECT_EQ(both(forged, real),
            "# TYPE tarn_a_total unknown\ntarn_a_total{pid=\"1\"} 9\n"
            "# TYPE tarn_a gauge\n# HELP tarn_a A.\ntarn_a{pid=\"2\"} 1\n# EOF\n");
}

TEST(openmetrics, memory_is_bounded) {
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "tarn_a{b=\"" + std::to_string(i) + "\"} 1\n";
  EXPECT_EQ(read_metrics(text).families.at(0).samples.size(), 100000U);
  text.clear();
  for (int i = 0; i < 1000; ++i) text += "# HELP tarn_h" + std::to_string(i) + " H.\n";
  EXPECT_EQ(read_metrics(text + "# HELP tarn_a A.\ntarn_a 1\n").families.at(0).help, "");
}

TEST(openmetrics, value_of) {
  const metric_list list = read_metrics("tarn_a_total 3\ntarn_a 4\ntarn_b{c=\"d\"} 5.5\n");
  EXPECT_EQ(list.value_of("tarn_a_total"), 3);
  EXPECT_EQ(list.value_of("tarn_a"), 4);
  EXPECT_EQ(list.value_of("tarn_b"), 5.5);
  EXPECT_EQ(list.value_of("tarn_c"), 0);
}

// Any bytes: what comes out can be read again, and is the same then.
TEST(openmetrics, any_text_is_written_as_one_that_can_be_read) {
  std::mt19937 random(1);
  constexpr std::string_view letters = "tarn_ab{}=\"\\,# \n1.\x1b\xff";
  for (int round = 0; round < 4000; ++round) {
    std::string text = sent;
    for (int change = 0; change < 6; ++change)
      text[random() % text.size()] = letters[random() % letters.size()];
    const std::string once = anew(text);
    EXPECT_EQ(anew(once), once) << text;
  }
}

}  // namespace
}  // namespace tarn::profiler
