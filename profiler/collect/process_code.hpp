// SPDX-License-Identifier: MIT
// process_code: the code that a process has: the files that it has loaded, the lines of interpreted functions, code
// made at run time, and which of it is malloc. Owned by the recording of the process, for one thread.
//
// Modules and lines go into the process's profile as they are reported. Invariant: each file counts once at each base;
// a process has at most most_modules modules and most_lines lines, whatever it reports.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "profiler/collect/event_stream.hpp"
#include "profiler/collect/fault_events.hpp"
#include "profiler/collect/jit_code.hpp"
#include "profiler/collect/malloc_code.hpp"
#include "profiler/collect/memory_regions.hpp"
#include "profiler/collect/process_identity.hpp"

namespace tarn::profiler {

// Limits on what a process may report; a program has some hundreds of modules at most.
inline constexpr std::size_t most_modules = 8192;
inline constexpr std::size_t most_lines = std::size_t{1} << 18;  // source lines of interpreted functions

class process_code final : public module_sink {
 public:
  // Both must stay where they are.
  process_code(const process_identity& who, profile& into) : who_(&who), into_(&into) {}

  // A forked process has what its parent had loaded.
  void inherit(const process_code& parent);
  // The library's path is "" for the program itself.
  void loaded(loaded_elf library) override;
  void add_script_line(std::uint64_t address, const source_frame& line) override;
  // Mode faults: a mapping that the kernel has reported.
  void map(const mapping_event& event);
  const memory_regions& regions() const noexcept { return regions_; }

  // Whose code a sample of the clock is in; empty: malloc's code is not known, and the times of timed calls stand
  // alone.
  std::optional<process_model::code> at(const clock_sample& sample, const process_page& page,
                                        malloc_code_reader& mallocs);
  // Why it is not known, for the profile; empty: it is, or no sample has come.
  std::string why_unknown() const;

  void look_at_generated() { jit_.look_at(who_->pid, who_->start_ticks); }
  void name_generated() { jit_.name_in(*into_); }

 private:
  const process_identity* who_;
  profile* into_;
  std::set<std::pair<std::string, std::uint64_t>> loaded_;  // modules reported so far: path and base
  memory_regions regions_;                                  // mode faults
  std::optional<malloc_code> malloc_;                       // looked up at the first clock sample
  jit_code jit_;
};

}  // namespace tarn::profiler
