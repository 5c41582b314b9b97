// SPDX-License-Identifier: MIT
#include "profiler/analyze/site_label.hpp"

#include <gtest/gtest.h>

#include "tests/profiler/analyze/small_program.hpp"

namespace tarn::profiler {
namespace {

// Removes the innermost frame's name, which is then in `file`.
void strip(small_program& program, const site& one, const char* file) {
  const std::uint64_t address = program.p.stacks[one.stack].address;
  program.p.symbols.erase(address);
  program.p.modules.push_back({file, "", address - 4, address + 4, 0});
}

TEST(missing_names, names_the_costliest_files_and_what_to_do) {
  small_program program;
  program.add({"load", "main"}, 100, 1000);
  EXPECT_EQ(missing_names(program.p), "");
  strip(program, program.add({"x", "main"}, 100, 2000), "/usr/lib/libfew.so.1");
  strip(program, program.add({"y", "main"}, 100, 5000), "/opt/server");
  const std::string text = missing_names(program.p);
  EXPECT_NE(text.find("server, libfew.so.1."), std::string::npos) << text;
  EXPECT_NE(text.find("DEBUGINFOD_URLS"), std::string::npos) << text;
  EXPECT_NE(text.find("--debug-path"), std::string::npos) << text;
}

TEST(missing_names, says_nothing_of_little_nor_of_run_time_libraries) {
  small_program program;
  program.add({"load", "main"}, 100, 100000);
  strip(program, program.add({"x", "main"}, 100, 1000), "/usr/lib/libfew.so.1");
  strip(program, program.add({"y", "main"}, 100, 100000), "/usr/lib/libc.so.6");
  EXPECT_EQ(missing_names(program.p), "");
  EXPECT_EQ(missing_names(profile{}), "");
}

}  // namespace
}  // namespace tarn::profiler
