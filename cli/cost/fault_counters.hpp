// SPDX-License-Identifier: MIT
// fault_counters: page faults and system time of the whole machine, of one process, or of a process and its
// descendants, as counted by /proc. No privileges are needed. Parsers are pure functions; the readers read /proc.
// Any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string_view>

#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

// Counts since the start of the machine or process.
struct fault_counters {
  double faults = 0;        // all, minor and major, those of huge pages too
  double major_faults = 0;  // those that read from disk
  double huge_faults = 0;   // those that gave a huge page; of the whole machine only
  double user_seconds = 0;
  double system_seconds = 0;
  double all_seconds = 0;  // of all processors, idle time too; of the whole machine only
};

// Parses /proc/vmstat and /proc/stat; nullopt if a needed line is missing.
std::optional<fault_counters> parse_machine_counters(std::string_view vmstat, std::string_view stat,
                                                     double ticks_per_second);
std::optional<fault_counters> read_machine_counters();
fault_counters counters_of(const profiler::process_counters& process);
// Counters of a process and all its descendants; of ended ones, those whose parent has waited for them.
std::optional<fault_counters> read_family_counters(pid_t process);

fault_counters operator-(const fault_counters& later, const fault_counters& earlier);
fault_counters operator+(const fault_counters& left, const fault_counters& right);

}  // namespace tarn::cli
