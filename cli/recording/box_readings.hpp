// SPDX-License-Identifier: MIT
// box_readings: what is known of one image of a process beside its black box: who it is, how it ends, and what the system said of it
// while it ran. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/recording/process_end.hpp"
#include "os/memory_pressure.hpp"
#include "profiler/collect/timeline.hpp"
#include "profiler/model/box_profile.hpp"
#include "profiler/model/growth_marks.hpp"
#include "profiler/proc/memory_kills.hpp"

namespace tarn::cli {

// In nanoseconds, as the start of a box is told.
std::uint64_t now_since_1970();

struct box_readings {
  box_readings() = default;  // of no box
  // Of the box at `path` that is new, or of another image of its process. `counted`: from before the process began.
  box_readings(const std::string& path, const profiler::box_content& box,
               const profiler::memory_kills& counted);

  // What the system says now; nothing once it has ended.
  void read(const profiler::box_content& box);
  // The process has become another program, or another image of it, which has not mapped this box. What it executes tells less:
  // exec may have been called before the first look, and the names of files differ between containers.
  bool is_of_earlier_image(const std::string& path) const;
  // Each look of the last minutes at the room in the group: seconds before the last one, bytes used, and the limit.
  nlohmann::json last_minutes() const;

  process_end end;
  std::string name;            // process_name()
  std::uint64_t start_ns = 0;  // of the box
  std::uint64_t file = 0;      // the box's number (file_number())
  bool is_gone = false;        // the file was missing while the process ran
  double limit = 0;            // of its control group; 0: none
  profiler::timeline counters_line;
  std::vector<profiler::counter_row> counters;
  std::vector<profiler::memory_row> memory;
  double of_malloc = 0;  // what malloc had at the last of these, at most resident
  std::set<std::uint64_t> stack_lengths;
  double peak_resident = 0;
  bool has_had_children = false;  // whose peaks may be told as its own
  nlohmann::json place;           // describe_place()
  profiler::memory_kills kills;
  // How much memory it could use, at times of the last ten minutes.
  struct room {
    double seconds = 0;  // on the monotonic clock
    os::memory_limits group;
  };
  std::deque<room> rooms;
  profiler::growth_marks marks;
  // The live bytes of each site, by its number, at the marks, the older one first.
  std::array<std::map<std::uint32_t, double>, 2> marked;

 private:
  void note_group();
};

}  // namespace tarn::cli
