// SPDX-License-Identifier: MIT
#include "cli/launch/memory_conditioner.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <string>

namespace tarn::cli {

namespace {

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;

std::uint64_t system_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string rest;
  while (file >> key >> kib && std::getline(file, rest)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return unlimited;
}

std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? number : unlimited;  // "max" is no number
}

std::uint64_t control_group_available() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::")) continue;
    const std::string folder = "/sys/fs/cgroup" + line.substr(3);
    const std::uint64_t limit = number_in(folder + "/memory.max");
    const std::uint64_t used = number_in(folder + "/memory.current");
    if (limit == unlimited || used == unlimited) return unlimited;
    return limit > used ? limit - used : 0;
  }
  return unlimited;
}

std::uint64_t address_space_limit() {
  rlimit limit = {};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : unlimited;
}

}  // namespace

std::uint64_t available_bytes() {
  return std::min({system_available(), control_group_available(), address_space_limit()});
}

std::uint64_t default_conditioning_bytes() { return std::min(most_bytes, available_bytes() / 8); }

void condition_memory(std::uint64_t bytes) {
  if (bytes == 0) return;
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      const auto step = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
      auto* begin = static_cast<volatile unsigned char*>(memory);
      for (std::uint64_t offset = 0; offset < bytes; offset += step) begin[offset] = 1;
    }
    _exit(0);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace tarn::cli
