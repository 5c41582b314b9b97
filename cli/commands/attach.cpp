// SPDX-License-Identifier: MIT
// tarn attach, detach, dump: records a program that runs already; ends such a recording; writes a recording's data
// so far.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/compare/progress_line.hpp"
#include "cli/control/control_client.hpp"
#include "cli/control/process_answers.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/other_user.hpp"
#include "cli/recording/attached_recording.hpp"
#include "cli/recording/profile_copy.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/recording/session_control.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/export/pprof_names.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"

namespace fs = std::filesystem;

namespace tarn::cli {

namespace {

constexpr exit_meaning attach_exits[] = {
    {0, "recorded, also when the program ended"}, usage_exit, refused_exit};

constexpr command_text attach_text = {
    .name = "attach",
    .summary = "Record a program that is already running.",
    .usage = "tarn attach [OPTIONS] PID",
    .examples =
        "  tarn attach 4711                 until ^C, tarn detach 4711, or the program's\n"
        "                                   end; writes tarn-PROGRAM-4711.prof\n"
        "  tarn attach --duration 60 4711   for a minute\n"
        "  tarn attach -m full 4711         every call from now on\n",
    .notes =
        "The program continues to run. Only one of its threads is stopped, for some\n"
        "milliseconds, to load the recorder, and again to restore the calls at the end.\n"
        "Blocks that were allocated before are unknown; their frees are not counted.\n"
        "'tarn attach' also begins to record a program started by tarn profile --paused.\n",
    .exits = attach_exits,
    .page = "docs/reference/profiling.md",
};

constexpr exit_meaning session_exits[] = {{0, "written"}, usage_exit, refused_exit};

constexpr command_text detach_text = {
    .name = "detach",
    .summary = "End a recording that tarn attach began; the program continues.",
    .usage = "tarn detach [--json] PID",
    .examples = "  tarn detach 4711\n",
    .notes =
        "The tarn process that records writes its files and ends; their paths are\n"
        "printed.\n",
    .exits = session_exits,
    .page = "docs/reference/profiling.md",
};

constexpr command_text dump_text = {
    .name = "dump",
    .summary = "Write what is known of a running process's memory so far to a file.",
    .usage = "tarn dump [OPTIONS] PID",
    .examples =
        "  tarn dump 4711                   of a recording: writes tarn-4711-dump-1.prof,\n"
        "                                   prints its path; the recording continues\n"
        "  tarn report $(tarn dump 4711)    the same, shown as a page\n"
        "  tarn dump --format pprof 4711    of the process's own samples: writes\n"
        "                                   tarn-4711-heap-1.pb.gz for go tool pprof\n",
    .notes =
        "--format pprof needs no recording, but tarn's malloc in the process and its\n"
        "options control and profile (TARN_CONTROL=on TARN_PROFILE=on).\n",
    .exits = session_exits,
    .page = "docs/reference/profiling.md",
};

struct attach_arguments : recording_arguments {
  std::string process;
  double duration = 0;
};

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
  ask_session(program, {{"verb", "attach"}});
  if (arguments.json) {
    fmt::print("{}\n", json_text({{"recording", program}}));
  } else if (!arguments.quiet) {
    fmt::print(stderr, "tarn: the tarn that started process {} records it now; to end: tarn detach {}\n",
               program, program);
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
  const auto go_on = [&signals] {
    const timespec none = {};
    return sigtimedwait(&signals.held(), nullptr, &none) < 0;
  };
  attached_recording attached(program, settings, std::move(notes), go_on);
  if (!arguments.quiet && !arguments.json) {
    fmt::print(stderr,
               "tarn: recording process {}; ^C or 'tarn detach {}' ends the recording, the program "
               "continues\n",
               program, program);
  }
  follow(attached, program, control, signals, arguments);
  attached.end();
  control.answer_late(attached.summary());
  attached.tell(arguments.quiet, arguments.json);
  return exit_code::success;
}

// The process's own samples, as pprof reads them. Returns the file's name.
std::string write_samples(pid_t program, const std::string& view, const std::string& output) {
  profiler::pprof_names names(static_cast<std::uint32_t>(program));
  const std::string samples = names.add(profile_of(program, view));
  std::optional<output_file> opened;
  if (output.empty()) {
    opened.emplace("-o", fresh_name{fmt::format("tarn-{}-{}-", program, view), ".pb.gz"});
  } else {
    opened.emplace("-o", output);
  }
  output_file& file = *opened;
  profiler::packer packed(file.path(), [&file](const std::string& bytes) { file.write(bytes); });
  packed.write(samples);
  packed.finish();
  return file.path();
}

}  // namespace

int cmd_attach(const std::vector<std::string>& words) {
  command app(attach_text);
  attach_arguments arguments;
  app.option("pid PID", arguments.process, "Process id")->required();
  arguments.declare(app, {"sample", "full"}, "sample (the default) or full (every call)",
                    "Name of the profile");
  app.option("-d,--duration SECONDS", arguments.duration, "Detach after this time", number(0.01, 1e9));
  if (!parse_options(app, words)) return exit_code::success;
  const pid_t program = process_of(arguments.process);
  return attach(program, arguments);
}

int cmd_detach(const std::vector<std::string>& words) {
  command app(detach_text);
  std::string process;
  bool json = false;
  app.option("pid PID", process, "Process id")->required();
  app.add_flag("--json", json, "Print the files' names as one JSON object");
  if (!parse_options(app, words)) return exit_code::success;
  const nlohmann::json answer = ask_session(process_of(process), {{"verb", "detach"}}).what;
  if (json) {
    fmt::print("{}\n", json_text(answer));
    return exit_code::success;
  }
  const nlohmann::json* const files = profiler::member_in(answer, "files");
  for (const nlohmann::json& file : files != nullptr && files->is_array() ? *files : nlohmann::json::array())
    fmt::print("{}\n", profiler::text_in(file, "path"));
  return exit_code::success;
}

int cmd_dump(const std::vector<std::string>& words) {
  command app(dump_text);
  std::string process;
  std::string output;
  std::string format = "tarn";
  std::string view = "heap";
  bool json = false;
  app.option("pid PID", process, "Process id")->required();
  app.option("-o,--output FILE", output, "Name of the file (tarn-PID-dump-N.prof)");
  app.option("--format FORMAT", format,
             "tarn: of a recording (the default); pprof: of the process's own samples",
             one_of({"tarn", "pprof"}));
  app.option("--view VIEW", view, "With --format pprof, what is shown first: heap (the default) or allocs",
             one_of({"heap", "allocs"}));
  app.add_flag("--json", json, "Print the file's name as one JSON object");
  if (!parse_options(app, words)) return exit_code::success;
  require_file_name("-o", output);
  const pid_t program = process_of(process);
  if (format == "pprof") {
    std::string path;
    try {
      path = write_samples(program, view, output);
    } catch (const profiler::profile_error& error) {
      throw as_cli_error(error);
    }
    json ? fmt::print("{}\n", json_text({{"path", path}})) : fmt::print("{}\n", profiler::printable(path));
    return exit_code::success;
  }
  const session_answer answer = ask_session(program, {{"verb", "dump"}, {"pid", program}});
  try {
    const std::string path = copy_profile(answer.file.number(), program, output, answer.from);
    json ? fmt::print("{}\n", json_text({{"path", path}})) : fmt::print("{}\n", profiler::printable(path));
  } catch (const profiler::profile_error& error) {
    throw as_cli_error(error);
  }
  return exit_code::success;
}

}  // namespace tarn::cli
