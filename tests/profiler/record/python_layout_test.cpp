// SPDX-License-Identifier: MIT
// The interpreter of CPython that a module contains. This program has the symbols of one.
#include "profiler/record/python_layout.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstring>

// Found by name, as the program exports them.
extern "C" {
std::uint32_t Py_Version = 0;       // NOLINT(readability-identifier-naming)
std::uint64_t _PyRuntime[80] = {};  // NOLINT(readability-identifier-naming,bugprone-reserved-identifier)
int PyCode_Type = 0;                // NOLINT(readability-identifier-naming)
std::uintptr_t _PyThreadState_UncheckedGet() { return 0; }    // NOLINT
std::uintptr_t PyGILState_GetThisThreadState() { return 0; }  // NOLINT
}

namespace tarn::profiler {
namespace {

const link_map& module_with(const void* address) {
  Dl_info about;
  link_map* map = nullptr;
  EXPECT_NE(dladdr1(address, &about, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP), 0);
  return *map;
}

bool find(std::uint32_t version, python_layout& layout) {
  Py_Version = version << 16 | 0x1f0;
  unwind::loaded_module module;
  module.map = &module_with(&Py_Version);
  return find_python_layout(module, layout);
}

TEST(python_layout, a_module_without_an_interpreter_has_none) {
  python_layout layout;
  unwind::loaded_module module;
  EXPECT_FALSE(find_python_layout(module, layout));
  module.map = &module_with(dlsym(RTLD_NEXT, "getppid"));
  EXPECT_FALSE(find_python_layout(module, layout));
}

TEST(python_layout, of_known_versions) {
  python_layout layout;
  ASSERT_TRUE(find(0x030b, layout));
  EXPECT_EQ(layout.version, 0x030bU);
  EXPECT_TRUE(layout.has_parts());
  EXPECT_EQ(layout.frame_owner, 69U);
  EXPECT_EQ(layout.code_file, 112U);
  ASSERT_TRUE(find(0x030c, layout));
  EXPECT_EQ(layout.frame_owner, 70U);
  EXPECT_EQ(layout.code_type, reinterpret_cast<std::uintptr_t>(&PyCode_Type));
  EXPECT_EQ(layout.attached_state, &_PyThreadState_UncheckedGet);
  for (const std::uint32_t version : {0x0309U, 0x030aU, 0x030eU, 0x0400U})
    EXPECT_FALSE(find(version, layout));
}

TEST(python_layout, version_3_13_publishes_its_own) {
  std::memcpy(_PyRuntime, "xdebugpy", 8);
  for (std::size_t index = 1; index < 80; ++index) _PyRuntime[index] = 1000 + index;
  _PyRuntime[1] = 0x030d01f0;
  python_layout layout;
  ASSERT_TRUE(find(0x030d, layout));
  EXPECT_FALSE(layout.has_parts());
  EXPECT_EQ(layout.thread_frame, 1023U);
  EXPECT_EQ(layout.frame_owner, 1033U);
  EXPECT_EQ(layout.code_bytes, 1043U);
  EXPECT_EQ(layout.text_begin, 1070U + 16);
  _PyRuntime[1] = 0x030e01f0;
  EXPECT_FALSE(find(0x030d, layout)) << "the table is of another version";
  _PyRuntime[1] = 0x030d01f0;
  std::memcpy(_PyRuntime, "ydebugpx", 8);
  EXPECT_FALSE(find(0x030d, layout)) << "no table is there";
}

}  // namespace
}  // namespace tarn::profiler
