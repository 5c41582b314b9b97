// SPDX-License-Identifier: MIT
// Statistics: equations that hold at all times, JSON, and the report at exit.
#include "observe/statistics.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../../child_status.hpp"
#include "../../system_probes.hpp"
#include "base/units.hpp"
#include "engine/engine.hpp"
#include "os/memory.hpp"
#include "self.hpp"
#include "tarn/malloc.h"

namespace tarn {
namespace {

tarn_stats now() {
  tarn_stats out;
  tarn_get_stats(&out);
  return out;
}

nlohmann::json parsed() {
  char buffer[4096];
  EXPECT_LT(tarn_stats_json(buffer, sizeof buffer), sizeof buffer);
  return nlohmann::json::parse(buffer);
}

void check_equations(const tarn_stats& s) {
  EXPECT_EQ(s.version, 2U);
  EXPECT_EQ(s.reserved, s.in_use + s.free_dirty + s.free_clean);
  EXPECT_GE(s.resident_upper, s.in_use - engine::map.dropped_bytes() + s.free_dirty + s.metadata);
  EXPECT_LE(s.resident_upper, s.reserved + s.metadata);
  EXPECT_LE(s.large + s.cached, s.in_use);
  EXPECT_GE(s.spans_made, s.spans_freed);
}

TEST(statistics, equations_hold_whatever_is_allocated) {
  check_equations(now());
  std::vector<void*> blocks;
  for (std::size_t size = 1; size < 4 * mib; size = size * 5 / 4 + 1) blocks.push_back(tarn_malloc(size));
  check_equations(now());
  for (std::size_t i = 0; i < blocks.size(); i += 2) tarn_free(blocks[i]);
  check_equations(now());
  for (std::size_t i = 1; i < blocks.size(); i += 2) tarn_free(blocks[i]);
  tarn_trim(0);
  check_equations(now());
}

TEST(statistics, parts_are_no_larger_than_the_whole) {
  // As if another thread had taken a block after the page heap was asked.
  engine::large_bytes.fetch_add(gib);
  const tarn_stats s = now();
  engine::large_bytes.fetch_sub(gib);
  EXPECT_LE(s.large, s.in_use);
  EXPECT_LE(s.cached, s.in_use - s.large);
}

// Runs in a process of its own, so that all blocks lie in one reservation and no other test has memory in use.
TEST(statistics_bound, in_a_process_of_its_own) {
  if (!testing_support::is_child()) return;
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  std::uintptr_t start = 0;
  for (int i = 0; i < 6000; ++i) {
    auto* const block = static_cast<char*>(tarn_malloc(1000));
    std::memset(block, 1, 1000);
    if (start == 0) start = align_down(address_of(block), huge_page_size);
    if (i % 10 != 0) continue;
    const tarn_stats s = now();
    std::vector<unsigned char> pages(s.reserved / os::system_page_size());
    ASSERT_EQ(mincore(reinterpret_cast<void*>(start), s.reserved, pages.data()), 0);
    const auto backed = std::count_if(pages.begin(), pages.end(), [](auto c) { return (c & 1) != 0; });
    ASSERT_LE(static_cast<std::size_t>(backed) * os::system_page_size(), s.resident_upper - s.metadata) << i;
  }
}

TEST(statistics, resident_upper_is_an_upper_bound) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const auto result = testing_support::run_test("", "statistics_bound.in_a_process_of_its_own");
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(statistics, large_blocks_are_counted_to_the_byte) {
  const std::uint64_t before = now().large;
  // If the system's huge pages are `always`, a block begins a page before a huge page, and that page counts too.
  const auto holds = [before](std::uint64_t bytes) {
    const std::uint64_t counted = now().large - before;
    EXPECT_TRUE(counted == bytes || counted == bytes + page_size) << counted << " for " << bytes;
  };
  void* block = tarn_malloc(5 * mib);
  holds(5 * mib);
  block = tarn_realloc(block, 9 * mib);
  holds(9 * mib);
  block = tarn_realloc(block, 2 * mib);
  holds(2 * mib);
  block = tarn_realloc(block, 100);
  EXPECT_EQ(now().large, before);
  tarn_free(block);
}

TEST(statistics, free_objects_are_cached_until_trimmed) {
  tarn_trim(0);
  const std::uint64_t before = now().cached;
  std::vector<void*> blocks(2000);
  for (void*& block : blocks) block = tarn_malloc(64);
  for (void* block : blocks) tarn_free(block);
  EXPECT_GT(now().cached, before);
  tarn_trim(0);
  EXPECT_EQ(now().cached, 0U);
  EXPECT_EQ(now().free_dirty, 0U);
}

TEST(statistics, a_threads_free_objects_count) {
  tarn_trim(0);
  std::thread([] {
    const std::uint64_t threads = now().threads;
    // Several times, because a size that was used once is not cached.
    for (int i = 0; i < 10; ++i) tarn_free(tarn_malloc(1000));
    EXPECT_EQ(now().threads, threads + 1);
    EXPECT_GE(now().cached, 1000U);
  }).join();
}

TEST(statistics, as_json_they_are_the_same_figures) {
  tarn_free(tarn_malloc(10));
  const nlohmann::json json = parsed();
  const tarn_stats s = now();
  EXPECT_EQ(json.size(), 23U);
  EXPECT_LE(json["free_in_spans"], json["in_use"]);
  EXPECT_LE(json["processor_cached"], json["cached"]);
  EXPECT_EQ(json["processor_threads"], 0);
  EXPECT_EQ(json["version"], s.version);
  EXPECT_EQ(json["reserved"], s.reserved);
  EXPECT_EQ(json["in_use"], s.in_use);
  EXPECT_EQ(json["cached"], s.cached);
  EXPECT_EQ(json["metadata"], s.metadata);
  EXPECT_EQ(json["threads"], s.threads);
  EXPECT_EQ(json["refills"], s.refills);
  EXPECT_EQ(json["spans_made"], s.spans_made);
}

TEST(statistics, as_json_cut_to_the_buffer_like_snprintf) {
  char whole[4096];
  const std::size_t length = tarn_stats_json(whole, sizeof whole);
  EXPECT_EQ(std::string(whole).size(), length);
  char part[20] = {};
  part[15] = '#';
  EXPECT_GT(tarn_stats_json(part, 15), 15U);
  EXPECT_EQ(std::string(part), std::string(whole).substr(0, 14));
  EXPECT_EQ(part[15], '#');
  EXPECT_GT(tarn_stats_json(nullptr, 0), 100U);
}

TEST(statistics_child, allocates) {
  if (testing_support::is_child()) tarn_free(tarn_malloc(3 * mib));
}

TEST(statistics, are_appended_to_a_file_at_exit) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const std::string path = testing::TempDir() + "tarn_statistics_" + std::to_string(getpid());
  for (int i = 0; i < 2; ++i) {
    const auto result = testing_support::run_test("TARN_STATS='" + path + "'", "statistics_child.*");
    ASSERT_EQ(result.status, 0) << result.output;
  }
  std::ifstream file(path);
  std::string line;
  int lines = 0;
  while (std::getline(file, line)) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_GT(json["pid"].get<long>(), 0);
    EXPECT_EQ(json["program"].get<std::string>(), testing_support::own_path());
    EXPECT_GE(json["reserved"].get<std::size_t>(), 3 * mib);
    ++lines;
  }
  // One line per child; the shell that starts a child does not use tarn.
  EXPECT_EQ(lines, 2);
  unlink(path.c_str());
}

