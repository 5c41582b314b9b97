// SPDX-License-Identifier: MIT
// box_watch: the other side of `tarn run --black-box FOLDER`: reads what the system says of each process that has a black box in
// the folder, while it runs, and turns the box into a profile when it has ended. One thread.
//
// A box of a process that has ended belongs to nobody any more: the first watch that finds it takes it, also one that is started
// after the death of the watch before, as in a container that is started again.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiler/collect/timeline.hpp"
#include "profiler/model/box_profile.hpp"

namespace tarn::cli {

class box_watch {
 public:
  // The most profiles of processes other than the program that one watch writes.
  static constexpr std::size_t most_profiles = 16;

  // `folder`: an absolute path.
  explicit box_watch(std::string folder);

  // Takes the boxes of processes that have ended before this watch began, and says what became of them.
  void take_old();
  // To be called often: it looks when it is time for it.
  void look(pid_t program);
  void ended(int wait_status) { main_status_ = wait_status; }
  // Takes the boxes of all processes that have ended by now, the program's last, and says what became of it.
  void finish();

 private:
  // What is known of one process beside its box.
  struct readings {
    std::uint32_t process = 0;
    std::uint64_t start_ticks = 0;
    profiler::timeline counters_line;
    std::vector<profiler::counter_row> counters;
    std::vector<profiler::memory_row> memory;
    double peak_resident = 0;
    double next_split = 0;  // on the monotonic clock
    // As in site_table: the live bytes of each site, by its number, at two times, the older first.
    struct mark {
      std::uint64_t time_ns = 0;
      std::map<std::uint32_t, double> live;
    } marks[2];
  };

  void read(readings& of, const profiler::box_content& box);
  profiler::profile profile_from(const readings& of, const profiler::box_content& box) const;
  void take(const std::string& path, readings& of, bool is_program);
  void take_ended(bool is_main);
  // The kernel has killed a process of this machine since.
  bool was_short() const;

  std::string folder_;
  std::map<std::string, readings> known_;  // by the box's path
  double begun_;                           // on the monotonic clock
  double next_look_ = 0;
  std::array<double, 2> kills_{};  // by the kernel, for lack of memory, at the last two looks
  pid_t main_ = 0;
  int main_status_ = 0;
  std::size_t written_ = 0;
  std::size_t dropped_ = 0;
};

}  // namespace tarn::cli
