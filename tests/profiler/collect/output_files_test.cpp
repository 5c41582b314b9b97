// SPDX-License-Identifier: MIT
// output_files: what the files of a recording are called, and how many there may be.
#include "profiler/collect/output_files.hpp"

#include <gtest/gtest.h>

#include "../../unit/broken_invariant.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {
namespace {

output_files files_in(const std::string& output, const std::string& directory = "") {
  recording_settings settings{.output = output, .directory = directory};
  return output_files(settings);
}

TEST(output_files, a_name_that_is_not_given_has_the_programs) {
  const output_files files = files_in("", "/tmp");
  EXPECT_EQ(files.name("server", 7, "", 1), "/tmp/tarn-server-7.prof");
  EXPECT_EQ(files.name("server", 7, "-small", 2), "/tmp/tarn-server-7-small-2.prof");
  EXPECT_FALSE(files.has_given_name());
}

TEST(output_files, other_processes_get_the_given_name_with_their_id) {
  const output_files files = files_in("/tmp/output_files_test.prof");
  EXPECT_EQ(files.name("server", 7, "", 1), "/tmp/output_files_test.prof");
  EXPECT_EQ(files.name("server", 7, "-7", 3), "/tmp/output_files_test-7-3.prof");
}

TEST(output_files, a_long_name_is_cut_between_characters) {
  const output_files files = files_in("", "/tmp");
  std::string name(199, 'a');
  name += "\xc3\xa4\xc3\xa4";
  EXPECT_EQ(files.name(name, 7, "", 1), "/tmp/tarn-" + std::string(199, 'a') + "-7.prof");
}

TEST(output_files, an_unusable_place_is_told_at_once) {
  EXPECT_THROW(files_in("/nonexistent/a.prof"), profile_error);
  EXPECT_THROW(files_in("", "/nonexistent"), profile_error);
}

TEST(output_files, one_process_and_all_together_have_room_for_some) {
  output_files files = files_in("", "/tmp");
  for (int file = 0; file < 16; ++file) files.add({"/tmp/" + std::to_string(file), "server", 7, ""});
  EXPECT_FALSE(files.has_room_for(7));
  EXPECT_TRUE(files.has_room_for(8));
  for (std::uint32_t file = 16; file < 200; ++file)
    files.add({"/tmp/" + std::to_string(file), "server", file + 100, ""});
  EXPECT_FALSE(files.has_room_for(8));
}

TEST(output_files, finds_a_broken_invariant) {
  output_files files = files_in("", "/tmp");
  files.add({"/tmp/a", "server", 7, ""});
  files.set_problem("/tmp/a", "the disk is full");
  EXPECT_EQ(files.all().front().problem, "the disk is full");
  EXPECT_TRUE(files.is_taken("/tmp/a"));
  files.validate();
  EXPECT_BROKEN(
      {
        files.add({"/tmp/a", "server", 8, ""});
        files.validate();
      },
      "output_files", "paths.size() == files_.size()", &files);
}

}  // namespace
}  // namespace tarn::profiler
