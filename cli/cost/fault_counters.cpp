// SPDX-License-Identifier: MIT
#include "cli/cost/fault_counters.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>

#include "profiler/proc/proc_status.hpp"

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
std::optional<std::uint64_t> number_of(std::string_view text, const std::string& key) {
  const std::size_t at = text.starts_with(key + " ") ? 0 : text.find("\n" + key + " ") + 1;
  if (at == 0 && !text.starts_with(key + " ")) return std::nullopt;
  text.remove_prefix(at + key.size() + 1);
  return to_number(text.substr(0, text.find('\n')));
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double ticks_per_second() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

fault_counters sum_of(fault_counters sum, double factor, const fault_counters& more) {
  for (double fault_counters::*each :
       {&fault_counters::faults, &fault_counters::major_faults, &fault_counters::huge_faults,
        &fault_counters::user_seconds, &fault_counters::system_seconds, &fault_counters::all_seconds}) {
    sum.*each += factor * (more.*each);
  }
  return sum;
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

fault_counters counters_of(const profiler::process_counters& process) {
  fault_counters counters;
  counters.faults = process.minor_faults + process.major_faults;
  counters.major_faults = process.major_faults;
  counters.user_seconds = 1e-9 * process.user_ns;
  counters.system_seconds = 1e-9 * process.system_ns;
  return counters;
}

std::optional<fault_counters> read_family_counters(pid_t process) {
  const auto found = profiler::read_process(static_cast<std::uint32_t>(process));
  if (!found) return std::nullopt;
  fault_counters all = counters_of(*found) + counters_of(found->ended_children);
  for (const std::uint32_t child : profiler::children_of(found->id)) {
    if (const auto more = read_family_counters(static_cast<pid_t>(child))) all = all + *more;
  }
  return all;
}

fault_counters operator-(const fault_counters& later, const fault_counters& earlier) {
  return sum_of(later, -1, earlier);
}

fault_counters operator+(const fault_counters& left, const fault_counters& right) {
  return sum_of(left, 1, right);
}

}  // namespace tarn::cli
