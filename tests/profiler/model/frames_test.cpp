// SPDX-License-Identifier: MIT
// Frames of a call path: how many, of which kind, and their names without a symbol.
#include <gtest/gtest.h>

#include "profiler/model/profile.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {
namespace {

TEST(frames, a_number_of_addresses_limits_them_not_a_number_of_functions) {
  profile p;
  p.stacks = {{}, {0, 0x10}, {1, 0x20}, {2, 0x30}};
  p.symbols[0x30] = {{"inlined", "", 0, true}, {"innermost", "", 0, false}};
  EXPECT_TRUE(frames_of(p, 3, 0).empty());
  EXPECT_EQ(frames_of(p, 3, 1).size(), 2U);
  EXPECT_EQ(frames_of(p, 3, 2).size(), 3U);
  EXPECT_EQ(frames_of(p, 3, 100).size(), 4U);
  EXPECT_EQ(frames_of(p, 3)[1].address, 0x30U);
  EXPECT_EQ(frames_of(p, 3)[3].address, 0x10U);
}

TEST(frames, a_path_that_leads_back_into_itself_ends) {
  profile p;
  p.stacks = {{}, {2, 0x10}, {1, 0x20}, {3, 0x30}};
  EXPECT_EQ(frames_of(p, 3).size(), 1U);
  EXPECT_EQ(frames_of(p, 2).size(), 2U);
}

TEST(frames, kinds_are_named_only_beside_lines_of_scripts) {
  const std::uint64_t line = script_address("f", "a.py", 3);
  profile p;
  p.modules = {{"/usr/bin/python3.11", "", 0x1000, 0x2000, 0}, {"/opt/own.so", "", 0x2000, 0x3000, 0}};
  p.stacks = {{}, {0, 0x1800}, {1, line}, {2, 0x1900}, {3, 0x2800}};
  p.symbols[line] = {{"f", "a.py", 3, false}};
  p.symbols[0x2800] = {{"grow", "own.c", 7, false}};
  const auto frames = frames_of(p, 4);
  ASSERT_EQ(frames.size(), 4U);
  EXPECT_EQ(frames[0].kind, frame_kind::native);
  EXPECT_EQ(frames[1].kind, frame_kind::interpreter);
  EXPECT_EQ(frames[2].kind, frame_kind::script);
  EXPECT_EQ(frames[3].kind, frame_kind::interpreter);
  EXPECT_EQ(frames_of(p, 1)[0].kind, frame_kind::native) << "no line of a script";
}

// Which code between a script's line and malloc is the user's own: what has lines, and did not come with a package.
TEST(frames, libraries_that_a_line_of_a_script_calls_serve_it) {
  const std::uint64_t line = script_address("f", "a.py", 3);
  profile p;
  p.modules = {{"/home/me/ext.so", "", 0x1000, 0x2000, 0},
               {"/venv/lib/python3.11/site-packages/lxml/etree.so", "", 0x2000, 0x3000, 0},
               {"/usr/lib/libz.so.1", "", 0x3000, 0x4000, 0}};
  p.symbols[line] = {{"f", "a.py", 3, false}};
  const auto kind_below = [&p](std::uint64_t address, source_frame symbol) {
    p.stacks = {{}, {0, 0x1100}, {1, script_address("f", "a.py", 3)}, {2, address}};
    if (!symbol.function.empty()) p.symbols[address] = {symbol};
    const auto frames = frames_of(p, 3);
    EXPECT_EQ(frames.back().kind, frame_kind::native) << "what the line is called by does not serve it";
    return frames.front().kind;
  };
  EXPECT_EQ(kind_below(0x1010, {}), frame_kind::interpreter);
  EXPECT_EQ(kind_below(0x1020, {"sum_rows", "", 0, false}), frame_kind::interpreter) << "no lines";
  EXPECT_EQ(kind_below(0x1030, {"sum_rows", "ext.c", 12, false}), frame_kind::native);
  EXPECT_EQ(kind_below(0x2010, {"parse", "etree.c", 9, false}), frame_kind::interpreter);
  EXPECT_EQ(kind_below(0x3010, {"deflateInit2_", "deflate.c", 261, false}), frame_kind::interpreter);
  EXPECT_EQ(kind_below(0x9000, {}), frame_kind::interpreter) << "in no file";
}

TEST(frames, files_of_an_interpreter) {
  for (const char* path : {"/usr/bin/python3.11", "python3", "/lib/libpython3.12.so.1.0", "/lib/libc.so.6",
                           "/usr/lib/python3.11/lib-dynload/_json.so"})
    EXPECT_TRUE(is_interpreter(path)) << path;
  for (const char* path : {"", "/opt/python3/bin/app", "/lib/libcrypto.so.3", "/site-packages/numpy/core.so"})
    EXPECT_FALSE(is_interpreter(path)) << path;
}

TEST(frames, a_module_holds_its_start_and_not_its_end) {
  profile p;
  p.modules = {{"/lib/a.so", "", 0x1000, 0x2000, 0x300}};
  EXPECT_EQ(module_at(p, 0xfff), nullptr);
  EXPECT_EQ(module_at(p, 0x1000), &p.modules[0]);
  EXPECT_EQ(module_at(p, 0x2000), nullptr);
  // A return address belongs to the instruction before it.
  EXPECT_EQ(unknown_function(p, 0x2000), "?? (a.so+0x1300)");
  EXPECT_EQ(unknown_function(p, 0x1000), "?? (0x1000)");
  EXPECT_EQ(unknown_function(p, ~std::uint64_t{0}), "?? (0xffffffffffffffff)");
}

TEST(frames, inlined_ones_and_unknown_ones) {
  profile p;
  p.stacks = {{}, {0, 0x1010}, {1, 0x2020}, {2, 0x9999}};
  p.modules = {{"/lib/old.so", "", 0x2000, 0x3000, 0}, {"/lib/lib x.so", "", 0x2000, 0x3000, 0x500}};
  p.symbols[0x1010] = {{"inner", "a.cpp", 3, true}, {"outer", "b.cpp", 4, false}};
  EXPECT_TRUE(frames_of(p, 0).empty());
  EXPECT_TRUE(frames_of(p, 1000).empty());
  const auto frames = frames_of(p, 3);
  ASSERT_EQ(frames.size(), 4U);
  EXPECT_EQ(frames[0].function, "?? (0x9999)");
  EXPECT_EQ(frames[1].function, "?? (lib x.so+0x520)");
  EXPECT_EQ(frames[2].function, "inner");
  EXPECT_TRUE(frames[2].inlined);
  EXPECT_EQ(frames[3].function, "outer");
}

}  // namespace
}  // namespace tarn::profiler
