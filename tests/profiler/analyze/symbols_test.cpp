// SPDX-License-Identifier: MIT
// Types and symbols of containers.cpp as each installed compiler builds it. The environment variable
// TARN_TEST_CONTAINERS has the programs' paths, separated by colons.
#include <gtest/gtest.h>

#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "profiler/analyze/symbols.hpp"
#include "profiler/model/script_address.hpp"

namespace tarn::profiler {
namespace {

struct wanted_call {
  double count = 0;
  std::string kind;
  std::string what;
};

struct watched_run {
  profile p;
  std::vector<wanted_call> calls;  // one for each site of p, in the same order
};

std::vector<std::string> programs() {
  std::vector<std::string> paths;
  const char* list = std::getenv("TARN_TEST_CONTAINERS");
  std::stringstream all(list == nullptr ? "" : list);
  for (std::string path; std::getline(all, path, ':');) paths.push_back(path);
  return paths;
}

// A line of /proc/self/maps: "start-end rights offset device inode path".
void add_module(profile& p, const std::string& line) {
  unsigned long long start = 0, end = 0, offset = 0;
  char rights[5] = {};
  int path_at = 0;
  if (std::sscanf(line.c_str(), "%llx-%llx %4s %llx %*s %*s %n", &start, &end, rights, &offset, &path_at) < 4)
    return;
  if (rights[2] != 'x' || path_at == 0) return;
  p.modules.push_back({line.substr(static_cast<std::size_t>(path_at)), "", start, end, offset});
}

// The line "PATH address...", innermost first.
std::uint32_t add_path(profile& p, std::stringstream& lines) {
  std::string line;
  std::getline(lines, line);
  EXPECT_TRUE(line.starts_with("PATH "));
  std::stringstream words(line.substr(5));
  std::vector<std::uint64_t> addresses;
  for (std::uint64_t address = 0; words >> std::hex >> address;) addresses.push_back(address);
  std::uint32_t node = 0;
  for (auto address = addresses.rbegin(); address != addresses.rend(); ++address) {
    p.stacks.push_back({node, *address});
    node = static_cast<std::uint32_t>(p.stacks.size() - 1);
  }
  return node;
}

watched_run watch(const std::string& program) {
  watched_run run;
  run.p.meta = {{"program", program}};
  run.p.stacks.emplace_back();
  FILE* output = popen(("'" + program + "'").c_str(), "r");
  if (output == nullptr) return run;
  std::string text;
  char buffer[4096];
  while (const std::size_t size = std::fread(buffer, 1, sizeof buffer, output)) text.append(buffer, size);
  EXPECT_EQ(pclose(output), 0);
  std::stringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("MAP ")) add_module(run.p, line.substr(4));
    if (!line.starts_with("CALL ")) continue;
    wanted_call call;
    std::stringstream words(line.substr(5));
    words >> call.count >> call.kind >> std::ws;
    std::getline(words, call.what);
    site one;
    one.stack = add_path(run.p, lines);
    one.figures.allocations = call.count;
    run.p.sites.push_back(one);
    run.calls.push_back(call);
  }
  return run;
}

struct share {
  double right = 0;
  double all = 0;
  std::string wrong;  // the calls that count as wrong, for a message
};

share right_of(const watched_run& run, const std::string& kind, type_evidence evidence) {
  share result;
  for (std::size_t index = 0; index < run.calls.size(); ++index) {
    const wanted_call& call = run.calls[index];
    if (call.kind != kind) continue;
    const site& one = run.p.sites[index];
    result.all += call.count;
    if (one.evidence == evidence && one.type.find(call.what) != std::string::npos) {
      result.right += call.count;
    } else {
      result.wrong += std::to_string(call.count) + " " + call.what + ": '" + one.type + "' in\n";
      for (const source_frame& frame : frames_of(run.p, one.stack)) {
        result.wrong += "    " + frame.function + " " + frame.file + ":" + std::to_string(frame.line) + "\n";
      }
    }
  }
  EXPECT_GT(result.all, 0) << "no call is of kind " << kind;
  return result;
}

class containers : public testing::TestWithParam<std::string> {};

