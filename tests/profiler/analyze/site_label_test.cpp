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

TEST(site_label, allocators_and_wrappers_are_plumbing) {
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

TEST(site_label, the_own_frame_is_the_innermost_that_is_not_plumbing) {
  EXPECT_EQ(own_frame({own}), 0U);
  EXPECT_EQ(own_frame({std_allocate, wrapper, own}), 2U);
  EXPECT_EQ(own_frame({wrapper, std_allocate}), 0U) << "all frames are plumbing";
}

TEST(site_label, a_scripts_own_line_stands_for_what_its_interpreter_allocates) {
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

TEST(site_label, the_library_of_a_language_serves_its_own_functions_compiled_at_run_time) {
  const auto script = [](const char* function, const char* file) {
    return source_frame{function, file, 0, false, frame_kind::script};
  };
  for (const char* name :
       {"void java.util.ArrayList.add(java.lang.Object)", "Builtin:ArrayMap", "RegExp:a+", "Interpreter",
        "class System.String [System.Private.CoreLib] System.String::Concat(string)"})
    EXPECT_TRUE(is_plumbing(script(name, ""))) << name;
  EXPECT_TRUE(is_plumbing(script("readFileSync", "node:fs")));
  for (const char* name : {"void Rows.add(java.lang.Object)", "java.util.List com.my.Rows.load(int)",
                           "int32 [app] Program::Main(string[])", "java", ""})
    EXPECT_FALSE(is_plumbing(script(name, ""))) << name;
  EXPECT_FALSE(is_plumbing(script("load", "/srv/app.js")));
}

TEST(site_label, code_without_names_counts_like_code_with_names) {
  EXPECT_EQ(own_frame({unknown_library, own}), 0U) << "with its name, it would stand for itself, too";
  EXPECT_EQ(own_frame({wrapper, unknown_library, std_allocate}), 1U) << "preferred to the wrapper";
  EXPECT_EQ(own_frame({unknown_program, own}), 0U);
  const source_frame nowhere{"?? (0x7ffe19e4b9d4)", "", 0, false};
  EXPECT_EQ(own_frame({wrapper, nowhere}), 0U) << "an address in no file says less than the wrapper";
  EXPECT_EQ(own_frame({nowhere, own}), 1U);
}

TEST(site_label, code_without_names_is_one_place_for_each_file) {
  EXPECT_EQ(label_of({unknown_library, own}).function, "?? (libx.so.6)");
  EXPECT_EQ(label_of({own, unknown_library}).function, "decoder::decode(int)");
  EXPECT_EQ(label_of({}).function, "[no call path]");
  EXPECT_EQ(label_of({{"?? (0x7ffe19e4b9d4)", "", 0, false}}).function, "?? (0x7ffe19e4b9d4)");
}

TEST(site_label, the_programs_own_main_is_no_library) {
  const source_frame start{"__libc_start_call_main", "libc_start_call_main.h", 58, false,
                           frame_kind::runtime};
  const source_frame main_by_header{"main", "/usr/include/c++/12/bits/new_allocator.h", 137, false};
  EXPECT_EQ(own_frame({std_allocate, main_by_header, start}), 1U);
  EXPECT_EQ(own_frame({std_allocate, start}), 0U) << "not the start of the program";
}

TEST(site_label, run_time_libraries_allocate_for_their_callers) {
  const source_frame buffer{"_IO_doallocbuf", "", 0, false, frame_kind::runtime};
  const source_frame nameless{"?? (libc.so.6+0x12)", "", 0, false, frame_kind::runtime};
  EXPECT_EQ(own_frame({nameless, buffer, own}), 2U);
  EXPECT_EQ(own_frame({buffer, nameless}), 1U) << "code without a name, as the call path is no one's";
  EXPECT_TRUE(is_plumbing({"__cxa_allocate_exception", "", 0, false}));
}

TEST(site_label, libraries_in_headers_are_known_by_their_files_and_names) {
  for (const char* file :
       {"/usr/include/c++/12/bits/stl_vector.h", "/usr/lib/llvm-16/include/c++/v1/string",
        "/usr/include/boost/container/vector.hpp", "/rustc/59807616e/library/alloc/src/vec/mod.rs",
        "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/core/src/iter.rs",
        "/rust/deps/hashbrown-0.15.4/src/raw/mod.rs"})
    EXPECT_TRUE(is_plumbing({"push_back", file, 1, true})) << file;
  for (const char* file : {"/home/me/library/src/mod.rs", "/src/rustc/a.rs", "include/boosted.hpp"})
    EXPECT_FALSE(is_plumbing({"push_back", file, 1, true})) << file;
  EXPECT_TRUE(is_plumbing({"boost::container::vector<int>::reserve(unsigned long)", "", 0, false}));
}

TEST(site_label, the_standard_library_of_rust_is_a_library) {
  for (const char* name :
       {"<alloc::vec::Vec<my::row> as core::iter::FromIterator<my::row>>::from_iter",
        "alloc::raw_vec::finish_grow", "core::ops::function::FnOnce::call_once",
        "<alloc::raw_vec::RawVec<u8>>::grow_one", "__rustc::__rust_alloc_zeroed",
        "<[u8] as alloc::slice::Join>::join", "<&mut core::iter::Map<A, B> as my::Trait>::next"})
    EXPECT_TRUE(is_plumbing({name, "", 0, false})) << name;
  for (const char* name : {"my::load", "<my::row as core::clone::Clone>::clone", "<[u8] as my::Trait>::run",
                           "<my::list<alloc::vec::Vec<u8>>>::add", "core::engine::run(int)"})
    EXPECT_FALSE(is_plumbing({name, "", 0, false})) << name;
  EXPECT_FALSE(is_plumbing({"core::run", "/src/core/run.cpp", 3, false})) << "a namespace of C++";
}

}  // namespace
}  // namespace tarn::profiler
