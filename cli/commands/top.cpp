// SPDX-License-Identifier: MIT
// tarn top: the cost of memory allocation of a running program, by place: as a view of the whole terminal, or as
// rows.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/top_state.hpp"
#include "cli/control/control_client.hpp"
#include "cli/control/process_answers.hpp"
#include "cli/cost/cost_watch.hpp"
#include "cli/cost/cost_worker.hpp"
#include "cli/cost/memory_prices.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/recording/live_source.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/live_view.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/terminal.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning top_exits[] = {{0, "you quit, or the time is over, or the process of PID has ended"},
                                      usage_exit,
                                      refused_exit,
                                      not_executable_exit,
                                      not_found_exit,
                                      program_exit};

constexpr command_text top_text = {
    .name = "top",
    .summary = "Show what memory allocation costs a program while it runs.",
    .usage = "tarn top [OPTIONS] [PID | [--] PROGRAM ARG...]",
    .examples =
        "  tarn top -- ./server --port 80    start it under tarn profile; show figures\n"
        "  tarn top 4711                     a process started under tarn profile; of one\n"
        "                                    with TARN_CONTROL=on, its malloc's memory;\n"
        "                                    of any other process, only its page faults\n"
        "  tarn top --once 4711              print one row, for scripts\n",
    .notes =
        "To a pipe it prints a row per update.\n"
        "\n"
        "cost: malloc, free and the kernel's work for them, in percent of a processor;\n"
        "hidden: the kernel's part, which a timer around malloc does not see. MiB/min:\n"
        "growth of live memory, over the last minute at most.\n"
        "\n"
        "Keys: c cost, h hidden, f faults, a allocations, b bytes, l live, g growth: sort\n"
        "by it; space: freeze; m: figures since now, again m: per update; w: write a\n"
        "profile for tarn report; q: quit, averages stay on the screen; ^Z: suspend.\n",
    .exits = top_exits,
};

constexpr double seconds_between_keys = 0.05;
constexpr double least_interval = 0.2;
constexpr int lines_per_heading = 20;

struct top_arguments {
  double interval = 1;
  double duration = 0;
  std::string program_output;
  std::string profile_file;
  std::string mode = "sample";
  bool once = false;
  bool json = false;
};

