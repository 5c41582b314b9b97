// SPDX-License-Identifier: MIT
// box_watch: the other side of `tarn run --black-box FOLDER`: reads what the system says of each process that has a black box in
// the folder, while it runs, and turns the box into a profile when the process was killed, or the program failed. One thread.
//
// How a process that is no child has ended is known from its pidfd (Linux 6.15), from the end mark in the box, or not at all.
// A box of a process that has ended belongs to nobody any more: the first watch that locks it takes it, also one that is started
// after the death of the watch before, as in a container that is started again. What is no box stays.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cli/recording/box_readings.hpp"
#include "cli/recording/look_schedule.hpp"
#include "profiler/model/box_profile.hpp"
#include "profiler/proc/memory_kills.hpp"

namespace tarn::cli {

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
  void tell_dropped() const;  // how many were not told of; to be called at the end, where finish() is not

 private:
  // A process that has become an image without a box, or was forked and has none yet.
  struct without_box {
    process_end end;
    std::string name;
  };
  bool is_program(const process_end& of) const;
  std::optional<int> end_of(const process_end& of) const;  // as of waitpid
  bool is_bad(const process_end& of, int status) const;
  void tell_unread(const std::string& path, const std::string& problem);
  void leave_image(const std::string& path);
  bool has_box(const process_end& of) const;
  void note_children();
  void note_gone();
  void drop_outdated();
  // One line of a process that has no box any more, if its end is worth it.
  void tell_bare(const process_end& of, const std::string& name, const std::string& why) const;
  bool is_worth_telling(const box_readings& of, const profiler::box_content& box) const;
  profiler::shortage shortage_of(const box_readings& of) const;
  bool write(const profiler::profile& p, const std::string& name) const;
  void take(const std::string& path, const box_readings& of);
  bool tell(const box_readings& of, const profiler::box_content& box);
  void take_ended(bool with_program);
  bool is_left(const std::string& path) const;

  std::string folder_;
  std::map<std::string, box_readings> known_;  // by the box's path
  std::set<std::string> no_boxes_;  // files that were named as being none, or as being another user's
  std::map<std::string, std::uint64_t> unread_;  // files that could not be read, by their numbers
  // Told, but not written; or of an earlier image, and not to be removed: they stay.
  std::map<std::string, std::uint64_t> left_;
  std::map<std::uint32_t, without_box> bare_;  // by process
  std::map<std::string, double> told_kills_;   // of a group, by its file: all up to here have been told
  look_schedule looks_;                        // on the monotonic clock
  profiler::memory_kills kills_;  // from the beginning on, for processes that no look has seen alive
  pid_t main_ = 0;
  std::optional<int> main_status_;
  // When the ends that are being told were seen, since 1970; 0: they came before this watch.
  std::uint64_t seen_end_ns_ = 0;
  double main_peak_ = 0;
  std::size_t dropped_ = 0;
};

}  // namespace tarn::cli
