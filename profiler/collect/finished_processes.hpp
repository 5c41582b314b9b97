// SPDX-License-Identifier: MIT
// finished_processes: the processes whose recording has ended: those with a file wait for their symbols, until nothing waits for
// the collector; those that are too small for one are summed up. Owned by the recording, for one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "profiler/collect/process_summary.hpp"
#include "profiler/collect/recorded_process.hpp"

namespace tarn::profiler {

class finished_processes {
 public:
  explicit finished_processes(const recording_context& around) : around_(around) {}

  // Its file is written except for its symbols.
  void add(const recorded_process& process);
  // Until finish(). A process without a file is let go of.
  void keep(std::unique_ptr<recorded_process> process);
  void add_small(const profile& p) { small_.add(p, summary_of(p)); }
  // Adds the symbols to all files, and writes one for the small processes, if together they are worth one.
  void finish();

  const profile* main_profile() const noexcept { return main_profile_.get(); }
  const profile* costliest_profile() const noexcept {
    return costliest_profile_ ? costliest_profile_.get() : main_profile_.get();
  }
  const std::vector<process_summary>& summaries() const noexcept { return summaries_; }
  double lost_events() const noexcept { return lost_; }

 private:
  void write_small();
  bool write_small_file(const profile& parts, const std::string& path);
  std::string name_of_program() const;
  void finish_file(recorded_process& process);

  const recording_context& around_;
  std::vector<std::unique_ptr<recorded_process>> ended_;
  small_processes small_;
  std::vector<process_summary> summaries_;
  std::unique_ptr<profile> main_profile_;
  std::unique_ptr<profile> costliest_profile_;  // null: it is main_profile_
  double lost_ = 0;
};

}  // namespace tarn::profiler
