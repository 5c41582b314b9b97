// SPDX-License-Identifier: MIT
// Which files and processes a command combines, and what it refuses.
#include "cli/recording/process_choice.hpp"

#include <gtest/gtest.h>

#include "../../refusal.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/model/store_profile.hpp"
#include "tests/profiler/scratch_file.hpp"

namespace tarn::cli {
namespace {

profiler::profile process_with(unsigned pid, const std::string& command, double bytes) {
  profiler::profile p;
  p.meta = {
      {"pid", pid}, {"program", "/bin/" + command}, {"command", command}, {"start", 1}, {"duration_ns", 1e9}};
  p.mode = profiler::profile_mode::full;
  p.stacks = {{}, {0, 0x10}};
  p.symbols[0x10] = {{"main", "main.cpp", 5, false}};
  p.sites.resize(1);
  p.sites[0].stack = 1;
  p.sites[0].figures.bytes = p.sites[0].figures.malloc_ns = bytes;
  return p;
}

void store(const profiler::scratch_file& file, const profiler::profile& p) {
  profiler::table_writer out(file.path());
  profiler::store_profile(out, p);
}

// A file with two processes named sh, and one named ls.
void store_three(const profiler::scratch_file& file) {
  profiler::profile_merger merger;
  merger.add(process_with(7, "sh", 1));
  merger.add(process_with(8, "ls", 10));
  merger.add(process_with(9, "sh", 100));
  store(file, merger.take());
}

std::string choice_refusal(const auto& work) { return testing_support::refusal_of<cli_error>(work); }

double bytes_in(const profiler::profile& p) {
  double sum = 0;
  for (const profiler::site& one : p.sites) sum += one.figures.bytes;
  return sum;
}

TEST(process_choice, by_number_by_name_or_all) {
  const profiler::scratch_file file;
  store_three(file);
  EXPECT_EQ(bytes_in(load_for_command(file.path(), "")), 111);
  EXPECT_EQ(bytes_in(load_for_command(file.path(), "8")), 10);
  EXPECT_EQ(bytes_in(load_for_command(file.path(), "sh")), 101);
  EXPECT_EQ(load_for_command(file.path(), "sh").sites.size(), 1U) << "the same call path in both";
}

TEST(process_choice, a_process_that_is_not_there_is_answered_with_the_costliest) {
  const profiler::scratch_file file;
  store_three(file);
  EXPECT_EQ(choice_refusal([&] { load_for_command(file.path(), "cat"); }),
            "2 --process cat: " + file.path() +
                " has no such process | The most expensive processes are 9 (sh), 8 (ls), 7 (sh).");
}

TEST(process_choice, a_profile_of_one_process_has_that_one) {
  const profiler::scratch_file file;
  store(file, process_with(7, "sh", 5));
  for (const char* choice : {"", "7", "sh"}) EXPECT_EQ(bytes_in(load_for_command(file.path(), choice)), 5);
  EXPECT_EQ(choice_refusal([&] { load_for_command(file.path(), "/bin/sh"); }),
            "2 --process /bin/sh: " + file.path() +
                " has no such process | The most expensive processes are 7 (sh).");
}

TEST(process_choice, a_file_is_given_once_whatever_it_is_called) {
  EXPECT_EQ(choice_refusal([] { require_each_once({"/tmp/a", "/tmp/b"}); }), "no error");
  EXPECT_EQ(
      choice_refusal([] {
        require_each_once({"/tmp/a", "/tmp/b", "/tmp/../tmp/./a"});
      }),
      "2 /tmp/../tmp/./a is given twice (as /tmp/a) | Its figures would count twice; give each file once.");
}

TEST(process_choice, faults_alone_are_not_added_to_blocks) {
  const profiler::scratch_file blocks, faults;
  store(blocks, process_with(7, "sh", 5));
  profiler::profile p = process_with(8, "ls", 5);
  p.mode = profiler::profile_mode::faults;
  store(faults, p);
  EXPECT_EQ(
      choice_refusal([&] {
        merge_files({blocks.path(), faults.path()});
      }),
      "125 " + faults.path() +
          ": recorded with --mode faults, unlike the files before it | Merge profiles of mode faults only with one "
          "another.");
  EXPECT_EQ(
      choice_refusal([&] {
        merge_files({faults.path(), blocks.path()});
      }),
      "125 " + blocks.path() +
          ": recorded with --mode sample or full, unlike the files before it | Merge profiles of mode faults only "
          "with one another.");
}

}  // namespace
}  // namespace tarn::cli
