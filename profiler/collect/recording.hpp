// SPDX-License-Identifier: MIT
// recording: follows a program and all its descendants, and leaves a file for each that allocated enough to be looked at.
//
// Each drain takes the time first, then looks how far the rings and the fault events have come, and handles only what
// is older than that time, in the order of times. An event may arrive late, but nothing that it made possible (another
// thread's reuse of a block it freed) can have been handled before it: a free is published before the block goes, an
// allocation before the program has it.
//
// For one thread, which calls drain() as often as it can; a program whose ring is full waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/analyze/debug_files.hpp"
#include "profiler/collect/event_stream.hpp"
#include "profiler/collect/fault_events.hpp"
#include "profiler/collect/malloc_code.hpp"
#include "profiler/collect/proc_status.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/collect/session_host.hpp"
#include "profiler/collect/small_processes.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/recorded_command.hpp"
#include "profiler/model/store_profile.hpp"

namespace tarn::profiler {

struct recording_settings {
  profile_mode mode = profile_mode::sample;
  std::uint64_t sample_bytes = std::uint64_t{512} << 10;
  bool keep_events = true;
  double checkpoint_seconds = 5;  // at least so long from one to the next
  std::string output;             // empty: tarn-PROGRAM-PID.prof here
  std::string directory;          // where such files go; empty: here
  std::uint32_t program = 0;      // it runs already; 0: it is to be started by this process
  symbol_settings symbols;
  price_list prices;
  std::optional<recorded_command> command;  // goes into the program's own file
  nlohmann::json meta =
      nlohmann::json::object();  // what the caller knows: kernel, thp, privilege, refused ...
};

struct finished_file {
  std::string path;
  std::string program;        // what it was started as
  std::uint32_t process = 0;  // 0: it is of several
  std::string problem;        // why it ends early; empty: it does not
};

class recording {
 public:
  // Throws profile_error. The settings' output is tried at once, so that a name that cannot be written to is told.
  explicit recording(const recording_settings& settings);
  ~recording();
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

  // What the program must find in its environment; empty in mode faults.
  std::string place() const;
  const fault_events& faults() const noexcept { return faults_; }

  // Takes what has come. True: there was much, and the next drain should come soon.
  bool drain();
  // The program itself; and what it was when it ended, before its parent has waited for it.
  void program_started(std::uint32_t process);
  void program_ended(int wait_status);
  // Brings the file of a process up to date. Returns its path; `problem`: why there is none.
  std::string store_now(std::uint32_t process, std::string& problem);
  // The processes that are being recorded.
  std::vector<std::uint32_t> running() const;
  // The last drain; writes all files. What still runs is written as it stands.
  void finish();

  const std::vector<finished_file>& files() const noexcept { return files_; }
  // The program's own, after finish(); null: it was never seen.
  const profile* main_profile() const noexcept { return main_profile_.get(); }
  // After finish(): all processes that were recorded, those without a file as one for each name; the costliest first.
  const std::vector<process_summary>& processes() const noexcept { return summaries_; }
  // Of those with a file, the costliest one's. Null: there is none.
  const profile* costliest_profile() const noexcept {
    return costliest_profile_ ? costliest_profile_.get() : main_profile_.get();
  }
  std::string status_line() const;
  double lost_events() const noexcept { return lost_; }

 private:
  struct process_entry;
  struct ring_entry;
  static constexpr std::size_t most_events = std::size_t{200} << 20;  // of a process

  void take_arrivals();
  void add_process(arrival&& from);
  void end_earlier_image(process_entry& earlier, const usage_figures& usage);
  process_entry* by_process(std::uint32_t process);
  process_entry* by_serial(std::uint64_t serial);
  process_entry* parent_of(const process_entry& process);
  void look_for_rings(process_entry& process);
  bool drain_rings(std::uint64_t until_ticks);
  bool drain_process(process_entry& process, std::uint64_t until_ns);
  void take_faults();
  bool give(page_fault& fault);  // true: it has been moved from, or counted
  void give(const clock_sample& sample);
  void follow_processes();
  void place_faults();
  process_entry& add_seen_process(std::uint32_t pid, process_entry* parent, std::uint64_t time_ns);
  void look_after_processes(bool all);
  void add_counters(process_entry& process, bool at_end);
  static void raise_peak(process_entry& process, double resident_bytes);
  double kernel_peak_of(const process_entry& process) const;
  bool look_closely(process_entry& process, std::uint64_t now);
  std::string no_leaks_because(const process_entry& process) const;
  void split_memory(process_entry& process, std::uint64_t now);
  void ask_to_wait(process_entry& process);
  void look_at_end(process_entry& process);
  void fill_leaks(process_entry& process, nlohmann::json& meta) const;
  void end_process(process_entry& process);
  void end_without_file(process_entry& process);
  void write_small_processes();
  bool write_small_file(const profile& parts, const std::string& path);
  void finish_file(process_entry& process);
  void take_exit_figures(process_entry& process);
  bool is_worth_a_file(const process_entry& process) const;
  static bool is_worth_a_file(double allocations, double bytes, double faults);
  void write(process_entry& process, bool last);
  void finish_files();
  void flush_events(process_entry& process);
  void open_file(process_entry& process);
  void store(process_entry& process);
  void give_up_events(process_entry& process, const std::string& why);
  void add_recorder_figures(process_entry& process);
  std::string why_without_clock(const process_entry& process) const;
  void fill_meta(process_entry& process);
  std::string file_name(const process_entry& process, int number) const;
  std::string small_file_name(int number) const;
  bool is_taken(const std::string& path) const;
  model_settings settings_of_models() const;
  std::uint64_t checkpoint_ns() const;
  double seconds_since_1970(std::uint64_t raw_ns) const;

  recording_settings settings_;
  tick_clock clock_;
  std::unique_ptr<session_host> session_;
  fault_events faults_;
  std::vector<std::unique_ptr<process_entry>> processes_;  // all that are not written yet
  std::vector<std::unique_ptr<process_entry>> ended_;      // written, but for their symbols
  std::vector<page_fault> new_faults_;
  std::vector<page_fault> early_faults_;  // of processes that have not arrived yet
  std::vector<mapping_event> new_mappings_;
  std::vector<process_event> new_processes_;
  std::vector<clock_sample> new_clock_;
  std::vector<finished_file> files_;
  std::unique_ptr<profile> main_profile_;
  std::unique_ptr<profile> costliest_profile_;  // null: it is main_profile_
  std::vector<process_summary> summaries_;
  small_processes small_;
  std::uint32_t main_process_ = 0;
  int main_status_ = -1;
  std::uint64_t begin_ns_ = 0;  // on the raw clock
  double begin_seconds_ = 0;    // since 1970, then
  std::uint64_t last_look_ns_ = 0;
  std::size_t next_look_ = 0;      // into processes_
  std::uint64_t last_serial_ = 0;  // of processes that no recorder numbers
  malloc_code_reader malloc_codes_;
  double unplaced_faults_ = 0;
  double lost_ = 0;
};

}  // namespace tarn::profiler
