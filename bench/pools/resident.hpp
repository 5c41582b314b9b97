// SPDX-License-Identifier: MIT
// resident_bytes(), peak_bytes(): what the process holds of the machine's memory now, and the most it ever held.
// Neither allocates. Thread safety: any thread.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../workloads/support.hpp"

namespace bench {

// From the sum over all mappings, which is exact: the counters of /proc/self/statm are allowed to lag.
inline double resident_bytes() {
  char text[512];
  const int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  if (length <= 0) fail("/proc/self/smaps_rollup cannot be read (Linux 4.14 has it)");
  text[length] = '\0';
  const char* const line = std::strstr(text, "\nRss:");
  if (line == nullptr) fail("/proc/self/smaps_rollup has no line Rss");
  return 1024.0 * std::strtod(line + 5, nullptr);
}

inline double peak_bytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

}  // namespace bench
