// SPDX-License-Identifier: MIT
// The modules of a process and their symbols, read from its memory: from this one's own, and from hostile bytes.
#include "profiler/attach/remote_module.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace tarn::profiler {
namespace {

TEST(remote_module, reads_its_own_process) {
  const std::vector<remote_module> modules = modules_of_process(getpid());
  ASSERT_FALSE(modules.empty());
  std::uint64_t address = 0;
  for (const remote_module& one : modules) {
    if (one.path.find("libc.so") != std::string::npos) address = one.address_of("getppid");
  }
  ASSERT_NE(address, 0U);
  EXPECT_EQ(reinterpret_cast<pid_t (*)()>(address)(), getppid());
}

// Without its functions the module of an allocator would not be known as one.
TEST(remote_module, a_library_with_only_the_old_hash_table) {
  void* const library = dlopen(OLD_HASH_LIBRARY, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  std::uint64_t address = 0;
  std::string name;
  std::vector<std::string> needed;
  for (const remote_module& one : modules_of_process(getpid())) {
    if (one.address_of("old_hash_function") == 0) continue;
    address = one.address_of("old_hash_function");
    EXPECT_NE(one.address_of("untyped_function"), 0U);
    name = one.name;
    needed = one.needed;
  }
  EXPECT_EQ(address, reinterpret_cast<std::uint64_t>(dlsym(library, "old_hash_function")));
  EXPECT_EQ(name, "libold_hash.so.1");
  EXPECT_NE(std::find(needed.begin(), needed.end(), "libc.so.6"), needed.end());
  dlclose(library);
}

TEST(remote_module, a_function_that_it_does_not_define_is_0) {
  remote_module module;
  EXPECT_EQ(module.address_of("f"), 0U);
  module.functions = {{"f", 16, 1}, {"f", 32, 1}};
  EXPECT_EQ(module.address_of("f"), 16U);
  EXPECT_EQ(module.address_of(""), 0U);
  module.start = 10;
  module.end = 20;
  EXPECT_TRUE(module.contains(10));
  EXPECT_FALSE(module.contains(20));
}

TEST(remote_module, a_process_that_is_gone_has_none) { EXPECT_TRUE(modules_of_process(0x7ffffffe).empty()); }

TEST(remote_module, memory_is_read_up_to_its_end) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const memory =
      static_cast<char*>(mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::memcpy(memory + page - 4, "last", 4);
  munmap(memory + page, page);
  char bytes[16] = {};
  const auto address = reinterpret_cast<std::uint64_t>(memory) + page - 4;
  EXPECT_EQ(read_memory(getpid(), address, bytes, sizeof bytes), 4U);
  EXPECT_STREQ(bytes, "last");
  EXPECT_EQ(read_memory(getpid(), address + 4, bytes, 1), 0U);
  EXPECT_TRUE(write_memory(getpid(), address, "LAST", 4));
  EXPECT_EQ(std::memcmp(memory + page - 4, "LAST", 4), 0);
  EXPECT_FALSE(write_memory(getpid(), address, "too much", 8));
  munmap(memory, page);
}

}  // namespace
}  // namespace tarn::profiler
