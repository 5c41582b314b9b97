// SPDX-License-Identifier: MIT
// box_watch: the other side of `tarn run --black-box FOLDER`: reads what the system says of each process that has a black box in
// the folder, while it runs, and turns the box into a profile when the process was killed, or the program failed. One thread.
//
// How a process that is no child has ended is known from its pidfd (Linux 6.15), from the end mark in the box, or not at all.
// A box of a process that has ended belongs to nobody any more: the first watch that locks it takes it, also one that is started
// after the death of the watch before, as in a container that is started again. What is no box stays.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/launch/scratch_file.hpp"
#include "os/memory_pressure.hpp"
#include "profiler/collect/timeline.hpp"
#include "profiler/model/box_profile.hpp"
#include "profiler/proc/memory_kills.hpp"

namespace tarn::cli {

// The folder that a user has named for black boxes, made if it is missing, as an absolute path. Throws cli_error (usage).
std::string box_folder(const std::string& given);

class box_watch {
 public:
  // With so many profiles in the folder, processes other than the program are not told of.
  static constexpr std::size_t most_profiles = 64;

  // `folder`: an absolute path.
  explicit box_watch(std::string folder);

  // Takes the boxes of processes that have ended before this watch began, and says what became of them.
  void take_old();
  // To be called often: it looks when it is time for it, and at each new box. `program`: 0 if there is none that the watch's owner has started.
  void look(pid_t program);
  void ended(int wait_status) { main_status_ = wait_status; }
  // Takes the boxes of all processes that have ended by now, the program's last, and says what became of it. `peak_resident`: of the
  // program and its children, in bytes, as the system tells its parent.
  void finish(double peak_resident);

 private:
  // What is known of one process image beside its box.
  struct readings {
    std::uint32_t process = 0;  // its id here; 0: it is not here any more
    std::uint64_t start_ticks = 0;
    std::uint64_t start_ns = 0;  // of the box
    std::uint64_t file = 0;  // its number: another image of the process makes another file of the same name
    open_file handle;        // a pidfd
    // The device and number of the file that it executes, if that is known to be the box's; otherwise 0.
    std::array<std::uint64_t, 2> image{};
    double limit = 0;  // of its control group; 0: none
    profiler::timeline counters_line;
    std::vector<profiler::counter_row> counters;
    std::vector<profiler::memory_row> memory;
    double peak_resident = 0;
    nlohmann::json place;  // describe_place()
    profiler::memory_kills kills;
    // How much memory it could use, at times of the last ten minutes.
    struct room {
      double seconds = 0;  // on the monotonic clock
      os::memory_limits group;
    };
    std::deque<room> rooms;
    // As in site_table: the live bytes of each site, by its number, at two times, the older first.
    struct mark {
      std::uint64_t time_ns = 0;
      std::map<std::uint32_t, double> live;
    };
    std::array<mark, 2> marks;
  };

  void meet(readings& of, const profiler::box_content& box) const;
  void read(readings& of, const profiler::box_content& box);
  bool is_program(const readings& of) const;
  std::optional<int> end_of(const readings& of) const;  // as of waitpid
  void note_group(readings& of);
  static nlohmann::json last_minutes(const readings& of);
  bool is_worth_telling(const readings& of, const profiler::box_content& box) const;
  profiler::shortage shortage_of(const readings& of) const;
  double grown_since(const readings& of, const profiler::memory_row& last,
                     const profiler::box_content& box) const;
  profiler::profile profile_from(const readings& of, const profiler::box_content& box) const;
  bool write(const profiler::profile& p, const std::string& name) const;
  void take(const std::string& path, const readings& of);
  bool tell(const readings& of, const profiler::box_content& box);
  std::size_t profiles_there() const;
  void take_ended(bool with_program);
  bool has_ended(const readings& of) const;
  bool is_left(const std::string& path) const;

  std::string folder_;
  std::map<std::string, readings> known_;        // by the box's path
  std::set<std::string> no_boxes_;               // files that were named as being none
  std::map<std::string, std::uint64_t> unread_;  // files that could not be read, by their numbers
  std::map<std::string, std::uint64_t> left_;    // told, but not written: they stay
  std::map<std::string, double> told_kills_;     // of a group, by its file: all up to here have been told
  double begun_;                                 // on the monotonic clock
  double next_look_ = 0;
  profiler::memory_kills kills_;  // from the beginning on, for processes that no look has seen alive
  pid_t main_ = 0;
  std::optional<int> main_status_;
  double main_peak_ = 0;
  std::size_t dropped_ = 0;
};

}  // namespace tarn::cli
