// SPDX-License-Identifier: MIT
#include "cli/cost/fault_rates.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/show/live_figures.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/proc/proc_status.hpp"

namespace tarn::cli {

namespace {

double ticks_per_second() { return static_cast<double>(sysconf(_SC_CLK_TCK)); }

fault_counters sum_of(fault_counters sum, double factor, const fault_counters& more) {
  for (double fault_counters::*each :
       {&fault_counters::faults, &fault_counters::major_faults, &fault_counters::huge_faults,
        &fault_counters::user_seconds, &fault_counters::system_seconds, &fault_counters::resident_bytes}) {
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
  // user nice system idle iowait irq softirq; of the further ones, guest is contained in the first two.
  std::istringstream first_line(stat.substr(0, stat.find('\n')));
  std::string name;
  std::array<double, 7> seconds{};
  std::size_t found = 0;
  for (first_line >> name; found < seconds.size() && first_line >> seconds[found]; ++found)
    seconds[found] /= ticks;
  if (name != "cpu" || found < 4 || !counts.contains("pgfault")) return std::nullopt;
  return fault_counters{.faults = counts["pgfault"],
                        .major_faults = counts["pgmajfault"],
                        .huge_faults = counts["thp_fault_alloc"],
                        .user_seconds = seconds[0] + seconds[1],
                        .system_seconds = seconds[2] + seconds[5] + seconds[6]};
}

std::optional<fault_counters> read_machine_counters() {
  return parse_machine_counters(text_of_file("/proc/vmstat"), text_of_file("/proc/stat"), ticks_per_second());
}

fault_counters counters_of(const profiler::process_counters& process) {
  return {.faults = process.minor_faults + process.major_faults,
          .major_faults = process.major_faults,
          .user_seconds = 1e-9 * process.user_ns,
          .system_seconds = 1e-9 * process.system_ns};
}

std::optional<fault_counters> read_family_counters(pid_t process) {
  const auto found = profiler::read_process(static_cast<std::uint32_t>(process));
  if (!found) return std::nullopt;
  fault_counters all = counters_of(*found) + counters_of(found->ended_children);
  all.resident_bytes = found->resident_bytes;
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
// So does growth from this many bytes a minute on.
constexpr double noticeable_growth = 16 * bytes_per_mib;

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
  rates.user_share = per_second(difference.user_seconds);
  rates.system_share = per_second(difference.system_seconds);
  return rates;
}

namespace {

struct rate_column {
  const char* heading;
  std::size_t width;
  std::string (*show)(const fault_rates& rates);
  std::optional<watched> only = std::nullopt;
};
constexpr rate_column rate_columns[] = {
    {"faults/s", 10, [](const fault_rates& r) { return rate(r.faults); }},
    {"major/s", 9, [](const fault_rates& r) { return rate(r.major_faults); }},
    {"huge/s", 8, [](const fault_rates& r) { return rate(r.huge_faults); }, watched::machine},
    {"faults %", 10, [](const fault_rates& r) { return show_percent(r.fault_share); }},
    {"zeroing %", 11, [](const fault_rates& r) { return show_percent(r.zeroing_share); }},
    {"sys %", 7, [](const fault_rates& r) { return show_percent(r.system_share); }},
    {"user %", 8, [](const fault_rates& r) { return show_percent(r.user_share); }},
    {"RSS MiB", 9, [](const fault_rates& r) { return show_mib(r.resident_bytes); }, watched::process},
    {"MiB/min", 9, [](const fault_rates& r) { return show_growth(r.resident_growth); }, watched::process},
};

template <class Cell>
std::string line_of(std::string text, watched what, Cell cell) {
  for (const rate_column& each : rate_columns)
    if (each.only.value_or(what) == what) text += pad_left(cell(each), each.width);
  return text;
}

}  // namespace

std::string rates_heading(watched what) {
  return line_of("   sec", what, [](const rate_column& each) { return std::string(each.heading); });
}

std::string rates_line(double at_seconds, const fault_rates& rates, watched what) {
  return line_of(fmt::format("{:>6.0f}", at_seconds), what,
                 [&rates](const rate_column& each) { return each.show(rates); });
}

std::string rates_summary(double seconds, const fault_rates& rates) {
  return fmt::format(
      "average of {:.{}f} s: {} faults/s, up to {} MiB/s of fresh memory; of a processor: page faults {} % (zeroing "
      "up to {} %), system {} %, user {} %",
      seconds, seconds < 10 ? 1 : 0, rate(rates.faults), show_mib(rates.fresh_bytes),
      show_percent(rates.fault_share), show_percent(rates.zeroing_share), show_percent(rates.system_share),
      show_percent(rates.user_share));
}

std::string rates_judgement(const fault_rates& rates) {
  const double growth = rates.resident_growth.value_or(0);
  const bool is_growing = growth >= noticeable_growth;
  // Most of the fresh memory stays in use, so it is not taken again.
  if (is_growing && (growth / 60 >= rates.fresh_bytes / 2 || rates.fault_share < noticeable_share)) {
    return fmt::format(
        "the process grows by {} MiB a minute, and keeps that memory; who allocates it: tarn attach PID",
        show_mib(growth));
  }
  if (rates.fault_share < noticeable_share)
    return "page faults take less than 1 % of a processor: nothing to do";
  return "if this lasts, memory goes back to the system and is taken again: recycled buffers, or an allocator that "
         "keeps memory (tarn run), avoid that";
}

nlohmann::json as_json(const fault_rates& rates) {
  return {{"faults_per_second", rates.faults},
          {"major_faults_per_second", rates.major_faults},
          {"huge_faults_per_second", rates.huge_faults},
          {"fault_share", rates.fault_share},
          {"zeroing_share", rates.zeroing_share},
          {"fresh_bytes_per_second", rates.fresh_bytes},
          {"user_share", rates.user_share},
          {"system_share", rates.system_share}};
}

}  // namespace tarn::cli
