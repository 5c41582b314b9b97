// SPDX-License-Identifier: MIT
// module_names: which numbers libraries get, and what the collector gets of them.
#include "profiler/record/module_names.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace tarn::profiler {
namespace {

using unwind::loaded_module;

struct reports final : module_sink {
  void add(std::string_view text, std::uintptr_t base, std::uintptr_t start, std::uintptr_t) override {
    texts.emplace_back(text);
    starts.push_back(start);
    bases.push_back(base);
  }
  std::vector<std::string> texts;
  std::vector<std::uintptr_t> starts, bases;
};

// Each test has addresses of its own, as the list of libraries is the process's.
loaded_module library(const char* path, std::uintptr_t start, std::uintptr_t end) {
  loaded_module made;
  made.path = path;
  made.start = made.base = start;
  made.end = end;
  return made;
}

struct recording {
  std::unique_ptr<reported_modules> reported = std::make_unique<reported_modules>();
  recent_modules recent = {};
  reports reports_;

  std::uintptr_t number(const loaded_module& module) {
    return number_of(module, recent, *reported, reports_);
  }
};

TEST(module_names, a_library_gets_a_number_where_another_one_was) {
  recording one;
  const loaded_module first = library("/first.so", 0x70001000, 0x70009000);
  const loaded_module other = library("/other.so", 0x70003000, 0x7000b000);
  const loaded_module beside = library("/beside.so", 0x7000b000, 0x7000c000);
  EXPECT_EQ(one.number(first), 0U);
  EXPECT_EQ(one.number(beside), 0U);
  const bool before = any_numbered();
  one.recent.forget();  // as after dlclose
  const std::uintptr_t number = one.number(other);
  EXPECT_NE(number, 0U);
  EXPECT_EQ(number & 0x8000ffffffffffff, 0U) << "above all addresses, and no script_address";
  EXPECT_TRUE(any_numbered() || before);
  one.recent.forget();
  EXPECT_EQ(one.number(first), 0U) << "the same library again";
  one.recent.forget();
  EXPECT_EQ(one.number(other), number);
  EXPECT_EQ(one.reports_.starts, (std::vector<std::uintptr_t>{0x70001000, 0x7000b000, 0x70003000 + number}));
  EXPECT_EQ(one.reports_.bases, one.reports_.starts);
}

TEST(module_names, each_recording_is_told_anew) {
  const loaded_module module = library("/again.so", 0x71001000, 0x71009000);
  recording first;
  recording second;
  for (recording* one : {&first, &second}) {
    for (int times = 0; times < 2; ++times) one->number(module);
    EXPECT_EQ(one->reports_.texts, (std::vector<std::string>{std::string("/again.so") + '\0'}));
    one->reported->forget();
    one->recent.forget();
    one->number(module);
    EXPECT_EQ(one->reports_.texts.size(), 2U);
  }
}

TEST(module_names, what_is_told_comes_from_memory) {
  loaded_module own;
  ASSERT_TRUE(unwind::find_module(reinterpret_cast<std::uintptr_t>(&library), own));
  own.path = "a/relative/path";
  recording one;
  one.number(own);
  ASSERT_EQ(one.reports_.texts.size(), 1U);
  const std::string& text = one.reports_.texts[0];
  const std::size_t end = text.find('\0');
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(text.substr(0, end), std::filesystem::read_symlink("/proc/self/exe").string());
  EXPECT_TRUE(text.size() - end - 1 == 20 || text.size() - end - 1 == 0)
      << "linkers' usual build-id, or none";
}

}  // namespace
}  // namespace tarn::profiler
