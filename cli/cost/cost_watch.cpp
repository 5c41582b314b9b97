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
#include "cli/show/live_figures.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/terminal.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr int lines_per_heading = 20;
constexpr std::size_t most_named = 5;
constexpr double seconds_between_keys = 0.05;

// A full disk or a closed pipe ends the watch. What goes to stderr beside a program does not.
template <class... values>
void print_on(std::FILE* stream, fmt::format_string<values...> format, values&&... arguments) {
  const std::string text = fmt::format(format, std::forward<values>(arguments)...);
  stream == stderr ? write_message(text) : fmt::print(stream, "{}", text);
}

// Turns readings of the counters into lines and, at the end, a summary.
class watch_log {
 public:
  watch_log(const memory_prices& prices, const watch_settings& settings, std::FILE* stream, watched what)
      : prices_(prices), settings_(settings), stream_(stream), what_(what), begin_(monotonic_seconds()) {}

  // The rates since the last reading; nothing at the first one.
  std::optional<fault_rates> add(const fault_counters& counters) {
    const double now = monotonic_seconds();
    growth_.add(now, {{0, counters.resident_bytes}});
    std::optional<fault_rates> rates;
    if (first_) {
      rates = rates_of(counters - last_, now - last_at_, prices_);
      rates->resident_bytes = counters.resident_bytes;
      rates->resident_growth = growth_.per_minute(now, 0, counters.resident_bytes);
    } else {
      first_ = counters;
    }
    last_ = counters;
    last_at_ = now;
    return rates;
  }

  void print(const fault_rates& rates) {
    if (stream_ != nullptr) {
      if (lines_++ % lines_per_heading == 0) print_on(stream_, "{}\n", rates_heading(what_));
      print_on(stream_, "{}\n", rates_line(seconds(), rates, what_));
      flush(stream_);
    }
    write_json(seconds(), rates, false);
  }

  // Prints the summary of the time between the first and the last reading.
  void finish() {
    if (first_) finish(last_ - *first_, seconds());
  }
  void finish(const fault_counters& difference, double seconds) {
    fault_rates rates = rates_of(difference, seconds, prices_);
    if (what_ == watched::process && seconds > 0)
      rates.resident_growth = 60 * difference.resident_bytes / seconds;
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
  watched what_;
  double begin_;
  std::optional<fault_counters> first_;
  fault_counters last_;
  double last_at_ = 0;
  growth_log growth_;
  int lines_ = 0;
};

enum class watch_end { interrupted, time_is_up, gone };

// False: a signal, or the key q, has ended the watch before `next`.
bool wait_until(double next, const held_signals& signals, terminal* screen) {
  do {
    const double left = next - monotonic_seconds();
    if (signals.take(screen == nullptr ? left : std::min(left, seconds_between_keys)) != 0) return false;
    while (const auto key = screen == nullptr ? std::nullopt : screen->key()) {
      if (*key == 'q' || *key == 3) return false;  // ^C
    }
  } while (monotonic_seconds() < next);
  return true;
}

// Reads the counters until a signal, the end of the time, or until `read` returns nothing. `show` gets the rates since the
// last reading.
watch_end follow(watch_log& log, const watch_settings& settings,
                 const std::function<std::optional<fault_counters>()>& read,
                 const std::function<void(const fault_rates&)>& show, terminal* screen = nullptr) {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const double begin = monotonic_seconds();
  double next = begin;
  for (;;) {
    const auto counters = read();
    if (!counters) return watch_end::gone;
    if (const auto rates = log.add(*counters)) show(*rates);
    const double now = monotonic_seconds();
    if (settings.duration_seconds && now - begin >= *settings.duration_seconds) return watch_end::time_is_up;
    next = std::max(next + settings.interval_seconds, now);
    if (settings.duration_seconds) next = std::min(next, begin + *settings.duration_seconds);
    if (!wait_until(next, signals, screen)) {
      const auto last = screen == nullptr ? read() : std::nullopt;
      if (last) {
        if (const auto rates = log.add(*last)) show(*rates);
      }
      return watch_end::interrupted;
    }
  }
}

// For a program the text goes to stderr in any case.
std::FILE* stream_of(const watch_settings& settings) { return settings.json ? stderr : stdout; }

// Ends the line on which the terminal has shown ^C.
void end_line(watch_end end, std::FILE* stream) {
  if (end == watch_end::interrupted && isatty(fileno(stream)) == 1) print_on(stream, "\n");
}

using process_list = std::vector<profiler::process_figures>;

// All processes that are visible in /proc, but this one.
process_list read_all_processes() {
  process_list all;
  for (const std::uint32_t id : profiler::numbers_in("/proc")) {
    if (id == static_cast<std::uint32_t>(getpid())) continue;
    if (auto found = profiler::read_process(id)) all.push_back(std::move(*found));
  }
  return all;
}

// Another process may have got the id since.
std::uint64_t key_of(const profiler::process_figures& one) { return one.start_ticks << 22U | one.id; }

growth_log::sizes resident_of(const process_list& processes) {
  growth_log::sizes all;
  for (const auto& one : processes) all[key_of(one)] = one.resident_bytes;
  return all;
}

struct process_row {
  const profiler::process_figures* process;
  fault_rates rates;
};

// The processes of `now` with page faults since `before`, the busiest first.
std::vector<process_row> rows_between(const process_list& before, const process_list& now, double seconds,
                                      const memory_prices& prices) {
  std::map<std::uint64_t, fault_counters> earlier;
  for (const auto& one : before) earlier[key_of(one)] = counters_of(one);
  std::vector<process_row> rows;
  for (const auto& one : now) {
    const fault_rates rates = rates_of(counters_of(one) - earlier[key_of(one)], seconds, prices);
    if (rates.faults > 0) rows.push_back({&one, rates});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const process_row& left, const process_row& right) {
    return left.rates.faults > right.rates.faults;
  });
  return rows;
}

