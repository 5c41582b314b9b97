// SPDX-License-Identifier: MIT
// proc_status: what /proc tells about a process: its counters, memory, threads and children. A process may end at any
// moment; then there is no answer. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tarn::profiler {

struct process_counters {
  double minor_faults = 0;
  double major_faults = 0;
  double user_ns = 0;
  double system_ns = 0;
};

struct process_figures : process_counters {
  std::uint32_t id = 0;
  std::string name;  // printable
  char state = '?';
  std::uint64_t start_ticks = 0;  // start time; tells a process from a later one with the same id
  double resident_bytes = 0;
  process_counters ended_children;  // of children that were waited for, and of theirs

  bool has_ended() const { return state == 'Z' || state == 'X'; }
};

std::optional<process_figures> read_process(std::uint32_t process);
// Parses /proc/PID/stat; a name may contain blanks and parentheses.
std::optional<process_figures> parse_process(std::string_view text, double ticks_per_second,
                                             double page_bytes);
// What the text of /proc/PID/stat says of the image that the process executes: where its code, its first stack, its data and
// its arguments are, as one text. Empty: the text is none. Zeros: this process may not trace that one.
std::string image_addresses(std::string_view text);
// The content of /proc/PID/`name`; empty: the process is gone, or the file may not be read.
std::string proc_text(std::uint32_t process, const char* name);
// The value after "name:" in the text of /proc/PID/status; empty: there is no such line.
std::string status_line(std::string_view text, std::string_view name);
// The entries of a folder of /proc that are numbers: processes of "/proc", threads of a process.
std::vector<std::uint32_t> numbers_in(const std::string& folder);
std::vector<std::uint32_t> threads_of(std::uint32_t process);  // its first thread first
std::vector<std::uint32_t> children_of(std::uint32_t process);
double resident_bytes_of(std::uint32_t process);  // VmRSS; 0: it has ended
// VmHWM, the peak of resident memory since its exec; 0: it has ended.
double peak_resident_of(std::uint32_t process);
double peak_address_space_of(std::uint32_t process);  // VmPeak; 0: it has ended
std::vector<std::pair<std::uint32_t, std::string>> thread_names(std::uint32_t process);
std::vector<std::string> command_line_of(std::uint32_t process);

}  // namespace tarn::profiler
