// SPDX-License-Identifier: MIT
// tarn attach: records a program that runs already; ends such a recording; writes a recording's data so far.
#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "cli/commands/commands.hpp"
#include "cli/compare/progress_line.hpp"
#include "cli/control/control_client.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/peer.hpp"
#include "cli/recording/attached_recording.hpp"
#include "cli/recording/profile_copy.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/recording/session_control.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr exit_meaning attach_exits[] = {
    {0, "recorded, also when the program ended; written"}, usage_exit, refused_exit};

constexpr command_text attach_text = {
    .name = "attach",
    .summary = "Record a program that is already running; end or save such a recording.",
    .usage =
        "tarn attach [OPTIONS] PID\ntarn attach --stop [--json] PID\ntarn attach --dump [-o FILE] [--json] PID",
    .examples =
        "  tarn attach 4711                 until ^C, tarn attach --stop 4711, or the\n"
        "                                   program's end; writes tarn-PROGRAM-4711.prof\n"
        "  tarn attach --for 60 4711        for a minute\n"
        "  tarn attach --mode full 4711     every call from now on\n"
        "  tarn attach --stop 4711          end the recording, print its files' names\n"
        "  tarn attach --dump 4711          write what is known so far to\n"
        "                                   tarn-4711-dump-1.prof; the recording goes on\n"
        "  tarn report $(tarn attach --dump 4711)\n",
    .notes =
        "The program continues to run. Only one of its threads is stopped, for some\n"
        "milliseconds, to load the recorder, and again to restore the calls at the end.\n"
        "Blocks that were allocated before are unknown; their frees are not counted.\n"
        "'tarn attach' also begins to record a program started by tarn profile --paused;\n"
        "--dump also saves the recording of a tarn profile.\n",
    .exits = attach_exits,
    .page = "docs/reference/profiling.md",
};

struct attach_arguments : recording_arguments {
  std::string process;
  double duration = 0;
  bool stop = false;
  bool dump = false;
};

// Whether tarn was asked to end, by a signal that held_signals holds: whoever takes it, all know of it.
class end_request {
 public:
  explicit end_request(const held_signals& signals) : signals_(signals) {}

  bool has_come(double wait = 0) {
    has_come_ = has_come_ || signals_.take(wait) != 0;
    return has_come_;
  }

 private:
  const held_signals& signals_;
  bool has_come_ = false;
};

// Records until a signal, a request to detach, the given time, or the end of the program.
void follow(attached_recording& attached, pid_t program, session_control& control, end_request& end,
            const attach_arguments& arguments) {
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
    if (end.has_come(wait)) return;
  }
}

// Another tarn controls the program, possibly started with --paused: asks it to record.
int begin_paused(pid_t program, const attach_arguments& arguments) {
  ask_session(program, {{"verb", "attach"}});
  if (arguments.json) {
    fmt::print("{}\n", json_text({{"recording", program}}));
  } else if (!arguments.quiet) {
    print_note(fmt::format("the tarn that started process {0} records it now; to end: tarn attach --stop {0}",
                           program));
  }
  return exit_code::success;
}

int attach(pid_t program, const attach_arguments& arguments) {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  // Not kept: the socket is to belong to the program's user.
  if (!session_control(program).is_open()) {
    become_user_of(program);
    return begin_paused(program, arguments);
  }
  profiler::recording_settings settings = arguments.settings();
  std::vector<std::string> notes;
  settings.prices = prices_for(program, notes);
  become_user_of(program);
  session_control control(program);
  if (!control.is_open()) return begin_paused(program, arguments);
  end_request end(signals);
  const auto go_on = [&end] { return !end.has_come(); };
  attached_recording attached(program, settings, std::move(notes), go_on);
  if (!arguments.quiet && !arguments.json) {
    print_note(fmt::format(
        "recording process {0}; ^C or 'tarn attach --stop {0}' ends the recording, the program continues",
        program));
  }
  follow(attached, program, control, end, arguments);
  attached.end();
  control.answer_late(attached.summary());
  attached.print_summary(arguments.quiet, arguments.json);
  return exit_code::success;
}

int stop(pid_t program, bool json) {
  const nlohmann::json answer = ask_session(program, {{"verb", "detach"}}).what;
  if (json) {
    fmt::print("{}\n", json_text(answer));
    return exit_code::success;
  }
  const nlohmann::json* const files = profiler::member_in(answer, "files");
  for (const nlohmann::json& file : files != nullptr && files->is_array() ? *files : nlohmann::json::array())
    fmt::print("{}\n", profiler::text_in(file, "path"));
  return exit_code::success;
}

int dump(pid_t program, const attach_arguments& arguments) {
  require_file_name("-o", arguments.output);
  const session_answer answer = ask_session(program, {{"verb", "dump"}, {"pid", program}});
  try {
    const std::string path = copy_profile(answer.file.number(), program, arguments.output, answer.from);
    arguments.json ? fmt::print("{}\n", json_text({{"path", path}}))
                   : fmt::print("{}\n", profiler::printable(path));
  } catch (const profiler::profile_error& error) {
    throw as_cli_error(error);
  }
  return exit_code::success;
}

}  // namespace

int cmd_attach(const std::vector<std::string>& words) {
  command app(attach_text);
  attach_arguments arguments;
  app.option("pid PID", arguments.process, "Process id")->required();
  std::vector<limited_option> options =
      arguments.declare(app, {"sample", "full"}, "sample (the default) or full (every call)",
                        "Name of the profile; with --dump tarn-PID-dump-N.prof");
  app.get_option("--json")->description(
      "Print JSON: the summary on stderr; the answer of --stop, --dump or a tarn that began --paused on stdout");
  options.push_back({app.option("--for SECONDS", arguments.duration, "End the recording after this time",
                                number(0.01, 1e9)),
                     {""}});
  CLI::Option* ends =
      app.add_flag("--stop", arguments.stop, "End a recording of this process; print its files' names");
  app.add_flag("--dump", arguments.dump,
               "Write what a recording of this process knows so far to a file; print its name")
      ->excludes(ends);
  if (!parse_options(app, words)) return exit_code::success;
  require_fitting(options, arguments.stop ? "--stop" : arguments.dump ? "--dump" : "", "attach");
  const pid_t program = process_of(arguments.process);
  if (arguments.stop) return stop(program, arguments.json);
  return arguments.dump ? dump(program, arguments) : attach(program, arguments);
}

}  // namespace tarn::cli
