// SPDX-License-Identifier: MIT
// recorded_process: one process image, from the start of its recording to exec or to the end of the process: it brings
// what the process reports, and what the kernel reports of it, into its model, and writes its profile. Owned by the
// recording; used by its thread only. It is not moved: its parts know each other.
//
// Everything but its id and its user comes from the process's own memory, and can falsify its own figures only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "profiler/collect/process_code.hpp"
#include "profiler/collect/process_output.hpp"
#include "profiler/collect/process_usage.hpp"
#include "profiler/collect/process_watch.hpp"
#include "profiler/collect/recording_settings.hpp"
#include "profiler/collect/ring_set.hpp"
#include "profiler/proc/memory_kills.hpp"

namespace tarn::profiler {

// Rows of the events table of one process.
inline constexpr std::size_t most_events = std::size_t{200} << 20;

class recorded_process {
 public:
  // `around` must stay where it is. `memory`: null in mode faults.
  recorded_process(const recording_context& around, const model_settings& models, process_identity who,
                   const process_usage& usage, std::unique_ptr<process_memory> memory);
  recorded_process(const recorded_process&) = delete;
  recorded_process& operator=(const recorded_process&) = delete;

  const process_identity& identity() const noexcept { return who_; }
  const process_figures& last_figures() const noexcept { return usage_.last(); }
  const process_model& model() const noexcept { return model_; }
  bool has_recorder() const noexcept { return rings_.memory() != nullptr; }
  const std::string& path() const noexcept { return output_.path(); }
  const std::string& problem() const noexcept { return output_.problem(); }
  // The program's own process, in its current image.
  bool is_main() const;
  // By exec: a later image of the same process is recorded.
  bool is_superseded() const noexcept { return is_superseded_; }
  bool is_worth_a_file() const;

  // A forked process begins with its parent's modules, mappings and names.
  void inherit(const recorded_process& parent);
  void start_with(const process_figures& figures);
  void name(std::string program, std::vector<std::string> arguments);

  // Events.
  bool drain(std::uint64_t until_ns);
  void give(page_fault&& fault);
  void give(const clock_sample& sample, malloc_code_reader& mallocs);
  void map(const mapping_event& event) { code_.map(event); }  // mode faults
  void touch(const page_fault& fault);                        // mode faults
  void name_thread(std::uint32_t id, const std::string& name) { model_.name_thread_by_id(id, name); }

  // Reads what is due. True: the process has ended. `processes`: so many are looked at in turn. `meanwhile` is called often
  // while it takes long; what comes from processes may be taken in it.
  bool look(std::uint64_t now, std::size_t processes, const std::function<void()>& meanwhile);
  // Writes a checkpoint if one is due.
  void save_when_due(std::uint64_t now);
  // If it waits at its end: what its memory consists of, and which blocks can be reached. `meanwhile`: as in look.
  void look_at_end(const std::function<void()>& meanwhile);
  void read_counters(bool at_end);

  // By exec. `at_exec`: the process's figures at that time; null: not known.
  void supersede(const usage_figures* at_exec);
  // Takes its last events and counters.
  void end();
  void write(bool last);
  // Its small child has ended.
  void absorb(recorded_process& child);
  // Frees what only a running process needs. Requires end().
  void close();
  // Brings result() up to date.
  void fill(bool last);
  const profile& result() const noexcept { return result_; }
  // Adds symbols to the file, once nothing waits for the collector. Returns the profile. To be called last.
  profile finish_file();

 private:
  bool look_closely(std::uint64_t now);
  void raise_peak(double resident_bytes);
  double read_peaks();
  void ask_to_wait();
  std::string no_leaks_because() const;
  std::string why_not_seen_at_end() const;
  void fill_meta(bool last);
  void fill_recorder_figures();
  nlohmann::json refusals() const;
  std::string why_without_clock() const;
  void open_file();
  void store(bool last);
  void give_up_events(bool last);
  void flush_events();

  const recording_context& around_;
  process_identity who_;
  bool is_superseded_ = false;
  process_model model_;
  profile result_;  // modules, counters and source lines grow during the recording; each write sets the rest
  process_code code_;
  ring_set rings_;
  process_usage usage_;
  process_watch watch_;
  process_output output_;
  memory_kills kills_;
};

}  // namespace tarn::profiler
