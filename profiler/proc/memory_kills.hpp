// SPDX-License-Identifier: MIT
// memory_kills: whether the kernel has killed a process for lack of memory (OOM killer): the count of such kills in the process's
// control group has risen meanwhile, or only that of the machine. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
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
  // Of a process that SIGKILL has ended: what has risen since the last look but one, as the last may have come between the kill and
  // the news of it. `told`: kills of the group that are known to have been others'.
  shortage since(double told = 0) const;
  const std::string& group() const noexcept { return group_file_; }
  double before() const noexcept { return looks_[0].group; }  // of the group, at the last look but one

 private:
  double kills_of_group() const;

  struct counts {
    double group = 0;
    double machine = 0;
  };
  std::string group_file_;  // that counts those of the group; empty: there is none
  std::array<counts, 2> looks_;
};

}  // namespace tarn::profiler
