// SPDX-License-Identifier: MIT
// Which frame of a call path names its site.
#include "profiler/analyze/site_label.hpp"

#include <gtest/gtest.h>

namespace tarn::profiler {
namespace {

const source_frame std_allocate{"std::__new_allocator<int>::allocate(unsigned long, void const*)", "", 0,
                                true};
const source_frame wrapper{"xmalloc", "wrapper.c", 10, false};
const source_frame own{"decoder::decode(int)", "decoder.cpp", 3, false};
const source_frame unknown_library{"?? (libx.so.6+0x12)", "", 0, false};
const source_frame unknown_program{"?? (server+0x12)", "", 0, false};

TEST(SiteLabel, AllocatorsAndWrappersArePlumbing) {
  EXPECT_TRUE(is_plumbing({"std::__new_allocator<int>::allocate(unsigned long, void const*)", "", 0, true}));
  EXPECT_TRUE(is_plumbing({"xmalloc", "wrapper.c", 10, false}));
  EXPECT_TRUE(is_plumbing({"sqlite3MemMalloc", "", 0, false}));
  for (const char* name : {"sqlite3MallocRaw", "g_realloc_n", "g_malloc0", "ggc_internal_alloc",
                           "my::pool::allocate(int)", "operator new[](unsigned long)", "xstrdup"}) {
    EXPECT_TRUE(is_plumbing({name, "", 0, false})) << name;
  }
  for (const char* name :
       {"allocate_orders(int)", "deallocation_list::add(int)", "localloca::run()", "main"}) {
    EXPECT_FALSE(is_plumbing({name, "", 0, false})) << name;
  }
  EXPECT_FALSE(is_plumbing({"decoder::decode(int)", "decoder.cpp", 3, false}));
  EXPECT_FALSE(is_plumbing({"?? (libx.so+0x12)", "", 0, false}));
}

TEST(SiteLabel, TheOwnFrameIsTheInnermostThatIsNotPlumbing) {
  EXPECT_EQ(own_frame({own}), 0U);
  EXPECT_EQ(own_frame({std_allocate, wrapper, own}), 2U);
  EXPECT_EQ(own_frame({wrapper, std_allocate}), 0U) << "all frames are plumbing";
}

TEST(SiteLabel, AScriptsOwnLineStandsForWhatItsInterpreterAllocates) {
  const source_frame resize{"PyByteArray_Resize", "", 0, false, frame_kind::interpreter};
  const source_frame nameless{"?? (python3.11+0x12)", "", 0, false, frame_kind::interpreter};
  const source_frame library{"loads", "/usr/lib/python3.11/json/__init__.py", 346, false, frame_kind::script};
  const source_frame built_in{"_find_and_load", "<frozen importlib._bootstrap>", 1, false,
                              frame_kind::script};
  const source_frame package{"read", "/x/lib/python3.11/site-packages/p/a.py", 3, false, frame_kind::script};
  const source_frame line{"main", "/home/me/a.py", 3, false, frame_kind::script};
  const source_frame extension{"my_module_sum", "", 0, false};
  EXPECT_EQ(own_frame({resize, nameless, library, built_in, line, nameless}), 4U);
  EXPECT_EQ(own_frame({resize, package, line}), 1U);
  EXPECT_EQ(own_frame({resize, extension, nameless, line}), 1U) << "a named function of an extension module";
}

TEST(SiteLabel, CodeWithoutNamesStandsForItselfInTheProgramOnly) {
  EXPECT_EQ(own_frame({unknown_library, own}), 1U);
  EXPECT_EQ(own_frame({wrapper, unknown_library, std_allocate}), 1U) << "preferred to the wrapper";
  EXPECT_EQ(own_frame({unknown_program, own}), 0U);
}

}  // namespace
}  // namespace tarn::profiler
