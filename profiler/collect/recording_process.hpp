// SPDX-License-Identifier: MIT
// recording_process: what a recording knows of one process image, from a start of recording to exec or the end. Owned by
// the recording, for one thread. Invariant: ring i of `rings` is ring i of `memory`.
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
#include "profiler/collect/process_memory.hpp"
#include "profiler/collect/recording.hpp"
#include "profiler/collect/timeline.hpp"

namespace tarn::profiler {

// What a process may tell of; a program has some hundreds at most.
inline constexpr std::size_t most_modules = 8192;
inline constexpr std::size_t most_lines = std::size_t{1} << 18;  // of scripts

struct recording::ring_entry {
  event_stream stream;
  std::uint64_t reported = 0;
  bool has_next = false;
  std::uint64_t next_ns = 0;
};

// One process image: from a start of recording to exec or the end.
struct recording::process_entry final : module_sink {
  explicit process_entry(const model_settings& settings) : model(settings) {}

  process_model model;
  std::unique_ptr<process_memory> memory;  // null in mode faults
  std::vector<ring_entry> rings;           // of `memory`
  std::uint64_t serial = 0;
  std::uint64_t parent_serial = 0;
  std::uint32_t pid = 0;  // by the kernel's word
  uid_t user = 0;         // likewise, when it began
  std::uint32_t parent_pid = 0;
  std::string program;  // the executable file
  std::string command;  // what it was started as
  std::string allocator;
  std::vector<std::string> arguments;
  std::uint64_t start_ns = 0;     // on the raw clock
  double start_seconds = 0;       // since 1970
  std::uint64_t start_ticks = 0;  // of the process, as /proc has it
  usage_figures at_start;
  process_figures last;  // the newest that is known
  bool has_last = false;
  double peak_resident = 0;
  bool is_peak_exact = false;  // the kernel's own figure, of the end
  bool overwritten = false;    // some of what it told: no recorder writes such words
  bool superseded = false;     // by a later image of the same process
  double early_faults = 0;     // seen before the recording began, without those on the recorder's memory
  // What small forked children did is this process's: the model has their blocks, this the rest.
  struct {
    double processes = 0;
    double allocations = 0;
    double own_faults = 0;  // the recorder's
    process_figures used;
  } children;
  std::optional<malloc_code> malloc_at;  // looked for at the first sample of the clock
  std::vector<page_fault> faults;
  std::size_t next_fault = 0;
  std::set<std::pair<std::string, std::uint64_t>> loaded_at;  // modules that were told: path and base
  profile result;                                             // modules and counters are kept here
  std::unique_ptr<table_writer> file;
  std::string path;
  std::string problem;
  std::string without_events;  // why the file holds none although they were wanted
  bool has_events = false;
  bool has_command = false;  // in the file
  stored_rows stored;
  memory_regions regions;  // mode faults: what lies where
  timeline looks;
  memory_splitter memory_parts;
  std::uint64_t next_split_ns = 0;
  std::uint64_t split_spent_ns = 0;
  double split_resident = 0;   // the most at any look at what the memory consists of
  bool asked = false;          // to wait at its end
  bool looked_at_end = false;  // it has waited, and `leaks` is there
  leak_answer leaks;
  std::uint64_t leak_look_ns = 0;
  std::uint64_t next_counters_ns = 0;
  std::uint64_t next_look_ns = 0;  // whether it still runs, and its peak
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
