// SPDX-License-Identifier: MIT
// recording_process: the state of a recording for one process image, from the start of its recording to exec or to
// its end. Owned by the recording, for one thread. Invariant: ring i of `rings` is ring i of `memory`.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "profiler/collect/event_stream.hpp"
#include "profiler/collect/leak_look.hpp"
#include "profiler/collect/malloc_code.hpp"
#include "profiler/collect/memory_regions.hpp"
#include "profiler/collect/memory_splitter.hpp"
#include "profiler/collect/proc_status.hpp"
#include "profiler/collect/process_memory.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/collect/timeline.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/store_profile.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

// Limits for what a process may tell; a program has some hundreds of modules at most.
inline constexpr std::size_t most_modules = 8192;
inline constexpr std::size_t most_lines = std::size_t{1} << 18;  // source lines of interpreted functions

struct ring_entry {
  event_stream stream;
  std::uint64_t reported = 0;
  bool has_next = false;
  std::uint64_t next_ns = 0;
};

// One process image: from a start of recording to exec or the end.
struct process_entry final : module_sink {
  explicit process_entry(const model_settings& settings) : model(settings) {}

  process_model model;
  std::unique_ptr<process_memory> memory;  // null in mode faults
  std::vector<ring_entry> rings;           // of `memory`
  std::uint64_t serial = 0;
  std::uint64_t parent_serial = 0;
  std::uint32_t pid = 0;  // from the kernel
  uid_t user = 0;         // from the kernel, when the recording began
  std::uint32_t parent_pid = 0;
  std::string program;  // the executable file
  std::string command;  // the name by which it was started
  std::string allocator;
  std::vector<std::string> arguments;
  std::uint64_t start_ns = 0;     // on the raw clock
  double start_seconds = 0;       // since 1970
  std::uint64_t start_ticks = 0;  // start time of the process, from /proc
  usage_figures at_start;
  process_figures last;  // the newest figures
  bool has_last = false;
  double peak_resident = 0;
  bool is_peak_exact = false;  // peak_resident is the kernel's own figure, read at the end
  // Its ring or words were overwritten: it contains words that no recorder writes.
  bool overwritten = false;
  bool superseded = false;  // by exec: a later image of the same process is recorded
  double early_faults = 0;  // faults before the recording began, except those on the recorder's memory
  // Sums over small forked children, whose profile is merged into this process's: the model has their blocks, this
  // has the rest.
  struct {
    double processes = 0;
    double allocations = 0;
    double own_faults = 0;  // the recorder's
    process_counters used;
  } children;
  std::optional<malloc_code> malloc_at;  // found at the first clock sample
  std::vector<page_fault> faults;
  std::size_t next_fault = 0;
  std::set<std::pair<std::string, std::uint64_t>> loaded_at;  // modules told so far: path and base
  profile result;  // filled when it is written; modules and counters are collected here
  std::unique_ptr<table_writer> file;
  std::string path;
  std::string problem;
  std::string without_events;  // why the file holds no events although they were wanted
  bool has_events = false;
  bool has_command = false;  // the command is in the file
  stored_rows stored;
  memory_regions regions;  // mode faults: the mappings by address
  timeline looks;
  memory_splitter memory_parts;
  std::uint64_t next_split_ns = 0;
  std::uint64_t split_spent_ns = 0;
  double split_resident = 0;   // highest resident memory at any memory split
  bool asked = false;          // the process was asked to wait at its end
  bool looked_at_end = false;  // it has waited, and `leaks` is filled
  leak_answer leaks;
  std::uint64_t leak_look_ns = 0;
  std::uint64_t next_counters_ns = 0;
  std::uint64_t next_look_ns = 0;  // next check whether it still runs, and of its peak
  std::uint64_t next_names_ns = 0;
  std::uint64_t next_checkpoint_ns = 0;

  void loaded(const std::string& path_there, std::uint64_t base, std::uint64_t start,
              std::uint64_t end) override {
    const std::string& file_path = path_there.empty() ? program : path_there;
    if (result.modules.size() >= most_modules || !loaded_at.emplace(file_path, base).second) return;
    for (module_info& module : modules_of(file_path, base, start, end)) {
      result.modules.push_back(std::move(module));
    }
  }

  void told_line(std::uint64_t address, const source_frame& line) override {
    if (result.symbols.size() >= most_lines) return;
    result.symbols.try_emplace(address, 1, line);
  }
};

}  // namespace tarn::profiler