TEST_P(containers, element_types_are_named) {
  watched_run run = watch(GetParam());
  ASSERT_GT(run.calls.size(), 30U) << "few call paths: were the programs built without -O2?";
  const auto start = std::chrono::steady_clock::now();
  const auto notes = add_symbols(run.p);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(notes.empty()) << notes.front();
  EXPECT_LT(took.count(), 20.0);
  const share named = right_of(run, "container", type_evidence::allocator);
  RecordProperty("share", std::to_string(named.right / named.all));
  std::printf("%s: %.2f %% of %.0f allocations in containers named, %.0f ms\n", GetParam().c_str(),
              100 * named.right / named.all, named.all, 1000 * took.count());
  EXPECT_GE(named.right, 0.95 * named.all) << named.wrong;
  const share unique = right_of(run, "unique", type_evidence::allocator);
  EXPECT_EQ(unique.right, unique.all) << unique.wrong;
  const share constructed = right_of(run, "constructor", type_evidence::constructor);
  EXPECT_EQ(constructed.right, constructed.all) << constructed.wrong;
}

TEST_P(containers, lines_and_inlined_functions) {
  watched_run run = watch(GetParam());
  add_symbols(run.p);
  std::size_t in_source = 0;
  for (const site& one : run.p.sites) {
    const auto frames = frames_of(run.p, one.stack);
    ASSERT_FALSE(frames.empty());
    EXPECT_FALSE(frames.back().inlined);
    for (const source_frame& frame : frames) {
      if (!frame.file.ends_with("containers.cpp")) continue;
      EXPECT_GT(frame.line, 60U) << frame.function;
      ++in_source;
    }
  }
  EXPECT_GT(in_source, run.p.sites.size());
}

INSTANTIATE_TEST_SUITE_P(compilers, containers, testing::ValuesIn(programs()), [](const auto& each) {
  const std::string& path = each.param;
  std::string name = path.substr(path.rfind('/') + 1);
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(containers);

TEST(symbols, a_module_with_another_build_id_is_not_symbolised) {
  if (programs().empty()) GTEST_SKIP() << "no program was compiled";
  watched_run run = watch(programs().front());
  for (module_info& each : run.p.modules) {
    if (each.path == programs().front()) each.build_id = "0123";
  }
  const auto notes = add_symbols(run.p);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_NE(notes[0].find("build-id differs"), std::string::npos);
  EXPECT_EQ(run.p.meta["symbol_notes"].size(), 1U);
  std::size_t unknown = 0;
  for (const site& one : run.p.sites) {
    const std::string name = frames_of(run.p, one.stack).front().function;
    if (name.starts_with("?? (")) ++unknown;
  }
  EXPECT_GT(unknown, run.p.sites.size() / 2);
}

TEST(symbols, modules_that_are_gone_or_are_not_elf_files) {
  profile p;
  p.stacks = {{}, {0, 0x1100}, {1, 0x2100}, {2, 0x3100}, {3, 0x9000}, {4, 0}};
  p.modules = {{"/nowhere/libgone.so", "ab", 0x1000, 0x2000, 0},
               {"/proc/self/maps", "", 0x2000, 0x3000, 0},
               {"[vdso]", "", 0x3000, 0x4000, 0}};
  p.sites.resize(1);
  p.sites[0].stack = 5;
  const auto notes = add_symbols(p);
  ASSERT_EQ(notes.size(), 2U);
  EXPECT_EQ(notes[0],
            "/nowhere/libgone.so: the file does not exist any more, so its functions are shown as offsets");
  EXPECT_EQ(notes[1], "/proc/self/maps: Exec format error, so its functions are shown as offsets");
  EXPECT_TRUE(p.symbols.empty());
  const auto frames = frames_of(p, 5);
  ASSERT_EQ(frames.size(), 5U);
  EXPECT_EQ(frames[4].function, "?? (libgone.so+0x100)");
}

TEST(symbols, lines_of_scripts_are_no_symbols_of_native_code) {
  profile p;
  EXPECT_FALSE(has_native_symbols(p));
  p.symbols[script_address("f", "a.py", 3)] = {{"f", "a.py", 3, false}};
  EXPECT_FALSE(has_native_symbols(p));
  p.symbols[0x1000] = {{"g", "b.cpp", 1, false}};
  EXPECT_TRUE(has_native_symbols(p));
}

TEST(symbols, a_better_type_is_kept) {
  if (programs().empty()) GTEST_SKIP() << "no program was compiled";
  watched_run run = watch(programs().front());
  for (site& one : run.p.sites) {
    one.type = "from the object";
    one.evidence = type_evidence::vtable;
  }
  run.p.sites[0].evidence = type_evidence::allocator;
  add_symbols(run.p);
  EXPECT_GT(right_of(run, "constructor", type_evidence::constructor).right, 0);
  EXPECT_GT(right_of(run, "container", type_evidence::allocator).right, 0);
}

}  // namespace
}  // namespace tarn::profiler