// The program, started by `tarn profile` in a process of its own, so that drawing never delays the recording.
class profiled_program {
 public:
  profiled_program(const std::vector<std::string>& words, const top_arguments& arguments)
      : folder_(make_folder()),
        path_(arguments.profile_file.empty() ? folder_ + "/profile" : arguments.profile_file),
        child_(start(words, arguments)) {}
  ~profiled_program() {
    const double give_up = monotonic_seconds() + 5;
    child_.terminate_group();
    while (!ended() && monotonic_seconds() < give_up) usleep(20000);
    child_.kill_group();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  profiled_program(const profiled_program&) = delete;
  profiled_program& operator=(const profiled_program&) = delete;

  bool ended() { return child_.has_ended(); }
  int status() const { return child_.wait_status(); }
  const std::string& path() const { return path_; }
  // The first part of the program's standard error, if it was kept.
  std::string errors() const { return text_of_file(folder_ + "/errors").substr(0, 2000); }

 private:
  // A directory that only this user can read and write.
  static std::string make_folder() {
    std::string path = "/tmp/tarn-top-XXXXXX";
    if (mkdtemp(path.data()) == nullptr)
      throw cli_error(exit_code::refused,
                      fmt::format("cannot make a folder in /tmp: {}", std::strerror(errno)),
                      "Make room in /tmp, or mount it writable.");
    return path;
  }

  pid_t start(const std::vector<std::string>& words, const top_arguments& arguments) const {
    child_request request{
        .path = own_executable(),
        .arguments = {"tarn", "profile", "-q", "--mode", arguments.mode, "--no-events", "--checkpoint",
                      fmt::format("{:.3f}", arguments.interval), "-o", path_, "--"}};
    request.arguments.insert(request.arguments.end(), words.begin(), words.end());
    request.variables = environment::current();
    const open_file nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const bool is_kept = !arguments.program_output.empty();
    const open_file output(open(is_kept ? arguments.program_output.c_str() : "/dev/null",
                                O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (output.number() < 0) {
      throw cli_error(exit_code::refused,
                      fmt::format("--program-output {}: cannot be written: {}", arguments.program_output,
                                  std::strerror(errno)),
                      "Give a file in a folder that you may write to.");
    }
    // `tarn profile` reports on stderr why a program cannot start. On the screen that would be overwritten, so it
    // goes to a file.
    const open_file errors(
        open((folder_ + "/errors").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    request.standard_input = nothing.number();
    request.standard_output = output.number();
    request.standard_error = is_kept ? output.number() : errors.number();
    request.own_group = true;  // ^C is a key of the view and must not reach the program
    const held_signals signals{};
    return start_child(request, signals.before());
  }

  std::string folder_;
  std::string path_;
  running_child child_;
};

bool is_drawn(const top_arguments& arguments) {
  return terminal::is_there() && !arguments.once && !arguments.json;
}

// Draws, or prints rows, until `over` says that the program has ended. Returns the signal that ended it earlier, 0
// if none: the caller cleans up before this process ends by that signal.
template <class Over>
int follow(live_source& source, top_state& state, const top_arguments& arguments, Over over) {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const bool drawn = is_drawn(arguments);
  std::unique_ptr<terminal> screen = drawn ? std::make_unique<terminal>() : nullptr;
  const bool colour = wants_colour(STDOUT_FILENO);
  const auto draw = [&] {
    screen->draw(state.render(screen->rows(), static_cast<std::size_t>(screen->columns()), colour));
  };
  const double begin = monotonic_seconds();
  double next_look = begin;
  int lines = 0;
  bool last = false;
  if (drawn) draw();
  while (true) {
    bool changed = false;
    if (monotonic_seconds() >= next_look || last) {
      next_look = monotonic_seconds() + arguments.interval;
      if (auto p = source.next()) {
        state.add(std::move(*p));
        changed = true;
      }
    }
    if (drawn) {
      while (const auto key = screen->key()) {
        if (!state.take_key(*key)) return 0;
        changed = true;
      }
      if (changed) draw();
    } else if (changed) {
      if (arguments.json) {
        fmt::print("{}\n", json_text(as_json(state.seconds(), state.rates(), state.places())));
      } else {
        const std::size_t width = terminal_width(STDOUT_FILENO);
        if (lines++ % lines_per_heading == 0) fmt::print("{}\n", live_row_heading(width));
        fmt::print("{}\n", live_row(state.seconds(), state.rates(), state.places(), width));
      }
      flush_standard_output();
      if (arguments.once) return 0;
    }
    if (last) return 0;
    last = over() || (arguments.duration > 0 && monotonic_seconds() - begin >= arguments.duration);
    if (last) continue;
    if (const int number = signals.take(seconds_between_keys); number != 0) return number;
  }
}

// The screen is gone, and with it all figures.
void leave_summary(const top_state& state, const top_arguments& arguments) {
  if (!is_drawn(arguments) || !state.has_figures()) return;
  fmt::print("{}", state.summary(terminal_width(STDOUT_FILENO), wants_colour(STDOUT_FILENO)));
  if (!arguments.profile_file.empty())
    print_note(fmt::format("{0}: tarn report {0} --open", arguments.profile_file));
}

int top_program(const std::vector<std::string>& words, const top_arguments& arguments) {
  int status = 0;
  std::string errors;
  bool nothing = false;
  int signal = 0;
  {
    profiled_program program(words, arguments);
    live_source source(program.path());
    top_state state(profiler::printable(join(words, " ")));
    signal = follow(source, state, arguments, [&program] { return program.ended(); });
    nothing = !state.has_figures();
    leave_summary(state, arguments);
    // Ended by key or time: the destructor ends the program, too.
    if (signal == 0 && !program.ended()) {
      if (nothing)
        print_note(
            "no figures yet: a recording takes half a second to begin, longer on a busy machine; give it more time");
      return exit_code::success;
    }
    status = program.status();
    errors = program.errors();
  }
  if (signal != 0) end_like(W_EXITCODE(0, signal));
  if (!errors.empty() && (nothing || status != 0)) write_message(errors);
  if (nothing && status == 0) print_note("the program ended before it had allocated enough to show");
  end_like(status);
}

bool is_alive(pid_t process) { return kill(process, 0) == 0 || errno == EPERM; }

// Rows of what the process says of its malloc, at its control socket.
struct heap_row {
  static constexpr const char* names[] = {"tarn_process_resident_memory_bytes",
                                          "tarn_in_use_bytes",
                                          "tarn_cached_bytes",
                                          "tarn_span_free_bytes",
                                          "tarn_free_dirty_bytes",
                                          "tarn_returned_bytes_total"};
  static constexpr const char* headings[] = {"resident", "in use", "in caches",
                                             "in spans", "free",   "given back"};
  double seconds;
  double values[std::size(names)];
};

void print_heap_row(const heap_row& row, int number, bool json) {
  if (json) {
    nlohmann::json out = {{"seconds", row.seconds}};
    for (std::size_t i = 0; i < std::size(heap_row::names); ++i) out[heap_row::names[i]] = row.values[i];
    fmt::print("{}\n", json_text(out));
  } else {
    if (number % lines_per_heading == 0) {
      fmt::print("{:>8}", "seconds");
      for (const char* const heading : heap_row::headings) fmt::print("{:>12}", heading);
      fmt::print("\n");
    }
    fmt::print("{:>8.1f}", row.seconds);
    for (const double value : row.values) fmt::print("{:>12}", profiler::say_bytes(value));
    fmt::print("\n");
  }
  flush_standard_output();
}

int follow_heap(pid_t process, const top_arguments& arguments) {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  const double begin = monotonic_seconds();
  for (int number = 0;; ++number) {
    profiler::metric_list metrics;
    try {
      metrics = metrics_of(process);
    } catch (const cli_error&) {
      if (number == 0 || is_alive(process)) throw;
      return 0;
    }
    heap_row row{monotonic_seconds() - begin, {}};
    for (std::size_t i = 0; i < std::size(heap_row::names); ++i)
      row.values[i] = metrics.value_of(heap_row::names[i]);
    print_heap_row(row, number, arguments.json);
    if (arguments.once || (arguments.duration > 0 && row.seconds + arguments.interval > arguments.duration))
      return 0;
    if (const int signal = signals.take(arguments.interval); signal != 0) return signal;
  }
}

int top_heap(pid_t process, const top_arguments& arguments) {
  if (!arguments.json)
    print_note(fmt::format("process {} is not recorded; its malloc's memory, as it says itself:", process));
  const int signal = follow_heap(process, arguments);
  if (signal != 0) end_like(W_EXITCODE(0, signal));
  return exit_code::success;
}

int top_process(pid_t process, const top_arguments& arguments) {
  std::string reason;
  const auto path = find_recording_of(process, reason);
  if (!path) {
    if (!is_alive(process)) throw no_such_process(std::to_string(process));
    std::string no_door;
    if (find_control_door(process, no_door)) return top_heap(process, arguments);
    print_note(fmt::format("process {}: {}; its page faults:", process, reason));
    watch_settings settings;
    if (arguments.json) settings.json = stdout;
    settings.interval_seconds = arguments.interval;
    if (arguments.duration > 0) settings.duration_seconds = arguments.duration;
    if (arguments.once) settings.duration_seconds = arguments.interval;
    watch_process(process, calibrate_prices(), settings);
    return exit_code::success;
  }
  live_source source(*path);
  top_state state(fmt::format("process {}", process));
  const int signal = follow(source, state, arguments, [process] { return !is_alive(process); });
  leave_summary(state, arguments);
  if (signal != 0) end_like(W_EXITCODE(0, signal));
  return exit_code::success;
}

}  // namespace

int cmd_top(const std::vector<std::string>& words) {
  top_arguments arguments;
  command app(top_text);
  app.option("--interval SECONDS", arguments.interval, "Seconds between updates (1)",
             number(least_interval, 3600.0));
  app.option("--for SECONDS", arguments.duration, "End after this time", number(0.1, 1e9));
  app.option("--mode MODE", arguments.mode, "Mode of the recording: sample (the default), full or faults",
             one_of({"sample", "full", "faults"}));
  app.option("-o,--output FILE", arguments.profile_file, "Keep the program's profile in this file");
  app.option("--program-output FILE", arguments.program_output,
             "Write the program's output and errors here (discarded)");
  app.add_flag("--once", arguments.once, "Print one row, then end");
  app.add_flag("--json", arguments.json, "Print one JSON object per update");
  const command_line line = split_command_line(words, app);
  if (!parse_options(app, line.options)) return exit_code::success;
  require_program(line, "top");
  if (!arguments.profile_file.empty()) require_file_name("-o", arguments.profile_file);
  const bool separated = std::find(words.begin(), words.end(), "--") != words.end();
  const std::string& word = line.program.front();
  // Digits are meant as a process id, also those that are none.
  if (!separated && line.program.size() == 1 && word.find_first_not_of("0123456789") == std::string::npos)
    return top_process(process_of(word), arguments);
  return top_program(line.program, arguments);
}

}  // namespace tarn::cli
