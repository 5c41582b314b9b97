// SPDX-License-Identifier: MIT
// process_output: when a process gets its file, under which name, and what is told if it cannot be written.
#include "profiler/collect/process_output.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "../../folder_test.hpp"
#include "../../unit/broken_invariant.hpp"

namespace tarn::profiler {

class process_output_test_access {
 public:
  static void rename(process_output& output) { output.path_ = "/tmp/another.prof"; }
};

namespace {

class process_outputs : public testing_support::folder_test {
 protected:
  void SetUp() override {
    who_.pid = 7;
    who_.command = "server";
  }

  output_files files(const std::string& name = "") const {
    recording_settings settings;
    if (!name.empty()) settings.output = folder_ + "/" + name;
    settings.directory = folder_;
    return output_files(settings);
  }

  process_identity who_;
};

TEST_F(process_outputs, a_file_that_is_there_is_not_overwritten) {
  std::ofstream(folder_ + "/tarn-server-7.prof") << "precious";
  output_files all = files();
  process_output output(all);
  output.open(who_, true, {});
  EXPECT_EQ(output.path(), folder_ + "/tarn-server-7-2.prof");
  EXPECT_EQ(all.all().size(), 1U);
  output.open(who_, true, {});
  EXPECT_EQ(all.all().size(), 1U) << "it is open";
}

TEST_F(process_outputs, the_given_name_is_the_programs_alone) {
  output_files all = files("a.prof");
  process_output main(all);
  process_output child(all);
  child.open(who_, false, {});
  main.open(who_, true, {});
  EXPECT_EQ(main.path(), folder_ + "/a.prof");
  EXPECT_EQ(child.path(), folder_ + "/a-7.prof");
}

TEST_F(process_outputs, what_cannot_be_written_is_told_once) {
  output_files all = files();
  std::filesystem::remove_all(folder_);
  process_output output(all);
  output.open(who_, true, {});
  EXPECT_FALSE(output.is_open());
  EXPECT_NE(output.problem(), "");
  output.open(who_, true, {});
  EXPECT_TRUE(output.store(profile()));
  output.report_problem();
  ASSERT_EQ(all.all().size(), 1U);
  EXPECT_EQ(all.all().front().problem, output.problem());
}

TEST_F(process_outputs, finds_a_broken_invariant) {
  output_files all = files();
  process_output output(all);
  output.open(who_, true, {});
  output.validate();
  process_output_test_access::rename(output);
  EXPECT_BROKEN(output.validate(), "process_output", "file_ == nullptr || files_->is_taken(path_)", &output);
}

}  // namespace
}  // namespace tarn::profiler
