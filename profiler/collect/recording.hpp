// SPDX-License-Identifier: MIT
// recording: follows a program and all its descendants, and writes a profile for each that allocated enough to be
// worth one.
//
// Each drain reads the clock first, then the positions of the rings and fault events, and handles only events older
// than that time, in the order of their times. An event may arrive late, but nothing that depends on it (such as
// another thread's reuse of a freed block) is handled before it: a free is published before the block is released,
// an allocation before the program gets it.
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
#include "profiler/collect/process_model.hpp"
#include "profiler/collect/process_summary.hpp"
#include "profiler/collect/session_host.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/recorded_command.hpp"

namespace tarn::profiler {

struct process_entry;

struct recording_settings {
  profile_mode mode = profile_mode::sample;
  std::uint64_t sample_bytes = std::uint64_t{512} << 10;
  std::uint32_t first_halvings = 5;  // of sample_bytes, at the start of each process (session.hpp)
  bool keep_events = true;           // in mode full
  double checkpoint_seconds = 5;     // shortest time between two checkpoints of a file
  std::string output;                // empty: tarn-PROGRAM-PID.prof here
  std::string directory;             // directory of files without a given name; empty: the current one
  // A process that runs already (tarn attach); 0: this process starts the program.
  std::uint32_t program = 0;
  symbol_settings symbols;
  price_list prices;
  std::optional<recorded_command> command;  // stored in the program's own file
  // What the caller knows: kernel, thp, privilege, refused ...
  nlohmann::json meta = nlohmann::json::object();
};

struct finished_file {
  std::string path;
  std::string program;        // the name by which it was started
  std::uint32_t process = 0;  // 0: the file holds several processes
  std::string problem;        // why the file is incomplete; empty: it is complete
};

class recording {
 public:
  // Throws profile_error. Tries to open settings.output at once, so that an unusable name is reported before the
  // program runs.
  explicit recording(const recording_settings& settings);
  ~recording();
  recording(const recording&) = delete;
  recording& operator=(const recording&) = delete;

  // The value of session_variable for the program's environment; empty in mode faults.
  std::string place() const;
  // The descriptors of this process that place() names.
  std::vector<int> placed_descriptors() const;
  const fault_events& faults() const noexcept { return faults_; }

  // Handles new events. True: there were many, and the next drain should come soon.
  bool drain();
  // Tells the program's process id; and that it has ended, while it is still a zombie whose /proc entry can be
  // read.
  void program_started(std::uint32_t process);
  void program_ended(int wait_status);
  // Writes the file of a process as of now. Returns its path; `problem`: why there is none, or why it is
  // incomplete.
  std::string store_now(std::uint32_t process, std::string& problem);
  // The processes that are being recorded.
  std::vector<std::uint32_t> running() const;
  // Drains a last time and writes all files, also those of processes that still run.
  void finish();

  const std::vector<finished_file>& files() const noexcept { return files_; }
  // The program's own profile, after finish(); null: the program was never seen.
  const profile* main_profile() const noexcept { return main_profile_.get(); }
  // After finish(): all recorded processes, the costliest first; those without a file of their own are summed up by
  // name.
  const std::vector<process_summary>& processes() const noexcept { return summaries_; }
  // The profile of the costliest process with a file of its own. Null: there is none.
  const profile* costliest_profile() const noexcept {
    return costliest_profile_ ? costliest_profile_.get() : main_profile_.get();
  }
  std::string status_line() const;
  double lost_events() const noexcept { return lost_; }

 private:
  static constexpr std::size_t most_events = std::size_t{200} << 20;  // of a process

  void take_arrivals();
  void add_process(arrival&& from);
  void note_execs();
  std::uint64_t take_exec(std::uint32_t process, std::uint64_t until_ns);
  void find_begin(process_entry& process, const process_entry* earlier);
  void leave_out_earlier(process_entry& process, const process_entry* earlier) const;
  void end_earlier_image(process_entry& earlier, const usage_figures& usage);
  process_entry* by_process(std::uint32_t process);
  process_entry* by_serial(std::uint64_t serial);
  process_entry* parent_of(const process_entry& process);
  void look_for_rings(process_entry& process);
  bool drain_process(process_entry& process, std::uint64_t until_ns);
  void take_faults();
  bool give(page_fault& fault);           // true: `fault` was moved from, or counted
  bool give(const clock_sample& sample);  // likewise
  bool is_of_next_image(std::uint32_t process, std::uint64_t time_ns) const;
  void follow_processes();
  void place_faults();
  process_entry& add_seen_process(std::uint32_t pid, process_entry* parent, std::uint64_t time_ns);
  void look_after_processes(bool all);
  void add_counters(process_entry& process, bool at_end);
  static void raise_peak(process_entry& process, double resident_bytes);
  double read_kernel_peaks(process_entry& process) const;
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
  void fill(process_entry& process, bool last);
  void store(process_entry& process, bool last);
  void give_up_events(process_entry& process, bool last);
  void add_recorder_figures(process_entry& process);
  std::string why_without_clock(const process_entry& process) const;
  void fill_meta(process_entry& process, bool last);
  std::string file_name(const std::string& program, std::uint32_t process, const std::string& end,
                        int number) const;
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
  std::vector<std::unique_ptr<process_entry>> processes_;  // processes that are still recorded
  // Processes whose file is written except for its symbols.
  std::vector<std::unique_ptr<process_entry>> ended_;
  std::vector<page_fault> new_faults_;
  // Of images that have not arrived yet: faults, clock samples, and by the process's id when they were executed.
  std::vector<page_fault> early_faults_;
  std::vector<clock_sample> early_clock_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> executed_ns_;
  std::vector<mapping_event> new_mappings_;
  std::vector<process_event> new_processes_;
  std::vector<clock_sample> new_clock_;
  std::vector<finished_file> files_;
  std::unique_ptr<profile> main_profile_;
  std::unique_ptr<profile> costliest_profile_;  // null: it is main_profile_
  std::vector<process_summary> summaries_;
  small_processes small_;
  std::uint32_t main_process_ = 0;
  std::uint64_t main_started_ns_ = 0;
  int main_status_ = -1;
  std::uint64_t begin_ns_ = 0;  // on the raw clock
  double begin_seconds_ = 0;    // wall clock at begin_ns_, since 1970
  std::uint64_t last_look_ns_ = 0;
  std::size_t next_look_ = 0;      // index into processes_
  std::uint64_t last_serial_ = 0;  // of processes without a recorder (mode faults)
  malloc_code_reader malloc_codes_;
  double unplaced_faults_ = 0;
  double lost_ = 0;
};

}  // namespace tarn::profiler
