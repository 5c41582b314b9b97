// SPDX-License-Identifier: MIT
// tarn attach, detach, dump: records a program that runs already; ends such a recording; writes a recording's data
// so far.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>

#include "attached_recording.hpp"
#include "child_process.hpp"
#include "cli_error.hpp"
#include "command_line.hpp"
#include "commands.hpp"
#include "other_user.hpp"
#include "profile_copy.hpp"
#include "profile_verdict.hpp"
#include "profiler/format/printable.hpp"
#include "progress_line.hpp"
#include "recording_setup.hpp"
#include "session_control.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr const char* attach_footer =
    "Examples:\n"
    "  tarn attach 4711                   until ^C, tarn detach 4711, or the program's end; writes tarn-PROGRAM-4711.prof\n"
    "  tarn attach --duration 60 4711     for a minute\n"
    "  tarn attach -m full 4711           every call from now on\n"
    "\n"
    "The program goes on meanwhile: one of its threads is stopped for some milliseconds to load the recorder, and again to\n"
    "put everything back. Of blocks that were there before nothing is known; what frees them is not counted.\n"
    "A program that is started under tarn profile --paused is attached to in the same way, by the tarn that started it.\n"
    "Exit codes: 0; 125 tarn refuses, with the reason. How it works and what it cannot do: docs/profiling.md\n";

struct attach_arguments {
  std::string process;
  std::string mode = "sample";
  std::string output;
  std::string sample = "512K";
  double duration = 0;
  double checkpoint = 5;
  bool no_events = false;
  bool quiet = false;
  bool json = false;
};

pid_t process_of(const std::string& text) {
  pid_t process = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, process).ptr == end && process > 0) return process;
  throw cli_error(exit_code::refused, fmt::format("'{}' is no process id", text),
                  "Find it by its name: pgrep NAME");
}

profiler::recording_settings settings_of(const attach_arguments& arguments) {
  profiler::recording_settings settings;
  settings.mode = mode_of(arguments.mode);
  settings.output = arguments.output;
  settings.keep_events = !arguments.no_events;
  settings.checkpoint_seconds = arguments.checkpoint;
  settings.sample_bytes = sample_bytes_of(arguments.sample);
  return settings;
}

nlohmann::json attached_summary(const attached_recording& attached) {
  nlohmann::json summary = summary_of(attached.record());
  summary["longest_stop_ms"] = 1e3 * attached.longest_stop_seconds();
  summary["notes"] = attached.notes();
  return summary;
}

