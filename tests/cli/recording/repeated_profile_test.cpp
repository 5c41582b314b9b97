// SPDX-License-Identifier: MIT
// Recordings that cannot be repeated are refused before the first one.
#include "cli/recording/paused_profile.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {
namespace {

std::string repetition_refusal(const std::string& output) {
  return testing_support::refusal_of<cli_error>([&] { profile_repeatedly({}, 3, output, false); });
}

TEST(repeated_profile, files_need_a_name) {
  EXPECT_EQ(
      repetition_refusal(""),
      "2 --rounds: several recordings need a name for their files | Give it: -o FILE.prof; the files are FILE-1.prof "
      "to FILE-3.prof");
}

TEST(repeated_profile, a_pipe_cannot_be_read_again) {
  const int before = dup(STDIN_FILENO);
  int ends[2] = {};
  ASSERT_EQ(pipe(ends), 0);
  dup2(ends[0], STDIN_FILENO);
  const std::string refusal = repetition_refusal("x.prof");
  before >= 0 ? dup2(before, STDIN_FILENO) : close(STDIN_FILENO);
  for (const int each : {ends[0], ends[1], before}) close(each);
  EXPECT_EQ(
      refusal,
      "125 --rounds: the runs cannot be repeated: standard input is a pipe | Redirect standard input from a file or from "
      "/dev/null.");
}

}  // namespace
}  // namespace tarn::cli
