// SPDX-License-Identifier: MIT
// Errors as users and scripts see them.
#include "cli/show/cli_error.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace tarn::cli {
namespace {

std::string error_text(const cli_error& error, bool json) {
  testing::internal::CaptureStderr();
  print_error(error, json);
  return testing::internal::GetCapturedStderr();
}

TEST(cli_error, the_problem_and_below_it_the_advice) {
  EXPECT_EQ(error_text(cli_error(exit_code::usage, "--size: 5x is no size", "For example: 5M"), false),
            "tarn: --size: 5x is no size\n      For example: 5M\n");
  EXPECT_EQ(error_text(cli_error(exit_code::refused, "no"), false), "tarn: no\n");
}

TEST(cli_error, as_json_it_has_the_exit_code) {
  EXPECT_EQ(error_text(cli_error(exit_code::not_found, "a \"b\"", "c"), true),
            R"({"error":{"advice":"c","exit_code":127,"problem":"a \"b\""}})"
            "\n");
}

TEST(cli_error, text_of_foreign_origin_cannot_change_the_terminal) {
  EXPECT_EQ(error_text(cli_error(2, "a\x1b]0;title\x07z", "b\x1b[2J"), false).find('\x1b'),
            std::string::npos);
  EXPECT_EQ(error_text(cli_error(2, "\xff\xfe"), true).find('\xff'), std::string::npos);
  testing::internal::CaptureStderr();
  print_note("a\x1b[2J");
  EXPECT_EQ(testing::internal::GetCapturedStderr().find('\x1b'), std::string::npos);
}

TEST(cli_error, each_limit_of_the_system_has_its_advice) {
  const resource_error files("cannot make a pipe", EMFILE);
  EXPECT_STREQ(files.what(), "cannot make a pipe: Too many open files");
  EXPECT_EQ(files.advice(), "Raise the limit on open files: ulimit -n 1024");
  EXPECT_EQ(files.code(), exit_code::refused);
  EXPECT_NE(resource_error("", EAGAIN).advice().find("ulimit -u"), std::string::npos);
  EXPECT_NE(resource_error("", ENOMEM).advice().find("ulimit -v"), std::string::npos);
  EXPECT_NE(resource_error("", ENFILE).advice().find("fs.file-max"), std::string::npos);
  EXPECT_EQ(resource_error("", EIO).advice(), "What works on this system: tarn doctor");
}

}  // namespace
}  // namespace tarn::cli
