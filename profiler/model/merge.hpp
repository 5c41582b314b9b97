// SPDX-License-Identifier: MIT
// merge: one profile of several processes or of several runs: call paths are joined (joined_addresses.hpp); sites,
// threads and counters stay separate by process. From it are derived the whole, as if it were one program, and each
// single process.
//
// Sums of the whole are the sums over its processes. A peak of the whole is an upper bound: the largest sum of the
// peaks of processes that ran at the same time. Time in which none of the processes ran is left out. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <vector>

#include "profiler/model/call_paths.hpp"
#include "profiler/model/index_set.hpp"
#include "profiler/model/joined_addresses.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

class profile_merger {
 public:
  // Adds each process of `p`: one, or the parts of several (load_parts). Code that its files do not identify is
  // joined by symbols.
  void add(profile p);
  // Adds `p` to one process of the result, row `process`: in this way many similar processes become one. The meta of a
  // new row is that of the first profile added.
  void add_to(std::size_t process, const profile& p);
  std::size_t processes() const noexcept { return result_.processes.size(); }

  // Moves out the sites of the processes that add() has added, so that the sites of a few processes at a time are in
  // memory. Later calls and take() do not have them any more.
  std::vector<site> take_sites();

  // Returns the parts of all processes. Requires that something was added; the merger is empty afterwards.
  profile take();

 private:
  std::vector<std::uint32_t> take_stacks(const profile& p);
  void take_sites(std::vector<site> sites, const std::vector<std::uint32_t>& nodes, std::size_t first_process,
                  std::size_t first_thread);

  profile result_;
  joined_addresses addresses_;
  call_paths paths_;
  index_set sites_;  // of result_.sites, by process, path and type
};

// Joins the sites of all processes by call path and type, as load_profile returns them.
void join_sites(profile& parts);

// One of the processes, as its own file would have it. Requires: process < parts.processes.size().
profile process_of(const profile& parts, std::size_t process);

// process_of() for a large profile: takes the sites' sizes and lifetimes from `parts`, and gives them back when it
// ends. Meanwhile nothing else may use `parts`.
class borrowed_process {
 public:
  borrowed_process(profile& parts, std::size_t process);
  ~borrowed_process();
  borrowed_process(const borrowed_process&) = delete;
  borrowed_process& operator=(const borrowed_process&) = delete;

  const profile& get() const noexcept { return one_; }

 private:
  profile& parts_;
  std::size_t process_;
  profile one_;
};

// The figures of each process, without call paths, names and threads: one site has the sums of all.
class figure_sums {
 public:
  void add(const std::vector<site>& sites);
  std::vector<profile> by_process(const std::vector<process_part>& processes) const;

 private:
  std::vector<site_figures> sums_;
};
std::vector<profile> figures_by_process(const profile& parts);

// The whole's meta and counters, from those of the processes.
nlohmann::json joined_meta(const std::vector<process_part>& processes);
std::vector<counter_row> joined_counters(const std::vector<process_part>& processes);

// When each process ran, in ns since the first one's start, without the time in which none ran.
struct process_span {
  double begin = 0;
  double end = 0;
};
std::vector<process_span> spans_of(const std::vector<process_part>& processes);

}  // namespace tarn::profiler