// What processes caused, as a table, and what those caused that are not in it.
class process_watch {
 public:
  explicit process_watch(const memory_prices& prices)
      : prices_(prices), first_(read_all_processes()), last_(first_) {
    growth_.add(first_at_, resident_of(first_));
  }

  // Since the last call.
  std::string look(std::size_t most) {
    process_list now = read_all_processes();
    const double at = monotonic_seconds();
    growth_.add(at, resident_of(now));
    std::string text = table(last_, now, at, at - last_at_, most);
    last_ = std::move(now);
    last_at_ = at;
    return text;
  }

  // Of the whole time, in which all processes together had `faults`.
  std::string summary(double faults) const {
    const process_list now = read_all_processes();
    const double at = monotonic_seconds();
    const std::vector<process_row> rows = rows_between(first_, now, at - first_at_, prices_);
    if (rows.empty()) return "no process that is still running caused any\n";
    double sum = 0;
    for (const process_row& each : rows) sum += each.rates.faults * (at - first_at_);
    std::string text = "\n" + table(first_, now, at, at - first_at_, most_named);
    const double ended = 1 - sum / std::max(faults, 1.0);
    // The total and the processes' counts are not of the same moment, so a small difference is no remainder.
    if (ended > 0.1)
      text += fmt::format("{:.0f} % by processes that have ended or are hidden\n", 100 * ended);
    return text + fmt::format("to watch one: tarn cost --watch {}\n", rows.front().process->id);
  }

 private:
  std::string table(const process_list& before, const process_list& now, double at, double seconds,
                    std::size_t most) const {
    text_table table({"process", "pid", "faults/s", "faults %", "CPU %", "RSS MiB", "MiB/min"}, {0});
    for (const process_row& each : rows_between(before, now, seconds, prices_)) {
      if (table.rows() == most) break;
      const auto& [process, rates] = each;
      table.add({process->name, std::to_string(process->id), profiler::say_count(rates.faults),
                 show_percent(rates.fault_share), show_percent(rates.user_share + rates.system_share),
                 show_mib(process->resident_bytes),
                 growth_.knows(key_of(*process))
                     ? show_growth(growth_.per_minute(at, key_of(*process), process->resident_bytes))
                     : "-"});
    }
    return table.text(wants_colour(STDOUT_FILENO));
  }

  const memory_prices& prices_;
  process_list first_;
  process_list last_;
  double first_at_ = monotonic_seconds();
  double last_at_ = first_at_;
  growth_log growth_;
};

