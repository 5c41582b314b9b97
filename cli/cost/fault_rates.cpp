// SPDX-License-Identifier: MIT
#include "cli/cost/fault_rates.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

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

std::optional<fault_counters> parse_machine_counters(const std::string& vmstat, const std::string& stat,
                                                     double ticks) {
  std::map<std::string, double> counts;
  std::istringstream lines(vmstat);
  double count = 0;
  for (std::string name; lines >> name >> count;) counts[name] = count;
  // user nice system idle iowait irq softirq steal; the further columns (guest) are contained in the first two.
  std::istringstream first_line(stat.substr(0, stat.find('\n')));
  std::string name;
  std::array<double, 8> seconds{};
  std::size_t found = 0;
  for (first_line >> name; found < seconds.size() && first_line >> seconds[found]; ++found)
    seconds[found] /= ticks;
  if (name != "cpu" || found < 4 || !counts.contains("pgfault")) return std::nullopt;
  fault_counters counters;
  counters.faults = counts["pgfault"];
  counters.major_faults = counts["pgmajfault"];
  counters.huge_faults = counts["thp_fault_alloc"];
  counters.user_seconds = seconds[0] + seconds[1];
  counters.system_seconds = seconds[2] + seconds[5] + seconds[6];
  counters.all_seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return counters;
}

std::optional<fault_counters> read_machine_counters() {
  return parse_machine_counters(text_of_file("/proc/vmstat"), text_of_file("/proc/stat"), ticks_per_second());
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

namespace {

constexpr double bytes_per_mib = 1 << 20;
// From this share on, page faults deserve attention: a hundredth of one processor.
constexpr double noticeable_share = 0.01;

std::string milliseconds(double share) {
  const double value = 1000 * share;
  return fmt::format("{:.{}f} ms/s", value, value < 9.95 ? 1 : 0);
}

std::string rate(double value) {
  return value > 0 && value < 1 ? fmt::format("{:.1f}", value) : profiler::say_count(value);
}

}  // namespace

fault_rates rates_of(const fault_counters& difference, double seconds, const memory_prices& prices) {
  fault_rates rates;
  if (seconds <= 0) return rates;
  const auto per_second = [seconds](double amount) { return std::max(0.0, amount) / seconds; };
  rates.faults = per_second(difference.faults);
  rates.major_faults = per_second(difference.major_faults);
  rates.huge_faults = per_second(difference.huge_faults);
  const double small = std::max(0.0, rates.faults - rates.huge_faults);
  const double huge_price =
      prices.huge_fault_seconds > 0
          ? prices.huge_fault_seconds
          : prices.zeroing_per_mib * static_cast<double>(prices.huge_page_bytes) / bytes_per_mib;
  rates.fault_share = small * prices.fault_seconds + rates.huge_faults * huge_price;
  rates.fresh_bytes = small * static_cast<double>(prices.page_bytes) +
                      rates.huge_faults * static_cast<double>(prices.huge_page_bytes);
  rates.zeroing_share = rates.fresh_bytes / bytes_per_mib * prices.zeroing_per_mib;
  const double whole = difference.all_seconds > 0 ? difference.all_seconds : seconds;
  rates.user_share = std::max(0.0, difference.user_seconds) / whole;
  rates.system_share = std::max(0.0, difference.system_seconds) / whole;
  return rates;
}

std::string rates_heading(bool huge) {
  std::string line = fmt::format("{:>8} {:>10} {:>9}", "time", "faults/s", "major/s");
  if (huge) line += fmt::format(" {:>8}", "huge/s");
  return line + fmt::format(" {:>11} {:>11} {:>8} {:>8}", "in faults", "zeroing", "system", "user");
}

std::string rates_line(double at_seconds, const fault_rates& rates, bool huge) {
  std::string line =
      fmt::format("{:>6.0f} s {:>10} {:>9}", at_seconds, rate(rates.faults), rate(rates.major_faults));
  if (huge) line += fmt::format(" {:>8}", rate(rates.huge_faults));
  return line + fmt::format(" {:>11} {:>11} {:>8} {:>8}", milliseconds(rates.fault_share),
                            milliseconds(rates.zeroing_share), profiler::say_share(rates.system_share),
                            profiler::say_share(rates.user_share));
}

std::string rates_summary(double seconds, const fault_rates& rates) {
  return fmt::format(
      "average over {:.{}f} s: {} faults/s, at most {}/s of fresh memory; about {} in page "
      "faults, at most {} of it for zeroing; system {}, user {}",
      seconds, seconds < 10 ? 1 : 0, rate(rates.faults), profiler::say_bytes(rates.fresh_bytes),
      milliseconds(rates.fault_share), milliseconds(rates.zeroing_share),
      profiler::say_share(rates.system_share), profiler::say_share(rates.user_share));
}

std::string rates_judgement(const fault_rates& rates) {
  if (rates.fault_share < noticeable_share)
    return "page faults take less than 1 % of one processor: nothing to do";
  return fmt::format(
      "page faults take about {} of one processor. If this lasts, the program returns memory to "
      "the system and takes it again; recycled buffers, or an allocator that keeps memory (tarn "
      "run), avoid that",
      profiler::say_share(rates.fault_share));
}

nlohmann::json as_json(const fault_rates& rates) {
  return {{"faults_per_second", rates.faults},
          {"major_faults_per_second", rates.major_faults},
          {"huge_faults_per_second", rates.huge_faults},
          {"fault_milliseconds_per_second", 1000 * rates.fault_share},
          {"zeroing_milliseconds_per_second", 1000 * rates.zeroing_share},
          {"fresh_bytes_per_second", rates.fresh_bytes},
          {"user_share", rates.user_share},
          {"system_share", rates.system_share}};
}

}  // namespace tarn::cli
