// SPDX-License-Identifier: MIT
// debug_index: the functions of this program's own code, by its debugging information; and addresses without any.
#include "profiler/analyze/debug_index.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <string>

namespace tarn::profiler {
namespace debug_index_sample {

// Where the code of the innermost function is.
[[gnu::always_inline]] inline const void* innermost() {
  const void* place = nullptr;
#if defined(__x86_64__)
  asm volatile("lea 0(%%rip), %0" : "=r"(place));
#elif defined(__aarch64__)
  asm volatile("adr %0, ." : "=r"(place));
#endif
  return place;
}
[[gnu::always_inline]] inline const void* between() { return innermost(); }
constexpr unsigned line_of_call = __LINE__ + 1;
[[gnu::noinline]] const void* outer() { return between(); }

// A function of a class within a function, which is found by a deeper search.
[[gnu::noinline]] const void* of_a_local_class() {
  struct local {
    [[gnu::noinline]] static const void* place() {
      const void* const found = innermost();
      asm volatile("" ::: "memory");
      return found;
    }
  };
  return local::place();
}

}  // namespace debug_index_sample

namespace {

using namespace debug_index_sample;

std::uint64_t load_address() {
  std::uint64_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* module, std::size_t, void* data) {
        *static_cast<std::uint64_t*>(data) = module->dlpi_addr;
        return 1;  // the program is the first
      },
      &address);
  return address;
}

class debug_index_test : public testing::Test {
 protected:
  void SetUp() override {
    if (debug_ == nullptr) GTEST_SKIP() << "this program has no debugging information";
  }
  ~debug_index_test() override {
    dwarf_end(debug_);
    close(file_);
  }
  static std::uint64_t in_file(const void* code) {
    return reinterpret_cast<std::uint64_t>(code) - load_address();
  }

  int file_ = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  Dwarf* debug_ = dwarf_begin(file_, DWARF_C_READ);
  debug_index index_{debug_};
};

bool is_here(const source_frame& frame) { return frame.file.ends_with("debug_index_test.cpp"); }
bool is_named(const std::string& name, const char* function) {
  return name.find(std::string("debug_index_sample::") + function) != std::string::npos;
}

TEST_F(debug_index_test, inlined_functions_come_innermost_first_with_the_lines_of_their_calls) {
  const std::vector<source_frame> frames = index_.frames_at(in_file(outer()));
  ASSERT_EQ(frames.size(), 3U);
  const char* const names[] = {"innermost", "between", "outer"};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(is_named(frames[i].function, names[i])) << frames[i].function;
    EXPECT_TRUE(is_here(frames[i])) << frames[i].file;
    EXPECT_EQ(frames[i].inlined, i != 2) << i;
  }
  EXPECT_LT(frames[0].line, line_of_call - 1);
  EXPECT_EQ(frames[1].line, line_of_call - 2);
  EXPECT_EQ(frames[2].line, line_of_call);
}

TEST_F(debug_index_test, a_function_of_a_class_within_a_function_is_found) {
  const std::uint64_t inside = in_file(of_a_local_class());
  for (int round = 0; round < 2; ++round) {
    const std::vector<source_frame> frames = index_.frames_at(inside);
    ASSERT_EQ(frames.size(), 2U);
    EXPECT_TRUE(frames[1].function.ends_with("place")) << frames[1].function;  // -g1 knows no classes
    ASSERT_EQ(index_.frames_at(in_file(outer())).size(), 3U) << "others are found after the deeper search";
  }
}

TEST_F(debug_index_test, what_is_inlined_between_two_addresses_is_listed_outer_ones_first) {
  const auto begin = in_file(reinterpret_cast<const void*>(&outer));
  const std::uint64_t end = in_file(outer()) + 1;
  const auto found = index_.inlined_between(begin, end);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(is_named(found[0].second, "between")) << found[0].second;
  EXPECT_TRUE(is_named(found[1].second, "innermost")) << found[1].second;
  EXPECT_TRUE(begin <= found[0].first && found[0].first <= found[1].first && found[1].first < end);
  EXPECT_TRUE(index_.inlined_between(begin, begin).empty());
  EXPECT_TRUE(index_.inlined_between(end, begin).empty());
}

TEST_F(debug_index_test, addresses_of_no_function_have_no_frames) {
  int local = 0;
  for (const std::uint64_t address :
       {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}, in_file(&local)}) {
    EXPECT_TRUE(index_.frames_at(address).empty()) << address;
    EXPECT_TRUE(index_.inlined_between(address, ~std::uint64_t{0}).empty()) << address;
  }
}

TEST(debug_index, without_debugging_information_nothing_is_found) {
  debug_index index(nullptr);
  EXPECT_TRUE(index.frames_at(4096).empty());
  EXPECT_TRUE(index.inlined_between(0, 4096).empty());
}

}  // namespace
}  // namespace tarn::profiler
