// SPDX-License-Identifier: MIT
// Limits and pressure of memory, read from /proc and /sys files that the tests write.
#include "os/memory_pressure.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "../../folder_test.hpp"
#include "os/memory.hpp"

namespace tarn::os {
namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

// Each test has its own /proc and /sys, in a temporary folder.
class memory_pressure_test : public testing_support::folder_test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = folder_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  void machine(std::uint64_t total_mib, std::uint64_t available_mib) {
    write("/proc/meminfo",
          "MemTotal:       " + std::to_string(total_mib * 1024) +
              " kB\nMemFree:  1 kB\nMemAvailable:   " + std::to_string(available_mib * 1024) + " kB\n");
  }
  void second_version(const std::string& group, const std::string& mounted_root = "/") {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "22 1 0:21 / /proc rw,nosuid shared:12 - proc proc rw\n"
          "30 23 0:26 " +
              mounted_root + " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void group(const std::string& folder, const std::string& most, const std::string& high,
             std::uint64_t current, std::uint64_t idle = 0) {
    write("/sys/fs/cgroup" + folder + "/memory.max", most + "\n");
    write("/sys/fs/cgroup" + folder + "/memory.high", high + "\n");
    write("/sys/fs/cgroup" + folder + "/memory.current", std::to_string(current) + "\n");
    write("/sys/fs/cgroup" + folder + "/memory.stat",
          "anon 1\nfile 2\ninactive_anon 3\ninactive_file " + std::to_string(idle) + "\nactive_file 5\n");
  }
  [[nodiscard]] memory_state look() const { return look_at_memory(folder_.c_str()); }
};

TEST_F(memory_pressure_test, nothing_to_read_is_no_limit) {
  const memory_state state = look();
  EXPECT_EQ(state.limits.limit, unlimited);
  EXPECT_EQ(state.limits.used, 0U);
  EXPECT_EQ(state.group.limit, unlimited);
  EXPECT_FALSE(state.pressed);
}

TEST_F(memory_pressure_test, the_group_with_the_least_room) {
  machine(8192, 6000);
  EXPECT_EQ(look().group.limit, unlimited) << "the machine is no group";
  second_version("/a/b");
  group("/a", std::to_string(512 * mib), "max", 450 * mib);
  group("/a/b", std::to_string(256 * mib), "max", 50 * mib);
  EXPECT_EQ(look().group.limit, 512 * mib);
  EXPECT_EQ(look().group.used, 450 * mib);
  group("/a/b", std::to_string(256 * mib), "max", 300 * mib);
  EXPECT_EQ(look().group.limit, 256 * mib);
}

TEST_F(memory_pressure_test, the_machine) {
  machine(8192, 6000);
  EXPECT_EQ(look().limits.limit, 8192 * mib);
  EXPECT_EQ(look().limits.used, (8192 - 6000) * mib);
  EXPECT_FALSE(look().pressed);
  machine(8192, 500);
  EXPECT_TRUE(look().pressed);
}

TEST_F(memory_pressure_test, the_least_limit_up_the_tree) {
  machine(8192, 6000);
  second_version("/a/b/c");
  group("/a/b/c", "max", "max", 10 * mib);
  EXPECT_EQ(look().limits.limit, 8192 * mib);
  group("/a", std::to_string(512 * mib), "max", 100 * mib);
  EXPECT_EQ(look().limits.limit, 512 * mib);
  EXPECT_EQ(look().limits.used, 100 * mib);
  group("/a/b", std::to_string(1024 * mib), std::to_string(256 * mib), 50 * mib);
  EXPECT_EQ(look().limits.limit, 256 * mib);
  EXPECT_EQ(look().limits.used, 50 * mib);
  group("", std::to_string(128 * mib), "max", 60 * mib);
  EXPECT_EQ(look().limits.limit, 128 * mib);
  EXPECT_FALSE(look().pressed);
}

TEST_F(memory_pressure_test, near_a_limit_above_the_least_one) {
  second_version("/a/b");
  group("/a", std::to_string(512 * mib), "max", 500 * mib);
  group("/a/b", std::to_string(256 * mib), "max", 50 * mib);
  EXPECT_EQ(look().limits.limit, 256 * mib);
  EXPECT_TRUE(look().pressed);
}

TEST_F(memory_pressure_test, file_pages_that_nobody_uses_do_not_count) {
  second_version("/a");
  group("/a", std::to_string(256 * mib), "max", 255 * mib, 200 * mib);
  EXPECT_EQ(look().limits.used, 55 * mib);
  EXPECT_FALSE(look().pressed);
  group("/a", std::to_string(256 * mib), "max", 255 * mib, 1 * mib);
  EXPECT_TRUE(look().pressed);
}

