// SPDX-License-Identifier: MIT
// box_profile: a black box (src/samples/followed/box_format.hpp) read from its file, while its process runs or after its end, and
// the profile that it makes. Everything in a box comes from the process: what does not fit is left out. Any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "profiler/model/profile.hpp"
#include "samples/followed/box_format.hpp"

namespace tarn::profiler {

struct boxed_site {
  tarn::box_site figures;
  std::vector<std::uint64_t> frames;  // return addresses, innermost first
};

struct box_content {
  std::uint32_t process = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t pid_namespace = 0;  // in which `process` is its id
  std::uint64_t start_ns = 0;       // since 1970
  double sample_bytes = 0;
  double heap_in_use = 0;  // malloc's pages, at most resident
  double heap_free = 0;    // its free ones that are resident, and its structures
  // Where malloc's memory and its structures lie: [start, end), sorted. Empty: not known, or not yet.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> heap_ranges;
  bool has_lost_ranges = false;  // they were too many
  // What all live blocks had, sampled or not, when the engine wrote its figures, lies between these; and what has changed since, by
  // the samples that have begun or ended.
  struct bounds {
    double least = 0;
    double most = 0;
    double in_use = 0;  // malloc's pages then
    double change = 0;
    double change_variance = 0;
  };
  std::optional<bounds> live_between;
  std::optional<int> status;  // with which it called exit()
  std::string program;
  std::vector<std::string> arguments;
  std::vector<boxed_site> sites;  // that of the paths that found no room has no frames
  std::vector<module_info> modules;
  // The engine's figures at the last look of its background thread: values by metric, and of a metric with members by member.
  nlohmann::json engine;
  std::uint64_t engine_ns = 0;  // of that look, since 1970
  bool is_engine_cut = false;   // there was no room for all
  std::size_t left_out = 0;     // records that the process had not finished, or that do not fit
  // The same from a core file (core_profile.hpp): without what the box alone has, and with the signal that ended the process.
  bool is_of_core = false;
  int signal = 0;  // 0: none, or not known

  void add(boxed_site&& one);
  // Of samples, as live_blocks().
  double live_bytes() const;
  double live_blocks() const;
  // Memory in the program's hands of which there are no samples: of each typed pool and buffer pool, and of arenas, by what it is to
  // be called.
  std::vector<std::pair<std::string, double>> unsampled() const;
  // More than sample_bytes where samples came too fast, and not all were followed (sample_thinning): what a sample of small blocks
  // stands for, the variance of a byte that was allocated. Of all that were ever taken, as what lives may have none that is so young.
  double bytes_per_sample() const;
  // Of live_bytes(), due to sampling: of the samples, and of what none of them knows.
  double live_variance() const;
};

bool is_box(const std::string& path);

// Empty: the file cannot be read, or is no box of this version of tarn; `problem` says so.
std::optional<box_content> read_box(const std::string& path, std::string& problem);

// The call paths, sites, modules and what is known of the process. Without counters, memory and symbols.
profile profile_of(const box_content& box);

}  // namespace tarn::profiler
