// SPDX-License-Identifier: MIT
// memory_kills: whether the kernel has killed a process for lack of memory (OOM killer): the count of such kills in the process's
// control group has risen meanwhile, or only that of the machine. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

namespace tarn::profiler {

enum class shortage : std::uint8_t { none, machine, group };
// In a profile's meta data, under "out_of_memory"; "": none.
const char* name_of(shortage what);

class memory_kills {
 public:
  // Counts of the machine from now on.
  memory_kills();

  // While the process runs, again and again. False: it is ending.
  bool look(std::uint32_t process);
  // Of a process that SIGKILL has just ended: what has risen since a second before the last look. Between the kill and the news of it
  // there are looks, too, and more of them the more memory the process must give up. `told`: kills of the group that are known to have
  // been others'.
  shortage since(double told = 0) const;
  const std::string& group() const noexcept { return group_file_; }
  double before() const noexcept { return earlier().group; }  // of the group, at that look

 private:
  double kills_of_group() const;

  struct counts {
    double group = 0;
    double machine = 0;
    std::chrono::steady_clock::time_point from;  // on
  };
  const counts& earlier() const noexcept;
  std::string group_file_;  // that counts those of the group; empty: there is none
  std::chrono::steady_clock::time_point last_look_;
  std::deque<counts> looks_;  // those at which a count had risen, and the one before them all; never empty
};

}  // namespace tarn::profiler
