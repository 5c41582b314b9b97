// SPDX-License-Identifier: MIT
// recording: follows a program and all its descendants, and writes a profile for each that allocated enough to be
// worth one.
//
// Each drain reads the clock first, then the positions of the rings and fault events, and handles only events older
// than that time, in the order of their times. An event may arrive late, but nothing that depends on it (such as
// another thread's reuse of a freed block) is handled before it: a free is published before the block is released,
// an allocation before the program gets it.
//
// The only thing that a process reports about another one is its parent, whose profile takes in what small children
// did. It is accepted if the process knows the parent's serial, which only its descendants do, and has the same user.
//
// For one thread, which calls drain() as often as it can; a program whose ring is full waits for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "profiler/collect/fault_events.hpp"
#include "profiler/collect/finished_processes.hpp"
#include "profiler/collect/malloc_code.hpp"
#include "profiler/collect/output_files.hpp"
#include "profiler/collect/process_tree.hpp"
#include "profiler/collect/recording_settings.hpp"
#include "profiler/collect/session_host.hpp"

namespace tarn::profiler {

class recording {
 public:
  // Throws profile_error. Tries to open settings.output at once, so that an unusable name is reported before the
  // program runs.
  explicit recording(const recording_settings& settings);
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

  // The value of session_variable for the program's environment; empty in mode faults.
  std::string place() const;
  // The descriptors of this process that place() names.
  std::vector<int> placed_descriptors() const;
  const fault_events& faults() const noexcept { return faults_; }

  // Handles new events. True: there were many, and the next drain should come soon.
  bool drain();
  // The program has its process id; and it has ended, but is still a zombie whose /proc entry can be read.
  void program_started(std::uint32_t process);
  void program_ended(int wait_status);
  // Writes the file of a process as of now. Returns its path; `problem`: why there is none, or why it is
  // incomplete.
  std::string store_now(std::uint32_t process, std::string& problem);
  // The processes that are being recorded.
  std::vector<std::uint32_t> running() const;
  // Drains a last time and writes all files, also those of processes that still run.
  void finish();

  const std::vector<finished_file>& files() const noexcept { return files_.all(); }
  // The program's own profile, after finish(); null: the program was never seen.
  const profile* main_profile() const noexcept { return finished_.main_profile(); }
  // After finish(): all recorded processes, the costliest first; those without a file of their own are summed up by
  // name.
  const std::vector<process_summary>& processes() const noexcept { return finished_.summaries(); }
  // The profile of the costliest process with a file of its own. Null: there is none.
  const profile* costliest_profile() const noexcept { return finished_.costliest_profile(); }
  std::string status_line() const;
  double lost_events() const noexcept { return finished_.lost_events(); }

 private:
  void open_faults();
  model_settings settings_of_models() const;
  double seconds_since_1970(std::uint64_t raw_ns) const;
  // Called by long work, often: takes what has come from time to time, so that no process stands meanwhile.
  void take_meanwhile();
  // Handles the kernel's events: faults, mappings, exec.
  void take_kernel_events();
  bool give(page_fault& fault);  // false: its image has not arrived yet, and it is unchanged
  bool give(const clock_sample& sample);
  // Mode faults.
  void follow_processes();
  void follow_exec(const process_event& event);
  void follow_mappings();
  void place_faults();
  recorded_process& add_seen_process(std::uint32_t pid, recorded_process* parent, std::uint64_t time_ns);
  // What processes send.
  void take_arrivals();
  void add_process(arrival&& from);
  image_begin find_begin(const process_identity& who, const process_page& page,
                         const recorded_process* earlier);

  void look_at_processes();
  void end_process(recorded_process& process);

  recording_settings settings_;
  tick_clock clock_;
  output_files files_;
  std::unique_ptr<session_host> session_;
  fault_events faults_;
  recording_context context_;
  malloc_code_reader malloc_codes_;
  process_tree tree_;
  finished_processes finished_;
  kernel_events new_;
  // Of images that have not arrived yet.
  std::vector<page_fault> early_faults_;
  std::vector<clock_sample> early_clock_;
  std::uint64_t main_started_ns_ = 0;
  std::uint64_t begin_ns_ = 0;  // on the raw clock
  double begin_seconds_ = 0;    // wall clock at begin_ns_, since 1970
  std::uint64_t last_look_ns_ = 0;
  std::uint64_t next_taking_ns_ = 0;  // of take_meanwhile
  std::uint64_t last_serial_ = 0;     // of processes without a recorder (mode faults)
};

}  // namespace tarn::profiler
