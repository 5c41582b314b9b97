// SPDX-License-Identifier: MIT
// recording_process: what a recording keeps about one process image, from the start of its recording to exec or to
// the end of the process. Owned by class recording; used by its thread only. An entry must not be moved: its streams
// point to it and to its model. Invariant: rings[i] decodes ring i of `memory`.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "os/invariant.hpp"
#include "profiler/analyze/opened_elf.hpp"
#include "profiler/collect/event_stream.hpp"
#include "profiler/collect/fault_events.hpp"
#include "profiler/collect/jit_code.hpp"
#include "profiler/collect/leak_look.hpp"
#include "profiler/collect/malloc_code.hpp"
#include "profiler/collect/memory_regions.hpp"
#include "profiler/collect/memory_splitter.hpp"
#include "profiler/collect/process_memory.hpp"
#include "profiler/collect/process_model.hpp"
#include "profiler/collect/profile_file.hpp"
#include "profiler/collect/timeline.hpp"
#include "profiler/proc/proc_status.hpp"
#include "profiler/record/session.hpp"

namespace tarn::profiler {

// Limits on what a process may report; a program has some hundreds of modules at most.
inline constexpr std::size_t most_modules = 8192;
inline constexpr std::size_t most_lines = std::size_t{1} << 18;  // source lines of interpreted functions

struct ring_entry {
  event_stream stream;
  std::uint64_t reported = 0;  // the position that was last stored in the ring's `tail`
  bool has_next = false;       // the stream has a next event, at next_ns
  std::uint64_t next_ns = 0;   // since start_ns of the process
};

// The path by which the collector finds the library: a process that has called chroot may give one below its own root, a
// loader one relative to the folder of that time, and the file of a process is the loader if that was started.
std::string path_outside(std::uint32_t process, const loaded_elf& library);

// Times are on the raw clock (CLOCK_MONOTONIC_RAW) unless stated otherwise.
struct process_entry final : module_sink {
  explicit process_entry(const model_settings& settings) : model(settings) {}

  process_model model;
  std::unique_ptr<process_memory> memory;  // null in mode faults
  std::vector<ring_entry> rings;
  std::uint64_t serial = 0;         // by which children name their parent; 0: they cannot
  std::uint64_t parent_serial = 0;  // 0: not made by fork, or the parent is not known
  std::uint32_t pid = 0;            // from the kernel
  uid_t user = 0;                   // from the kernel, when the recording began
  std::uint32_t parent_pid = 0;
  std::string program;  // the executable file
  std::string command;  // the name by which it was started
  std::string allocator;
  std::vector<std::string> arguments;
  std::uint64_t start_ns = 0;     // where its times begin
  std::uint64_t recorded_ns = 0;  // when its recorder began; from start_ns to here the dynamic loader ran
  double start_seconds = 0;       // of start_ns, since 1970
  // Start time of the process in /proc, which tells it from a later process with the same id.
  std::uint64_t start_ticks = 0;
  usage_figures before;    // of the process at start_ns: what its figures do not include
  usage_figures at_start;  // of the process at recorded_ns
  process_figures last;    // the newest figures
  double peak_resident = 0;
  double peak_address_space = 0;  // 0: it has no limit, or was not read
  bool is_peak_exact = false;     // peak_resident is the kernel's own figure, read at the end
  // A ring or its header has values that no recorder writes: the program wrote them.
  bool overwritten = false;
  bool superseded = false;      // by exec: a later image of the same process is recorded
  double early_faults = 0;      // between start_ns and recorded_ns, except those on the recorder's memory
  double early_own_faults = 0;  // and those
  // Sums over small forked children, which have no file of their own. `model` includes what they allocated.
  struct {
    double processes = 0;
    double allocations = 0;
    double own_faults = 0;  // page faults taken by the recorder
    process_counters used;
  } children;
  std::optional<malloc_code> malloc_at;                       // looked up at the first clock sample
  std::vector<page_fault> faults;                             // not yet passed to `model`
  std::set<std::pair<std::string, std::uint64_t>> loaded_at;  // modules reported so far: path and base
  jit_code jit;
  profile result;  // modules, counters and source lines grow during the recording; each write sets the rest
  std::unique_ptr<profile_file> file;
  std::string path;
  std::string problem;         // why the file is missing or incomplete; empty: it is neither
  std::string without_events;  // why the file holds no events although they were wanted
  memory_regions regions;      // mode faults: the mappings by address
  timeline looks;              // decides when counters are read and which rows are kept
  memory_splitter memory_parts;
  std::uint64_t next_split_ns = 0;
  std::uint64_t split_spent_ns = 0;  // processor time spent on memory splits
  double split_resident = 0;         // highest resident memory at any memory split
  double split_live = 0;             // and the most live bytes
  bool asked = false;                // the process was asked to wait at its end, to be examined
  bool looked_at_end = false;        // it has waited and was examined; `leaks` is filled
  leak_answer leaks;
  std::uint64_t leak_look_ns = 0;  // duration of that examination
  std::uint64_t next_counters_ns = 0;
  std::uint64_t next_look_ns = 0;   // when to check whether it still runs, and to read its peak
  std::uint64_t next_names_ns = 0;  // when to read the names of its threads
  std::uint64_t next_checkpoint_ns = 0;

  // Its figures begin where its recorder began: it was attached, or its exec was not seen.
  bool is_loading_left_out() const { return before.minor_faults == at_start.minor_faults; }

  // The library's path is "" for the program itself.
  void loaded(loaded_elf library) override {
    if (library.path.empty()) library.path = program;
    if (result.modules.size() >= most_modules || !loaded_at.emplace(library.path, library.base).second)
      return;
    library.path = path_outside(pid, library);
    for (module_info& module : modules_of(library)) result.modules.push_back(std::move(module));
  }

  void validate() const {
    TARN_INVARIANT("recording_process", this, rings.empty() || memory != nullptr);
    for (std::size_t i = 0; i < rings.size(); ++i)
      TARN_INVARIANT("recording_process", this, rings[i].stream.words() == memory->words(i));
  }

  void told_line(std::uint64_t address, const source_frame& line) override {
    if (result.symbols.size() >= most_lines) return;
    result.symbols.try_emplace(address, 1, line);
  }
};

}  // namespace tarn::profiler