std::string machine_title(const terminal& screen, double seconds) {
  const std::string passed = fmt::format("{:.0f} s", seconds);
  const std::string title =
      pad_right("tarn cost --watch  page faults of all processes",
                static_cast<std::size_t>(std::max(60, screen.columns())) - passed.size());
  return paint(title + passed, style::bold, wants_colour(STDOUT_FILENO)) + "\n";
}

void draw_machine(terminal& screen, double seconds, const fault_rates& rates, process_watch& processes) {
  const std::string sums = fmt::format(
      "{} faults/s take {} % of a processor; system {} %, user {} %\n"
      "fresh memory up to {} MiB/s (zeroing up to {} %); {} faults/s from disk\n",
      profiler::say_count(rates.faults), show_percent(rates.fault_share), show_percent(rates.system_share),
      show_percent(rates.user_share), show_mib(rates.fresh_bytes), show_percent(rates.zeroing_share),
      profiler::say_count(rates.major_faults));
  const std::string head =
      machine_title(screen, seconds) + fold(sums, static_cast<std::size_t>(screen.columns())) + "\n";
  // Below it a heading and the last line.
  const auto used = std::count(head.begin(), head.end(), '\n') + 2;
  screen.draw(head +
              processes.look(static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, screen.rows() - used))) +
              "q quit");
}

}  // namespace

void watch_machine(const memory_prices& prices, const watch_settings& settings) {
  if (!read_machine_counters()) {
    throw cli_error(exit_code::refused,
                    "this system does not report its page faults (pgfault in /proc/vmstat)",
                    "Watch a process instead: tarn cost --watch PID");
  }
  process_watch processes(prices);
  watch_log log(prices, settings, stream_of(settings), watched::machine);
  if (settings.json == nullptr && terminal::is_there()) {
    terminal screen;
    screen.draw(machine_title(screen, 0));
    follow(
        log, settings, read_machine_counters,
        [&](const fault_rates& rates) { draw_machine(screen, log.seconds(), rates, processes); }, &screen);
  } else {
    end_line(
        follow(log, settings, read_machine_counters, [&log](const fault_rates& rates) { log.print(rates); }),
        stream_of(settings));
  }
  log.finish();
  if (log.seconds() > 0) print_on(stream_of(settings), "{}", processes.summary(log.all_faults()));
}

void watch_process(pid_t process, const memory_prices& prices, const watch_settings& settings) {
  const auto look = [process] { return profiler::read_process(static_cast<std::uint32_t>(process)); };
  const auto begin = look();
  if (!begin || begin->has_ended()) throw no_such_process(std::to_string(process));
  print_on(stream_of(settings), "{} ({}), only this process; percentages are of one processor\n", begin->name,
           process);
  watch_log log(prices, settings, stream_of(settings), watched::process);
  bool ended = false;
  const auto read = [&]() -> std::optional<fault_counters> {
    const auto status = look();
    if (ended || !status || key_of(*status) != key_of(*begin)) return std::nullopt;
    // A zombie: its final counts can still be read.
    ended = status->has_ended();
    fault_counters counters = counters_of(*status);
    counters.resident_bytes = status->resident_bytes;
    return counters;
  };
  const watch_end end = follow(log, settings, read, [&log](const fault_rates& rates) { log.print(rates); });
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
  watch_log log(prices, settings, settings.json != nullptr ? nullptr : stderr, watched::process);
  foreground_look each;
  each.interval_seconds = settings.interval_seconds;
  each.look = [&log](pid_t program) {
    const auto counters = read_family_counters(program);
    const auto rates = counters ? log.add(*counters) : std::nullopt;
    if (rates) log.print(*rates);
  };
  const foreground_result result = run_in_foreground(request, &each);
  fault_counters all;
  all.faults = static_cast<double>(result.usage.ru_minflt + result.usage.ru_majflt);
  all.major_faults = static_cast<double>(result.usage.ru_majflt);
  all.user_seconds = seconds_of(result.usage.ru_utime);
  all.system_seconds = seconds_of(result.usage.ru_stime);
  if (settings.json == nullptr) print_note(format_exit(result.wait_status));
  log.finish(all, result.wall_seconds);
  return result.wait_status;
}

}  // namespace tarn::cli
