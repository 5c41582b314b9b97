// SPDX-License-Identifier: MIT
// Where the debugging information of a stripped file may lie, and when no server is asked for it.
#include "profiler/analyze/debug_files.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tarn::profiler {
namespace {

using paths = std::vector<std::string>;

TEST(debug_files, by_the_build_id_then_by_the_link) {
  symbol_settings settings;
  settings.debug_paths = {"/home/me/debug"};
  const debug_files files(settings);
  EXPECT_EQ(files.candidates("/opt/lib/libx.so.1", "abcdef", "libx.debug"),
            (paths{"/home/me/debug/.build-id/ab/cdef.debug", "/usr/lib/debug/.build-id/ab/cdef.debug",
                   "/opt/lib/libx.debug", "/opt/lib/.debug/libx.debug", "/home/me/debug/opt/lib/libx.debug",
                   "/home/me/debug/libx.debug", "/usr/lib/debug/opt/lib/libx.debug"}));
}

TEST(debug_files, without_a_build_id_or_a_link) {
  const debug_files files({});
  EXPECT_EQ(files.candidates("/opt/libx.so", "", "x.debug"),
            (paths{"/opt/x.debug", "/opt/.debug/x.debug", "/usr/lib/debug/opt/x.debug"}));
  EXPECT_EQ(files.candidates("/opt/libx.so", "abcd", nullptr),
            (paths{"/usr/lib/debug/.build-id/ab/cd.debug"}));
  EXPECT_TRUE(files.candidates("/opt/libx.so", "", nullptr).empty());
  EXPECT_TRUE(files.candidates("/opt/libx.so", "ab", nullptr).empty()) << "too short to be divided";
}

// The link is a text of the file, which may be hostile.
TEST(debug_files, a_link_names_no_file_in_another_folder) {
  const debug_files files({});
  EXPECT_TRUE(files.candidates("/opt/libx.so", "", "../../etc/passwd").empty());
  EXPECT_TRUE(files.candidates("/opt/libx.so", "", "/etc/passwd").empty());
}

TEST(debug_files, a_server_is_asked_only_if_one_is_named_and_wanted) {
  bool asked = false;
  symbol_settings settings;
  settings.progress = [&asked](const std::string&) { asked = true; };
  for (const char* urls : {"", "  "}) {
    ASSERT_EQ(setenv("DEBUGINFOD_URLS", urls, 1), 0);
    debug_files files(settings);
    EXPECT_EQ(files.fetched("/opt/libx.so", "abcd"), "");
    EXPECT_EQ(files.problem(), "");
  }
  ASSERT_EQ(setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1/", 1), 0);
  debug_files without_build_id(settings);
  EXPECT_EQ(without_build_id.fetched("/opt/libx.so", ""), "");
  settings.ask_servers = false;
  debug_files unwanted(settings);
  EXPECT_EQ(unwanted.fetched("/opt/libx.so", "abcd"), "");
  EXPECT_EQ(unwanted.problem(), "");
  EXPECT_FALSE(asked);
  unsetenv("DEBUGINFOD_URLS");
}

}  // namespace
}  // namespace tarn::profiler
