// SPDX-License-Identifier: MIT
// Ten hours of a service in time-lapse: its samples, readings and checkpoints at the times at which a recording in mode sample
// makes them. The service has two lasting threads and one that ends each second, makes 17,000 allocations a second, of
// which 10 are sampled, and keeps some thousand blocks.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>

#include "../../folder_test.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/collect/profile_file.hpp"
#include "profiler/collect/timeline.hpp"

namespace tarn::profiler {
namespace {

constexpr std::uint64_t one_second = 1'000'000'000;
constexpr std::uint64_t one_hour = 3600 * one_second;
constexpr std::uint64_t samples_each_second = 10;
constexpr std::size_t most_living = 5000;

// Without what malloc keeps of other tests.
double resident_bytes_of_this() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  double all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

model_settings sampled() { return {.full = false, .sample_bytes = 512 << 10, .join_faults = true}; }

class service {
 public:
  explicit service(std::size_t paths) : model_(sampled()) {
    std::vector<std::uint32_t> nodes = {0};
    // Each path shares its beginning with others.
    while (nodes_.size() < paths) {
      std::uint32_t node = nodes[random_() % nodes.size()];
      for (int depth = 0; depth < 4; ++depth) {
        node = model_.node(node, 0x400000 + (random_() & 0xfffffff));
        nodes.push_back(node);
      }
      nodes_.push_back(node);
    }
    for (std::uint32_t thread = 0; thread < 3; ++thread)
      threads_[thread] = model_.begin_thread(thread + 1, 1);
    p_.modules.assign(
        100, {"/usr/lib/x86_64-linux-gnu/libsomething.so.1", "0123456789abcdef0123", 0x400000, 0x500000, 0});
  }

  void run_for_a_second() {
    model_.end_thread(threads_[2], now_);
    threads_[2] = model_.begin_thread(next_thread_++, now_);
    for (std::uint64_t sample = 0; sample < samples_each_second; ++sample) {
      now_ += one_second / samples_each_second;
      std::uint64_t address = 0x7f0000000000 + 4096 * living_.size();
      if (living_.size() == most_living) {
        address = living_[random_() % most_living];
        release_event event{.time_ns = now_, .address = address};
        model_.freed(threads_[random_() % 3], event);
      } else {
        living_.push_back(address);
      }
      allocation_event event;
      event.time_ns = now_;
      event.address = address;
      event.size = 16 + random_() % 600;
      event.node = nodes_[random_() % nodes_.size()];
      model_.allocated(threads_[random_() % 3], event);
    }
    while (next_reading_ <= now_) read();
  }

  const profile& filled() {
    model_.fill(p_);
    p_.meta = {{"program", "/usr/bin/service"}, {"duration_ns", now_}};
    return p_;
  }
  [[nodiscard]] std::uint64_t now() const { return now_; }
  [[nodiscard]] std::size_t readings() const { return p_.counters.size(); }

 private:
  void read() {
    counter_row row;
    row.time_ns = next_reading_;
    row.resident_bytes = 1e8 + static_cast<double>(random_() % 10'000'000);
    row.live_bytes = model_.live_bytes();
    row.allocations = model_.allocations();
    row.user_ns = static_cast<double>(next_reading_) / 3;
    looks_.add(p_.counters, row);
    next_reading_ += looks_.interval_ns();
  }

  std::mt19937_64 random_{1};
  process_model model_;
  timeline looks_;
  profile p_;
  std::vector<std::uint32_t> nodes_;
  std::vector<std::uint64_t> living_;  // addresses
  std::uint32_t threads_[3] = {};
  std::uint32_t next_thread_ = 10;
  std::uint64_t now_ = 1;
  std::uint64_t next_reading_ = 1;
};

class ten_hours : public testing_support::folder_test,
                  public testing::WithParamInterface<std::pair<std::size_t, std::uint64_t>> {};

// The parameters: call paths, and seconds between checkpoints, of which those of many paths take long in a build without
// optimisation. What a file may hold of earlier checkpoints does not depend on their number.
TEST_P(ten_hours, of_a_service_take_20_megabytes_and_bounded_memory) {
  const auto [paths, checkpoint_seconds] = GetParam();
  const std::string path = folder_ + "/service.prof";
  service program(paths);
  profile_file file(path, table_writer::start::replace, {});
  std::uint64_t longest = 0;
  std::uint64_t after_an_hour = 0;
  double memory_after_an_hour = 0;
  for (std::uint64_t seconds = 1; seconds <= 10 * one_hour / one_second; ++seconds) {
    program.run_for_a_second();
    if (seconds % checkpoint_seconds == 0) file.checkpoint(program.filled());
    longest = std::max(longest, file.bytes());
    if (seconds == 3600) {
      after_an_hour = longest;
      memory_after_an_hour = resident_bytes_of_this();
    }
  }
  // Of many paths most have their first blocks, of all sizes and lifetimes, after the first hour.
  EXPECT_LE(resident_bytes_of_this(), memory_after_an_hour + (paths > 1000 ? 40 << 20 : 8 << 20));
  EXPECT_LE(longest, 20'000'000U);
  if (paths <= 50) {
    EXPECT_LE(longest, 2 * after_an_hour) << "it does not go on growing";
  }
  file.finish(program.filled());
  std::cout << paths << " call paths: at most " << longest << " bytes, " << std::filesystem::file_size(path)
            << " at the end\n";
  const profile back = load_profile(path);
  EXPECT_EQ(back.damage, "");
  EXPECT_EQ(back.meta["duration_ns"], program.now());
  EXPECT_EQ(back.sites.size(), paths);
  EXPECT_EQ(back.counters.size(), program.readings());
  EXPECT_LE(back.threads.size(), 1024U);
}

INSTANTIATE_TEST_SUITE_P(ten_hours, ten_hours,
                         testing::Values(std::pair{50, 30}, std::pair{1000, 300}, std::pair{10'000, 1800}),
                         [](const auto& one) { return std::to_string(one.param.first) + "_paths"; });

}  // namespace
}  // namespace tarn::profiler
