// SPDX-License-Identifier: MIT
// malloc_code: which addresses are malloc's, from a library's exported functions, and in this process.
#include "profiler/collect/malloc_code.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace tarn::profiler {
namespace {

bool holds(const std::vector<code_range>& ranges, std::uint64_t address) {
  for (const code_range& range : ranges) {
    if (range.holds(address)) return true;
  }
  return false;
}

TEST(malloc_code, local_functions_beside_malloc_are_malloc_s) {
  // By address: fopen, malloc's local functions, malloc and free, other functions, and reallocarray between those.
  const std::vector<code_range> ranges = malloc_ranges({{0x9000, 0x100, "fopen"},
                                                        {0xb000, 0x100, "malloc"},
                                                        {0xb000, 0x100, "__libc_malloc"},
                                                        {0xb400, 0x80, "free"},
                                                        {0xc000, 0x40, "obstack_free"},
                                                        {0xd000, 0x40, "printf"},
                                                        {0xd040, 0x20, "reallocarray"},
                                                        {0xd060, 0x20, "puts"}});
  for (const std::uint64_t address :
       {0x9100, 0xaffe, 0xb000, 0xb0ff, 0xb100, 0xb3ff, 0xb47f, 0xb480, 0xd040, 0xd05f})
    EXPECT_TRUE(holds(ranges, address)) << std::hex << address;
  for (const std::uint64_t address : {0x9000, 0x90ff, 0xc000, 0xc041, 0xd000, 0xd03f, 0xd060})
    EXPECT_FALSE(holds(ranges, address)) << std::hex << address;
}

TEST(malloc_code, a_long_stretch_without_exported_functions_is_not_malloc_s) {
  const std::vector<code_range> ranges =
      malloc_ranges({{0x1000, 0x10, "main"}, {0x100000, 0x100, "malloc"}, {0x200000, 0x10, "end"}});
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges[0].start, 0x100000U);
  EXPECT_EQ(ranges[0].end, 0x100100U);
}

TEST(malloc_code, a_library_without_malloc_has_none) {
  EXPECT_TRUE(malloc_ranges({{0x1000, 0x10, "main"}, {0x1010, 0x10, "my_malloc"}}).empty());
  EXPECT_TRUE(malloc_ranges({}).empty());
}

std::uint64_t address_of(const char* name) {
  return reinterpret_cast<std::uint64_t>(dlsym(RTLD_DEFAULT, name));
}

TEST(malloc_code, of_this_process) {
  Dl_info allocator = {};
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &allocator), 0);
  if (std::strstr(allocator.dli_fname, "libc.") == nullptr) GTEST_SKIP() << "malloc is not libc's";
  const std::uint64_t malloc_at = address_of("malloc");
  malloc_code_reader reader;
  const malloc_code code = reader.read(static_cast<std::uint32_t>(getpid()), {malloc_at, malloc_at + 1});
  ASSERT_FALSE(code.empty());
  for (const char* name :
       {"malloc", "free", "calloc", "realloc", "posix_memalign", "aligned_alloc", "_Znwm", "_ZdlPv"})
    EXPECT_TRUE(code.holds(address_of(name), 0)) << name;
  for (const char* name : {"printf", "qsort", "fopen", "strtol"})
    EXPECT_FALSE(code.holds(address_of(name), 0)) << name;
  // A leaf of libc that malloc has called (strtol stands for memset) is malloc's. Code of the program is not, even if
  // the word at its stack pointer is an address within malloc.
  EXPECT_TRUE(code.holds(address_of("strtol"), address_of("calloc") + 16));
  EXPECT_FALSE(code.holds(reinterpret_cast<std::uint64_t>(&address_of), address_of("calloc") + 16));
}

TEST(malloc_code, of_a_process_that_is_gone_nothing_is_known) {
  malloc_code_reader reader;
  EXPECT_TRUE(reader.read(0x7fffffff, {0x1000, 0x2000}).empty());
}

// Maps a page of code of a file that is deleted at once, as an update of a library does to running programs.
class deleted_library {
 public:
  explicit deleted_library(const char* name) {
    std::string folder = std::filesystem::temp_directory_path() / "tarn-test-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) return;
    const std::string path = folder + "/" + name;
    std::ofstream(path) << std::string(bytes, 0);
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    memory_ = mmap(nullptr, bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    close(file);
    std::filesystem::remove_all(folder);
  }
  ~deleted_library() { munmap(memory_, bytes); }
  deleted_library(const deleted_library&) = delete;
  deleted_library& operator=(const deleted_library&) = delete;
  bool is_mapped() const { return memory_ != MAP_FAILED; }
  std::uint64_t start() const { return reinterpret_cast<std::uint64_t>(memory_); }

 private:
  static constexpr std::size_t bytes = 4096;
  void* memory_ = MAP_FAILED;
};

TEST(malloc_code, all_code_of_a_deleted_library_that_is_another_malloc_is_malloc_s) {
  const deleted_library other("libother.so");
  if (!other.is_mapped()) GTEST_SKIP() << "no code may be mapped from temporary files";
  malloc_code_reader reader;
  const malloc_code code =
      reader.read(static_cast<std::uint32_t>(getpid()), {other.start(), other.start() + 1});
  EXPECT_TRUE(code.holds(other.start() + 16, 0));
}

// The ranges of operator new and delete are known, but malloc's are not: the result must be empty.
TEST(malloc_code, of_a_deleted_libc_nothing_is_known) {
  const deleted_library libc("libc.so.6");
  if (!libc.is_mapped()) GTEST_SKIP() << "no code may be mapped from temporary files";
  malloc_code_reader reader;
  EXPECT_TRUE(reader.read(static_cast<std::uint32_t>(getpid()), {libc.start(), libc.start() + 1}).empty());
}

// Such a malloc may be anywhere in the program's code.
TEST(malloc_code, of_a_malloc_within_the_program_nothing_is_known) {
  const auto here = reinterpret_cast<std::uint64_t>(&address_of);
  malloc_code_reader reader;
  EXPECT_TRUE(reader.read(static_cast<std::uint32_t>(getpid()), {here, here + 1}).empty());
}

}  // namespace
}  // namespace tarn::profiler