// A program that closes its standard streams at exit, as coreutils do.
TEST(statistics_closing_child, closes_its_standard_streams_at_exit) {
  if (!testing_support::is_child()) return;
  tarn_free(tarn_malloc(3 * mib));
  // A forked child has no duplicate of standard error (descriptor 500).
  EXPECT_EQ(testing_support::child_status([] { return fcntl(500, F_GETFD) == -1 ? 0 : 1; }), 0);
  std::atexit([] {
    std::fclose(stdout);
    std::fclose(stderr);
  });
}

TEST(statistics, reach_standard_error_that_is_closed_at_exit) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const auto result = testing_support::run_test("TARN_STATS=stderr", "statistics_closing_child.*");
  EXPECT_EQ(result.status, 0) << result.output;
  const std::size_t begin = result.output.find("{\"version\": ");
  ASSERT_NE(begin, std::string::npos) << result.output;
  EXPECT_GE(nlohmann::json::parse(result.output.substr(begin))["reserved"].get<std::size_t>(), 3 * mib);
  const auto other = testing_support::run_test("TARN_STATS=off", "statistics_closing_child.*");
  EXPECT_EQ(other.output.find("version"), std::string::npos) << other.output;
}

TEST(statistics, a_file_that_cannot_be_written_is_reported) {
  if (!system_probes::own_program_can_be_executed()) GTEST_SKIP() << system_probes::no_execution;
  const auto result = testing_support::run_test("TARN_STATS=/no/such/folder/x", "statistics_child.*");
  EXPECT_NE(result.output.find("tarn: cannot write statistics to /no/such/folder/x (TARN_STATS)\n"),
            std::string::npos)
      << result.output;
}

}  // namespace
}  // namespace tarn
