// SPDX-License-Identifier: MIT
// fault_rates: page faults and system time of the whole machine, of one process, or of a process and its descendants, as
// counted by /proc, for which no privileges are needed; their cost per second, from two readings and the prices; and the lines
// that `tarn cost --watch` prints. All but the readers are pure functions. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/cost/memory_prices.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

// Counts since the start of the machine or process.
struct fault_counters {
  double faults = 0;        // all, minor and major, those of huge pages too
  double major_faults = 0;  // those that read from disk
  double huge_faults = 0;   // those that gave a huge page; of the whole machine only
  double user_seconds = 0;
  double system_seconds = 0;
  double resident_bytes = 0;  // now; of a process or a family
};

// Parses /proc/vmstat and /proc/stat; nullopt if a needed line is missing.
std::optional<fault_counters> parse_machine_counters(const std::string& vmstat, const std::string& stat,
                                                     double ticks_per_second);
std::optional<fault_counters> read_machine_counters();
fault_counters counters_of(const profiler::process_counters& process);
// Counters of a process and all its descendants; of ended ones, those whose parent has waited for them.
std::optional<fault_counters> read_family_counters(pid_t process);

fault_counters operator-(const fault_counters& later, const fault_counters& earlier);
fault_counters operator+(const fault_counters& left, const fault_counters& right);

// All shares are of one processor's time.
struct fault_rates {
  double faults = 0;  // per second, like the next two
  double major_faults = 0;
  double huge_faults = 0;
  double fault_share = 0;    // of all page faults, by the prices
  double zeroing_share = 0;  // upper bound of its part in zeroing
  double fresh_bytes = 0;    // upper bound of the memory backed per second
  double user_share = 0;
  double system_share = 0;
  double resident_bytes = 0;
  std::optional<double> resident_growth = {};  // bytes per minute
};

// `seconds`: time between the readings. Counters that have gone back (a child was being reaped) count as unchanged.
fault_rates rates_of(const fault_counters& difference, double seconds, const memory_prices& prices);

// Of the whole machine, with huge pages; of a process or a family, with resident memory.
enum class watched : std::uint8_t { machine, process };
std::string rates_heading(watched what);
std::string rates_line(double at_seconds, const fault_rates& rates, watched what);
// "average of 12 s: …"
std::string rates_summary(double seconds, const fault_rates& rates);
// Whether the rates are high, and what to do about it.
std::string rates_judgement(const fault_rates& rates);
nlohmann::json as_json(const fault_rates& rates);

}  // namespace tarn::cli
