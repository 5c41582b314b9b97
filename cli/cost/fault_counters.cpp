// SPDX-License-Identifier: MIT
#include "cli/cost/fault_counters.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "profiler/collect/proc_status.hpp"

namespace tarn::cli {

namespace {

std::optional<std::uint64_t> to_number(std::string_view word) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || rest != word.data() + word.size()) return std::nullopt;
  return number;
}

// The blank-separated words of `text`, at most `most` of them.
std::vector<std::string_view> words_of(std::string_view text, std::size_t most) {
  std::vector<std::string_view> words;
  while (words.size() < most) {
    const std::size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find_first_of(" \n", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return words;
}

// The number after "key " at the beginning of a line.
std::optional<std::uint64_t> number_of(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.starts_with(key) && line.size() > key.size() && line[key.size()] == ' ') {
      return to_number(line.substr(key.size() + 1));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

fault_counters counters_of(const profiler::process_counters& from) {
  fault_counters counters;
  counters.faults = from.minor_faults + from.major_faults;
  counters.major_faults = from.major_faults;
  counters.user_seconds = 1e-9 * from.user_ns;
  counters.system_seconds = 1e-9 * from.system_ns;
  return counters;
}

double ticks_per_second() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

// The entries of a /proc directory whose names are numbers; processes that end during the reading are left out.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    if (const auto number = to_number(entry->path().filename().string())) {
      numbers.push_back(static_cast<pid_t>(*number));
    }
    entry.increment(error);
  }
  return numbers;
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> children;
  // Each thread has its own list of children.
  const std::string folder = fmt::format("/proc/{}/task", process);
  for (const pid_t thread : numbers_in(folder)) {
    std::istringstream list(read_text(fmt::format("{}/{}/children", folder, thread)));
    pid_t child = 0;
    while (list >> child) children.push_back(child);
  }
  return children;
}

}  // namespace

std::optional<fault_counters> parse_machine_counters(std::string_view vmstat, std::string_view stat,
                                                     double ticks) {
  const auto faults = number_of(vmstat, "pgfault");
  const std::size_t end = std::min(stat.find('\n'), stat.size());
  // user nice system idle iowait irq softirq steal; the further columns (guest) are contained in the first two.
  const std::vector<std::string_view> words = words_of(stat.substr(0, end), 9);
  if (!faults || words.size() < 5 || words[0] != "cpu") return std::nullopt;
  std::array<double, 8> seconds{};
  fault_counters counters;
  for (std::size_t index = 1; index < words.size(); ++index) {
    const auto number = to_number(words[index]);
    if (!number) return std::nullopt;
    seconds[index - 1] = static_cast<double>(*number) / ticks;
    counters.all_seconds += seconds[index - 1];
  }
  counters.faults = static_cast<double>(*faults);
  counters.major_faults = static_cast<double>(number_of(vmstat, "pgmajfault").value_or(0));
  counters.huge_faults = static_cast<double>(number_of(vmstat, "thp_fault_alloc").value_or(0));
  counters.user_seconds = seconds[0] + seconds[1];
  counters.system_seconds = seconds[2] + seconds[5] + seconds[6];
  return counters;
}

std::optional<fault_counters> read_machine_counters() {
  return parse_machine_counters(read_text("/proc/vmstat"), read_text("/proc/stat"), ticks_per_second());
}

std::optional<process_status> read_process_status(pid_t process) {
  const auto figures = profiler::read_process(static_cast<std::uint32_t>(process));
  if (!figures) return std::nullopt;
  process_status status;
  status.id = process;
  status.name = figures->name;
  status.state = figures->state;
  status.start_ticks = figures->start_ticks;
  status.own = counters_of(*figures);
  status.with_ended_children = status.own + counters_of(figures->ended_children);
  return status;
}

std::optional<fault_counters> read_family_counters(pid_t process) {
  const auto status = read_process_status(process);
  if (!status) return std::nullopt;
  fault_counters all = status->with_ended_children;
  for (const pid_t child : children_of(process)) {
    if (const auto more = read_family_counters(child)) all = all + *more;
  }
  return all;
}

std::vector<process_status> read_all_processes() {
  std::vector<process_status> all;
  for (const pid_t id : numbers_in("/proc")) {
    if (auto status = read_process_status(id)) all.push_back(std::move(*status));
  }
  return all;
}

fault_counters operator-(const fault_counters& later, const fault_counters& earlier) {
  return {later.faults - earlier.faults,
          later.major_faults - earlier.major_faults,
          later.huge_faults - earlier.huge_faults,
          later.user_seconds - earlier.user_seconds,
          later.system_seconds - earlier.system_seconds,
          later.all_seconds - earlier.all_seconds};
}

fault_counters operator+(const fault_counters& left, const fault_counters& right) {
  return {left.faults + right.faults,
          left.major_faults + right.major_faults,
          left.huge_faults + right.huge_faults,
          left.user_seconds + right.user_seconds,
          left.system_seconds + right.system_seconds,
          left.all_seconds + right.all_seconds};
}

}  // namespace tarn::cli
