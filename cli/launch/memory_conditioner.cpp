// SPDX-License-Identifier: MIT
#include "cli/launch/memory_conditioner.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "cli/launch/child_process.hpp"
#include "os/memory_pressure.hpp"

namespace tarn::cli {

namespace {

constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;
constexpr std::uint64_t share = 16;
// Of the processes themselves: this command, its worker, and the recorder in a program with few threads.
constexpr std::uint64_t own_bytes = std::uint64_t{2} << 20;

std::uint64_t machine_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kib = 0;
  std::string rest;
  while (file >> key >> kib && std::getline(file, rest)) {
    if (key == "MemAvailable:") return kib * 1024;
  }
  return os::unlimited;
}

std::uint64_t limit_of(__rlimit_resource_t resource) {
  rlimit limit = {};
  return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : os::unlimited;
}

std::uint64_t process_limit() { return std::min(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA)); }

}  // namespace

std::uint64_t available_bytes() {
  const os::memory_limits group = os::look_at_memory("").group;
  const std::uint64_t in_group = group.limit - std::min(group.used, group.limit);
  return std::min({machine_available(), in_group, process_limit()});
}

std::uint64_t share_of_limit() {
  return std::min(os::look_at_memory("").limits.limit, process_limit()) / share;
}

std::uint64_t default_conditioning_bytes() {
  const std::uint64_t most = share_of_limit();
  return std::min({most_bytes, most - std::min(own_bytes, most / 2), available_bytes() / 8});
}

void volunteer_for_oom_killer() { std::ofstream("/proc/self/oom_score_adj") << 1000; }

void condition_memory(std::uint64_t bytes) {
  if (bytes == 0) return;
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    volunteer_for_oom_killer();
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      const auto step = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
      auto* begin = static_cast<volatile unsigned char*>(memory);
      for (std::uint64_t offset = 0; offset < bytes; offset += step) begin[offset] = 1;
    }
    _exit(0);
  }
  reap(child);
}

}  // namespace tarn::cli