TEST_F(memory_pressure_test, a_container_that_sees_its_group_as_the_root) {
  second_version("/", "/");
  group("", std::to_string(300 * mib), "max", 20 * mib);
  EXPECT_EQ(look().limits.limit, 300 * mib);
  // A container that sees the host's paths, with only its own part of the tree mounted.
  second_version("/docker/abc", "/docker/abc");
  EXPECT_EQ(look().limits.limit, 300 * mib);
  second_version("/../other", "/");
  EXPECT_EQ(look().limits.limit, 300 * mib);
  second_version("/elsewhere", "/docker/abc");
  EXPECT_EQ(look().limits.limit, 300 * mib);
}

TEST_F(memory_pressure_test, version_one) {
  write("/proc/self/cgroup", "11:cpu,cpuacct:/x\n5:memory:/docker/abc\n0::/\n");
  write("/proc/self/mountinfo",
        "31 30 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 30 0:28 /docker/abc /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n");
  const std::string folder = "/sys/fs/cgroup/memory";
  write(folder + "/memory.limit_in_bytes", "9223372036854771712\n");
  write(folder + "/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(look().limits.limit, unlimited);
  write(folder + "/memory.limit_in_bytes", std::to_string(64 * mib));
  write(folder + "/memory.usage_in_bytes", std::to_string(63 * mib));
  write(folder + "/memory.stat", "cache 1\ninactive_file 0\ntotal_inactive_file " + std::to_string(40 * mib));
  EXPECT_EQ(look().limits.limit, 64 * mib);
  EXPECT_EQ(look().limits.used, 23 * mib);
  EXPECT_FALSE(look().pressed);
}

TEST_F(memory_pressure_test, both_versions_and_a_group_above) {
  const std::string folder = "/sys/fs/cgroup/memory";
  write("/proc/self/cgroup", "4:memory:/jobs/one\n0::/jobs\n");
  write("/proc/self/mountinfo",
        "32 31 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "38 31 0:41 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write(folder + "/jobs/memory.limit_in_bytes", std::to_string(128 * mib));
  write(folder + "/jobs/memory.usage_in_bytes", std::to_string(100 * mib));
  write(folder + "/jobs/one/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(look().limits.limit, 128 * mib);
  EXPECT_EQ(look().group.used, 100 * mib);
  group("/jobs", std::to_string(64 * mib), "max", 10 * mib);
  EXPECT_EQ(look().limits.limit, 64 * mib);
  EXPECT_EQ(look().group.limit, 128 * mib) << "it has less room";
}

TEST_F(memory_pressure_test, another_process) {
  second_version("/own");
  group("/own", std::to_string(300 * mib), "max", 20 * mib);
  write("/proc/47/cgroup", "0::/service\n");
  group("/service", std::to_string(64 * mib), "max", 40 * mib);
  const memory_state there = look_at_memory(folder_.c_str(), "47");
  EXPECT_EQ(there.group.limit, 64 * mib);
  EXPECT_EQ(there.group.used, 40 * mib);
  EXPECT_EQ(look().group.limit, 300 * mib);
}

TEST_F(memory_pressure_test, stalls) {
  write("/proc/pressure/memory",
        "some avg10=9.99 avg60=80.00 avg300=1.00 total=5\nfull avg10=9.00 avg60=1.00\n");
  EXPECT_FALSE(look().pressed);
  write("/proc/pressure/memory", "some avg10=10.00 avg60=0.00 avg300=1.00 total=5\nfull avg10=0.00\n");
  EXPECT_TRUE(look().pressed);
  write("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=1.00 total=5\n");
  second_version("/a");
  write("/sys/fs/cgroup/a/memory.pressure", "some avg10=55.10 avg60=0.00 avg300=1.00 total=5\n");
  EXPECT_TRUE(look().pressed);
}

TEST_F(memory_pressure_test, nonsense_is_no_limit) {
  write("/proc/self/cgroup", "\n:\n::\n0::" + std::string(3000, 'x') + "\n");
  write("/proc/self/mountinfo", "\n - \n1 2 3\n - cgroup2\n" + std::string(5000, 'y'));
  write("/proc/meminfo", "MemTotal: many kB\n");
  write("/proc/pressure/memory", "some avg10=");
  EXPECT_EQ(look().limits.limit, unlimited);
  EXPECT_FALSE(look().pressed);
  second_version("/a");
  group("/a", "99999999999999999999999999", "-5", 1);
  EXPECT_EQ(look().limits.limit, unlimited);
  group("/a", "", "lots", 1);
  EXPECT_EQ(look().limits.limit, unlimited);
  group("/a", "0", "max", 0);
  EXPECT_EQ(look().limits.limit, 0U);
}

TEST(memory_pressure, this_machine) {
  const memory_limits limits = look_at_memory("").limits;
  EXPECT_GT(limits.limit, 16 * mib);
  EXPECT_LE(limits.limit, machine_bytes());
  EXPECT_GT(limits.used, 0U);
}

}  // namespace
}  // namespace tarn::os
