// SPDX-License-Identifier: MIT
// Symbols of this program and of libc, as the dynamic linker finds them.
#include "profiler/record/exported_symbol.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

extern "C" {
int exported_by_these_tests = 0;
}

namespace tarn::profiler {
namespace {

const link_map& module_of(const void* address) {
  Dl_info about;
  link_map* map = nullptr;
  EXPECT_NE(dladdr1(address, &about, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP), 0);
  return *map;
}
const link_map& program() { return module_of(&exported_by_these_tests); }
const link_map& libc() { return module_of(dlsym(RTLD_NEXT, "getppid")); }

TEST(exported_symbol, is_where_the_dynamic_linker_finds_it) {
  EXPECT_EQ(exported_symbol(program(), "exported_by_these_tests"),
            reinterpret_cast<std::uintptr_t>(&exported_by_these_tests));
  for (const char* name : {"getppid", "malloc", "environ"})
    EXPECT_EQ(exported_symbol(libc(), name), reinterpret_cast<std::uintptr_t>(dlsym(RTLD_NEXT, name)))
        << name;
}

TEST(exported_symbol, what_a_module_does_not_define_is_0) {
  EXPECT_EQ(exported_symbol(libc(), "no_such_function_of_libc"), 0U);
  EXPECT_EQ(exported_symbol(libc(), ""), 0U);
  EXPECT_EQ(exported_symbol(program(), "getppid"), 0U) << "imported alone";
  EXPECT_EQ(exported_symbol(link_map(), "getppid"), 0U) << "a module without a dynamic section";
}

}  // namespace
}  // namespace tarn::profiler