void tell(const attached_recording& attached, const attach_arguments& arguments) {
  if (arguments.json) {
    fmt::print(stderr, "{}\n",
               attached_summary(attached).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  for (const std::string& note : attached.notes()) print_note(note);
  if (arguments.quiet) return;
  if (attached.record().main_profile() != nullptr) print_verdict(*attached.record().main_profile());
  tell_files(attached.record());
  fmt::print(stderr, "tarn: the program was stopped for {:.1f} ms at most\n",
             1e3 * attached.longest_stop_seconds());
}

// Records until a signal, a request to detach, the given time, or the end of the program.
void follow(attached_recording& attached, pid_t program, session_control& control,
            const held_signals& signals, const attach_arguments& arguments) {
  progress_line line(!arguments.quiet && !arguments.json && isatty(STDERR_FILENO) == 1);
  const double begin = monotonic_seconds();
  double next_line = begin + seconds_between_progress;
  bool asked = false;
  while (attached.is_there() && !asked) {
    const double now = monotonic_seconds();
    if (arguments.duration > 0 && now - begin >= arguments.duration) return;
    const double wait = attached.look();
    control.serve([&](const nlohmann::json& request) -> nlohmann::json {
      if (request.value("verb", "") == "dump") return attached.dump(request.value("pid", 0));
      if (request.value("verb", "") == "detach") asked = true;
      if (asked) return nlohmann::json::object();
      return already_recorded(program);
    });
    if (now >= next_line) {
      next_line = now + seconds_between_progress;
      line.show(attached.record().status_line());
    }
    const timespec time = to_timespec(wait);
    if (sigtimedwait(&signals.held(), nullptr, &time) > 0) return;
  }
}

// Another tarn controls the program, possibly started with --paused: asks it to record.
int begin_paused(pid_t program, const attach_arguments& arguments) {
  const nlohmann::json answer = ask_session(program, {{"verb", "attach"}});
  if (arguments.json) {
    fmt::print("{}\n", answer.dump());
  } else if (!arguments.quiet) {
    fmt::print(stderr,
               "tarn: process {} is being recorded by the tarn that started it; end: tarn detach {}\n",
               program, program);
  }
  return exit_code::success;
}

int attach(pid_t program, const attach_arguments& arguments) {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  session_control control(program);
  if (!control.is_open()) return begin_paused(program, arguments);
  attached_recording attached(program, settings_of(arguments));
  if (!arguments.quiet && !arguments.json) {
    fmt::print(stderr, "tarn: recording process {}; ^C or 'tarn detach {}' ends that, the program goes on\n",
               program, program);
  }
  follow(attached, program, control, signals, arguments);
  attached.end();
  control.answer_late(attached_summary(attached));
  tell(attached, arguments);
  return exit_code::success;
}

}  // namespace

int cmd_attach(const std::vector<std::string>& words) {
  CLI::App app{"Record a program that runs already; one of its threads is stopped for moments.", "attach"};
  attach_arguments arguments;
  set_usage(app, "tarn attach [OPTIONS] PID");
  app.add_option("pid", arguments.process, "The process")->required()->option_text("PID");
  app.add_option("-m,--mode", arguments.mode, "sample (the default), full: every call")
      ->check(CLI::IsMember({"sample", "full"}))
      ->option_text("MODE");
  app.add_option("-o,--output", arguments.output, "The file")->option_text("FILE");
  app.add_option("-d,--duration", arguments.duration, "Detach after so many seconds")
      ->check(CLI::Range(0.01, 1e9))
      ->option_text("SECONDS");
  app.add_option("--sample", arguments.sample, "Mode sample: bytes from sample to sample, on average (512K)")
      ->option_text("SIZE");
  app.add_option("--checkpoint", arguments.checkpoint,
                 "Seconds after which the file is brought up to date (5)")
      ->check(CLI::Range(0.1, 3600.0))
      ->option_text("SECONDS");
  app.add_flag("--no-events", arguments.no_events,
               "Leave single events out of the file: smaller, and no replay");
  app.add_flag("-q,--quiet", arguments.quiet, "No progress, and no summary at the end");
  app.add_flag("--json", arguments.json, "The summary as one JSON object on stderr");
  app.footer(attach_footer);
  if (!parse_options(app, words, exit_code::refused)) return exit_code::success;
  const pid_t program = process_of(arguments.process);
  become_user_of(program);
  return attach(program, arguments);
}

int cmd_detach(const std::vector<std::string>& words) {
  CLI::App app{"End the recording of a program that was attached to; the program goes on.", "detach"};
  std::string process;
  bool json = false;
  set_usage(app, "tarn detach [--json] PID");
  app.add_option("pid", process, "The process")->required()->option_text("PID");
  app.add_flag("--json", json, "The files as one JSON object");
  app.footer("The tarn that records it writes its files and ends. Exit codes: 0; 125 tarn refuses.\n");
  if (!parse_options(app, words, exit_code::refused)) return exit_code::success;
  const nlohmann::json answer = ask_session(process_of(process), {{"verb", "detach"}});
  if (json) {
    fmt::print("{}\n", answer.dump());
    return exit_code::success;
  }
  for (const nlohmann::json& file : answer.value("files", nlohmann::json::array()))
    fmt::print("{}\n", profiler::printable(file.value("path", "")));
  return exit_code::success;
}

int cmd_dump(const std::vector<std::string>& words) {
  CLI::App app{"Write what a recording has so far; the recording goes on.", "dump"};
  std::string process;
  std::string output;
  bool json = false;
  set_usage(app, "tarn dump [-o FILE] [--json] PID");
  app.add_option("pid", process, "The process: under tarn profile or tarn attach")
      ->required()
      ->option_text("PID");
  app.add_option("-o,--output", output, "The file (the recording's name with -dump-N)")->option_text("FILE");
  app.add_flag("--json", json, "The file as one JSON object");
  app.footer("Exit codes: 0; 125 tarn refuses.\n");
  if (!parse_options(app, words, exit_code::refused)) return exit_code::success;
  const pid_t program = process_of(process);
  const nlohmann::json answer = ask_session(program, {{"verb", "dump"}, {"pid", program}});
  try {
    const std::string path = copy_profile(answer.value("path", ""), output);
    json ? fmt::print("{}\n", nlohmann::json({{"path", profiler::printable(path)}}).dump())
         : fmt::print("{}\n", profiler::printable(path));
  } catch (const profiler::profile_error& error) {
    throw cli_error(exit_code::refused, error.what(), "Name another file: -o FILE");
  }
  return exit_code::success;
}

}  // namespace tarn::cli
