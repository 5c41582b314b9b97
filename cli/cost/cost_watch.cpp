// SPDX-License-Identifier: MIT
#include "cli/cost/cost_watch.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/cost/fault_rates.hpp"
#include "cli/launch/environment.hpp"
#include "cli/launch/foreground.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr int lines_per_heading = 20;
constexpr std::size_t most_named = 3;
constexpr double smallest_named_part = 0.01;

// A full disk or a closed pipe ends the watch. What goes to stderr beside a program does not.
template <typename... values>
void print_on(std::FILE* stream, fmt::format_string<values...> format, values&&... arguments) {
  const std::string text = fmt::format(format, std::forward<values>(arguments)...);
  stream == stderr ? write_message(text) : fmt::print(stream, "{}", text);
}

// Turns readings of the counters into lines and, at the end, a summary.
class watch_log {
 public:
  watch_log(const memory_prices& prices, const watch_settings& settings, std::FILE* stream, bool huge)
      : prices_(prices), settings_(settings), stream_(stream), huge_(huge), begin_(monotonic_seconds()) {}

  void add(const fault_counters& counters) {
    const double now = monotonic_seconds();
    if (!first_) {
      first_ = counters;
    } else {
      print(now, rates_of(counters - last_, now - last_at_, prices_));
    }
    last_ = counters;
    last_at_ = now;
  }

  // Prints the summary of the time between the first and the last reading.
  void finish() {
    if (first_) finish(last_ - *first_, last_at_ - begin_);
  }
  void finish(const fault_counters& difference, double seconds) {
    const fault_rates rates = rates_of(difference, seconds, prices_);
    if (stream_ != nullptr) {
      const std::string text = rates_summary(seconds, rates) + "\n" + rates_judgement(rates);
      print_on(stream_, "{}\n", fold(text, terminal_width(fileno(stream_))));
      flush(stream_);
    }
    write_json(seconds, rates, true);
  }
  double seconds() const { return last_at_ - begin_; }
  double all_faults() const { return first_ ? last_.faults - first_->faults : 0; }

 private:
  void print(double now, const fault_rates& rates) {
    if (stream_ != nullptr) {
      if (lines_++ % lines_per_heading == 0) print_on(stream_, "{}\n", rates_heading(huge_));
      print_on(stream_, "{}\n", rates_line(now - begin_, rates, huge_));
      flush(stream_);
    }
    write_json(now - begin_, rates, false);
  }

  void write_json(double seconds, const fault_rates& rates, bool summary) {
    if (!settings_.json) return;
    nlohmann::json object = as_json(rates);
    object["seconds"] = seconds;
    object["summary"] = summary;
    print_on(settings_.json, "{}\n", json_text(object));
    flush(settings_.json);
  }

  // At once, not when the buffer is full.
  static void flush(std::FILE* stream) {
    stream == stdout ? flush_standard_output() : void(std::fflush(stream));
  }

  const memory_prices& prices_;
  const watch_settings& settings_;
  std::FILE* stream_;
  bool huge_;
  double begin_;
  std::optional<fault_counters> first_;
  fault_counters last_;
  double last_at_ = 0;
  int lines_ = 0;
};

enum class watch_end { told, time_is_up, gone };

// Reads the counters until a signal, the end of the time, or until `read` returns nothing.
watch_end follow(watch_log& log, const watch_settings& settings,
                 const std::function<std::optional<fault_counters>()>& read) {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const double begin = monotonic_seconds();
  double next = begin;
  for (;;) {
    const auto counters = read();
    if (!counters) return watch_end::gone;
    log.add(*counters);
    const double now = monotonic_seconds();
    if (settings.duration_seconds && now - begin >= *settings.duration_seconds) return watch_end::time_is_up;
    next = std::max(next + settings.interval_seconds, now);
    if (settings.duration_seconds) next = std::min(next, begin + *settings.duration_seconds);
    if (signals.take(next - now) != 0) {
      if (const auto last = read()) log.add(*last);
      return watch_end::told;
    }
  }
}

// For a program the text goes to stderr in any case.
std::FILE* stream_of(const watch_settings& settings) { return settings.json ? stderr : stdout; }

// Ends the line on which the terminal has shown ^C.
void end_line(watch_end end, std::FILE* stream) {
  if (end == watch_end::told && isatty(fileno(stream)) == 1) print_on(stream, "\n");
}

struct process_faults {
  std::string name;
  std::uint32_t id = 0;
  double faults = 0;
};

using process_list = std::vector<profiler::process_figures>;

// All processes that are visible in /proc.
process_list read_all_processes() {
  process_list all;
  for (const std::uint32_t id : profiler::numbers_in("/proc")) {
    if (auto found = profiler::read_process(id)) all.push_back(std::move(*found));
  }
  return all;
}

// Names the running processes with the most of the `faults` since `before`.
std::string name_the_most(const process_list& before, double faults, double seconds) {
  std::map<std::pair<std::uint32_t, std::uint64_t>, double> earlier;
  for (const auto& one : before) earlier[{one.id, one.start_ticks}] = counters_of(one).faults;
  std::vector<process_faults> all;
  double sum = 0;
  for (const auto& one : read_all_processes()) {
    const double more = counters_of(one).faults - earlier[{one.id, one.start_ticks}];
    if (one.id == static_cast<std::uint32_t>(getpid()) || more <= 0) continue;
    all.push_back({one.name, one.id, more});
    sum += more;
  }
  std::sort(all.begin(), all.end(), [](const process_faults& left, const process_faults& right) {
    return left.faults > right.faults;
  });
  std::vector<std::string> words;
  for (const process_faults& one : all) {
    if (words.size() == most_named || one.faults < smallest_named_part * sum) break;
    words.push_back(fmt::format("{} ({}) {}/s", one.name, one.id, profiler::say_count(one.faults / seconds)));
  }
  if (words.empty()) return "no process that is still running caused any";
  std::string text =
      fmt::format("most of them: {}; to watch one: tarn cost --watch {}", join(words, ", "), all.front().id);
  const double ended = 1 - sum / std::max(faults, 1.0);
  // The total and the processes' counts are not of the same moment, so a small difference is no remainder.
  if (ended > 0.1) text += fmt::format("; {:.0f} % by processes that have ended or are hidden", 100 * ended);
  return text;
}

}  // namespace

void watch_machine(const memory_prices& prices, const watch_settings& settings) {
  if (!read_machine_counters()) {
    throw cli_error(exit_code::refused,
                    "this system does not report its page faults (pgfault in /proc/vmstat)",
                    "Watch a process instead: tarn cost --watch PID");
  }
  const process_list processes = read_all_processes();
  watch_log log(prices, settings, stream_of(settings), true);
  const watch_end end = follow(log, settings, read_machine_counters);
  end_line(end, stream_of(settings));
  log.finish();
  if (log.seconds() > 0)
    print_on(stream_of(settings), "{}\n", name_the_most(processes, log.all_faults(), log.seconds()));
}

void watch_process(pid_t process, const memory_prices& prices, const watch_settings& settings) {
  const auto look = [process] { return profiler::read_process(static_cast<std::uint32_t>(process)); };
  const auto begin = look();
  if (!begin || begin->has_ended()) throw no_such_process(std::to_string(process));
  print_on(stream_of(settings),
           "{} ({}), only this process; system and user time are parts of one processor's time\n",
           begin->name, process);
  watch_log log(prices, settings, stream_of(settings), false);
  bool ended = false;
  const watch_end end = follow(log, settings, [&]() -> std::optional<fault_counters> {
    const auto status = look();
    // Another process may have got the id since.
    if (ended || !status || status->start_ticks != begin->start_ticks) return std::nullopt;
    // A zombie: its final counts can still be read.
    ended = status->has_ended();
    return counters_of(*status);
  });
  end_line(end, stream_of(settings));
  if (end == watch_end::gone) print_on(stream_of(settings), "process {} has ended\n", process);
  log.finish();
}

int watch_program(const std::vector<std::string>& words, const memory_prices& prices,
                  const watch_settings& settings) {
  child_request request;
  request.variables = environment::current();
  request.path = locate_program(words.front(), request.variables);
  request.arguments = words;
  watch_log log(prices, settings, settings.json != nullptr ? nullptr : stderr, false);
  foreground_look each;
  each.interval_seconds = settings.interval_seconds;
  each.look = [&log](pid_t program) {
    if (const auto counters = read_family_counters(program)) log.add(*counters);
  };
  const foreground_result result = run_in_foreground(request, &each);
  fault_counters all;
  all.faults = static_cast<double>(result.usage.ru_minflt + result.usage.ru_majflt);
  all.major_faults = static_cast<double>(result.usage.ru_majflt);
  all.user_seconds = seconds_of(result.usage.ru_utime);
  all.system_seconds = seconds_of(result.usage.ru_stime);
  if (settings.json == nullptr) print_message("tarn: {}\n", format_exit(result.wait_status));
  log.finish(all, result.wall_seconds);
  return result.wait_status;
}

}  // namespace tarn::cli
