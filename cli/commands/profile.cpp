// SPDX-License-Identifier: MIT
// tarn profile: starts a program under the recorder, follows it and its descendants, and writes the cost of memory
// allocation, by call path, into a file for each of them.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "cli/agent/running_verb.hpp"
#include "cli/commands/commands.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/compare/progress_line.hpp"
#include "cli/compare/proof_report.hpp"
#include "cli/compare/proof_rounds.hpp"
#include "cli/compare/repeat.hpp"
#include "cli/compare/server_load.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/foreground.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/preload_check.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/recording/attached_recording.hpp"
#include "cli/recording/daemon_follower.hpp"
#include "cli/recording/paused_profile.hpp"
#include "cli/recording/recording_setup.hpp"
#include "cli/recording/session_control.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/process_table.hpp"
#include "cli/show/profile_verdict.hpp"
#include "cli/show/text.hpp"
#include "profiler/collect/recording.hpp"

namespace tarn::cli {

namespace {

using profiler::profile_error;
using profiler::profile_mode;
using profiler::recording;
using profiler::recording_settings;

constexpr exit_meaning profile_exits[] = {program_exit,
                                          {125, "wrong usage, or tarn refuses; the message says why"},
                                          not_executable_exit,
                                          not_found_exit};

constexpr command_text profile_text = {
    .name = "profile",
    .summary = "Record what memory allocation costs a program, and where.",
    .usage = "tarn profile [OPTIONS] -- PROGRAM ARG...",
    .examples =
        "  tarn profile -- ./server --port 80          sampled: adds about 5 % of time;\n"
        "                                              writes tarn-server-PID.prof\n"
        "  tarn profile --mode full -- ./batch in.dat  every call: exact counts, peak and\n"
        "                                              leaks; 1.1 to 4 times the time\n"
        "  tarn profile --mode faults -- ./go-program  only page faults; works for static\n"
        "                                              programs and other runtimes, too\n"
        "  tarn profile --prove -- ./batch in.dat      then measure what would save time\n"
        "  tarn report tarn-server-4711.prof           write the profile as one page\n",
    .notes =
        "The program keeps its input, output, signals and exit status; tarn's messages go\n"
        "to stderr. Each process that allocates much gets its own file; the others share\n"
        "one. tarn sends no data anywhere; if DEBUGINFOD_URLS names servers, it requests\n"
        "debugging information from them by build-id.\n"
        "\n"
        "What a profile can record on this system: tarn doctor\n",
    .exits = profile_exits,
    .page = "docs/reference/profiling.md",
};

struct profile_arguments : recording_arguments {
  bool paused = false;
  int runs = 1;
  std::vector<std::string> debug_paths;
  bool prove = false;
  server_load load;
  int program_errors = -1;  // program_errors_variable; -1: not for an agent
};

// If preloading is impossible, reports why as `tarn run` does, and suggests mode faults, which needs no preloading.
[[noreturn]] void suggest_faults(const cli_error& error) {
  if (error.code() != exit_code::refused) throw error;
  throw cli_error(
      error.code(), error.what(),
      (error.advice().empty() ? "" : error.advice() + " ") +
          std::string("Or record only its page faults: tarn profile --mode faults -- PROGRAM ARG..."));
}

struct start_request {
  child_request child;
  std::string executable;  // that the start leads to: of a script, the interpreter
  std::string allocator;   // the file of the program's malloc; empty: not known
};

start_request prepare(const std::vector<std::string>& words, profile_mode mode) {
  start_request request;
  request.child.arguments = words;
  request.child.variables = environment::current();
  if (mode == profile_mode::faults) {
    request.child.path = request.executable = locate_program(words.front(), request.child.variables);
    return request;
  }
  try {
    const std::string library = find_recorder();
    const program_target target = find_program(words, request.child.variables);
    request.child.path = request.executable = target.path;
    if (!target.programs.empty()) {
      request.executable = target.programs.back().path;
      const loader_trace trace = trace_program(target.programs.back(), request.child.variables);
      request.allocator = malloc_provider(target.programs.back(), trace).value_or("");
    }
    request.child.variables.prepend_preload(library);
    request.child.variables.unset("TARN_RECORDER");
    require_preload_in_use(target, library, "tarn's recorder", request.child.variables);
  } catch (const resource_error&) {
    throw;
  } catch (const cli_error& error) {
    suggest_faults(error);
  }
  return request;
}

// A server is recorded until its load has run once. One that does not end when it is asked to is killed.
void drive(load_course& load, pid_t server, const server_load& settings) {
  if (load.look(server) || monotonic_seconds() < load.terminated_at() + settings.seconds_to_terminate) return;
  kill(server, SIGKILL);
}

foreground_result follow(recording& record, const child_request& request, const profile_arguments& arguments,
                         std::optional<load_course>& load, daemon_follower& daemons, std::string& failure) {
  const bool quiet = arguments.quiet || arguments.json;
  progress_line line(!quiet && isatty(STDERR_FILENO) == 1);
  double next_line = monotonic_seconds() + seconds_between_progress;
  foreground_look each;
  each.interval_seconds = busy_seconds;
  each.stops_along = arguments.program_errors < 0;
  each.has_children = load.has_value();
  bool started = false;
  std::optional<session_control> control;
  each.look = [&](pid_t program) {
    try {
      if (load) drive(*load, program, arguments.load);
      if (!failure.empty()) return;
      if (!std::exchange(started, true)) {
        record.program_started(static_cast<std::uint32_t>(program));
        control.emplace(program);
      }
      daemons.look(program);
      control->serve([&](const nlohmann::json& question) -> nlohmann::json {
        if (question.value("verb", "") == "dump") return dump_answer(record, question.value("pid", 0));
        return already_recorded(program);
      });
      const bool much = record.drain();
      each.interval_seconds = much ? busy_seconds : std::min(idle_seconds, 2 * each.interval_seconds);
      if (monotonic_seconds() < next_line) return;
      next_line = monotonic_seconds() + seconds_between_progress;
      line.show(record.status_line());
    } catch (const std::exception& error) {
      failure = error.what();  // the program goes on without being recorded
    }
  };
  each.ended = [&](int wait_status) {
    if (!failure.empty()) return;
    try {
      record.program_ended(wait_status);
    } catch (const std::exception& error) {
      failure = error.what();
    }
  };
  return run_in_foreground(request, &each);
}

// Processor time of the program and of all descendants that were waited for, recorded or not.
double cpu_ns_of(const foreground_result& result) {
  return 1e9 * (seconds_of(result.usage.ru_utime) + seconds_of(result.usage.ru_stime));
}

void add_end(nlohmann::json& summary, const foreground_result& result) {
  const int wait_status = result.wait_status;
  summary["exit_status"] = WIFEXITED(wait_status) ? nlohmann::json(WEXITSTATUS(wait_status)) : nullptr;
  summary["signal"] = WIFSIGNALED(wait_status) ? nlohmann::json(WTERMSIG(wait_status)) : nullptr;
  summary["tree"]["system_cpu_ns"] = cpu_ns_of(result);
}

// Progress is shown, as a debuginfod server may take a while.
profiler::symbol_settings symbol_settings_of(const profile_arguments& arguments) {
  profiler::symbol_settings settings;
  settings.debug_paths = arguments.debug_paths;
  const bool is_shown = !arguments.quiet && !arguments.json && isatty(STDERR_FILENO) == 1;
  settings.progress = [line = std::make_shared<progress_line>(is_shown)](const std::string& text) {
    text.empty() ? line->clear() : line->show(text);
  };
  return settings;
}

void declare_options(command& app, profile_arguments& arguments) {
  arguments.declare(app, {"sample", "full", "faults"},
                    "sample (the default), full (every call) or faults (only page faults)",
                    "Name of the profile; for child processes, their ids are added");
  app.option("-r,--rounds N", arguments.runs,
             "Record the command this often (1), to FILE-1.prof and so on; tarn diff needs several "
             "recordings",
             whole_number(1, 200));
  app.option("--debug-path FOLDER", arguments.debug_paths,
             "Folder with debugging information of stripped files, laid out like /usr/lib/debug; may be "
             "repeated");
  CLI::Option* paused =
      app.add_flag("--paused", arguments.paused,
                   "Start the program without recording it; 'tarn attach PID' begins a recording, 'tarn "
                   "attach --stop PID' ends it. Not with --prove");
  CLI::Option* prove =
      app.add_flag(
             "--prove", arguments.prove,
             "Then measure what each change would save that needs no editing, as tarn prove does. Not with "
             "--paused or --json")
          ->excludes(paused)
          ->excludes("--json");
  add_load_options(app, arguments.load)->needs(prove);
}

void print_result(const recording& record, const profile_arguments& arguments,
                  const foreground_result& result) {
  if (arguments.json) {
    nlohmann::json summary = summary_of(record);
    add_end(summary, result);
    print_message("{}\n", json_text(summary));
    return;
  }
  if (!arguments.quiet) {
    if (is_tree(record)) {
      print_tree_verdict(record, cpu_ns_of(result));
    } else if (record.main_profile() != nullptr) {
      print_verdict(*record.main_profile(), arguments.prove);
    }
    print_files(record);
  }
  if (record.main_profile() == nullptr) {
    print_note(
        "the program was not recorded: it ended before its first allocation, removed the "
        "recorder's environment variables, or has limits (ulimit -f, -v) that are too low for the "
        "recorder's memory");
  }
}

// Throws cli_error if the program's standard input cannot be read again.
void require_provable(const profiler::recorded_command& command) {
  if (const std::string refusal = input_refusal(command); !refusal.empty()) {
    throw cli_error(exit_code::refused, "--prove: the runs cannot be repeated: " + refusal,
                    "Redirect standard input from a file or from /dev/null; or record without --prove, then "
                    "run tarn prove --stdin FILE");
  }
}

struct recorded_profile {
  std::string path;
  profiler::profile content;
};

// The profile of the program itself, not of its children, and its file. None if the program was not recorded. Requires
// that record.finish() has been called.
std::optional<recorded_profile> main_file(const recording& record) {
  const profiler::profile* main = record.main_profile();
  if (main == nullptr) return std::nullopt;
  const auto process = main->meta.value("pid", std::uint32_t{0});
  const auto file = std::find_if(record.files().rbegin(), record.files().rend(),
                                 [process](const auto& one) { return one.process == process; });
  if (file == record.files().rend()) return std::nullopt;
  return recorded_profile{file->path, *main};
}

// Stores the results in the profile's file. Prints them, and all errors, to stderr, like everything else here.
void prove_recorded(recorded_profile recorded, const profile_arguments& arguments, double spent_seconds) {
  try {
    proof_wishes wishes{
        .spent_seconds = spent_seconds, .seed = std::random_device{}(), .progress = !arguments.quiet};
    if (!arguments.load.command.empty()) {
      wishes.load = arguments.load;
      wishes.repeat.is_server = true;
    }
    wishes.repeat.trusted = true;  // this process has just written it
    const proof_result result = prove_profile(recorded.path, std::move(recorded.content), wishes);
    for (const std::string& note : result.notes) print_note(note);
    if (const std::string interruption = interruption_text(result); !interruption.empty()) {
      print_note(interruption);
      if (result.proven.rounds == 0) return;
    }
    const std::size_t width = terminal_width(STDERR_FILENO);
    const std::string table = render_proof(result, wants_colour(STDERR_FILENO), width);
    if (!table.empty()) print_message("\n{}\n", table);
    for (const std::string& line : render_proof_verdict(result.proven))
      print_message("{}\n", fold(line, width));
    write_message(render_failures(result.outcome));
  } catch (const cli_error& error) {
    print_note(fmt::format("nothing could be measured: {}. {}", error.what(), error.advice()));
  } catch (const std::exception& error) {
    print_note(fmt::format("nothing could be measured: {}", error.what()));
  }
}

// No process that this one starts finds the descriptor open, or named.
int take_program_errors() {
  const char* const given = std::getenv(program_errors_variable);
  if (given == nullptr) return -1;
  const int number = std::atoi(given);
  unsetenv(program_errors_variable);
  return number > STDERR_FILENO && fcntl(number, F_SETFD, FD_CLOEXEC) == 0 ? number : -1;
}

struct recorded_run {
  foreground_result result;
  std::string failure;                       // why the recording ended early; empty: it did not
  std::string load_problem;                  // why the load did not run as it should; empty: it did
  std::string unwritten;                     // why a profile could not be written; empty: all were
  std::optional<recorded_profile> provable;  // with --prove
};

recorded_run record_program(const recording_settings& settings, start_request& request,
                            const profile_arguments& arguments) {
  recorded_run run;
  try {
    recording record(settings);
    if (settings.mode != profile_mode::faults) {
      request.child.variables.set(profiler::session_variable, record.place());
    } else if (!record.faults().is_open()) {
      throw cli_error(exit_code::refused, record.faults().refusal(),
                      "What works on this system: tarn doctor");
    }
    daemon_follower daemons(request.executable);
    const open_file nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
    std::optional<load_course> load;
    if (!arguments.load.command.empty()) {
      child_request shell;
      shell.standard_input = shell.standard_output = nothing.number();
      sigset_t mask = {};
      sigprocmask(SIG_BLOCK, nullptr, &mask);
      load.emplace(arguments.load, std::move(shell), 1, mask);
      if (const std::string obstacle = load->obstacle(); !obstacle.empty())
        throw cli_error(exit_code::refused, obstacle, "End that process, or give the server another port.");
    }
    run.result = follow(record, request.child, arguments, load, daemons, run.failure);
    if (load)
      run.load_problem = load->terminated_at() > 0 ? load->problem() : "the server ended before the load did";
    if (run.failure.empty()) daemons.follow(record, !arguments.json);
    record.finish();
    print_result(record, arguments, run.result);
    for (const auto& file : record.files()) {
      if (run.unwritten.empty()) run.unwritten = file.problem;
    }
    if (arguments.prove && run.failure.empty()) run.provable = main_file(record);
  } catch (const profile_error& error) {
    throw as_cli_error(error);
  }
  return run;
}

}  // namespace

int cmd_profile(const std::vector<std::string>& words) {
  command app(profile_text);
  profile_arguments arguments;
  arguments.program_errors = take_program_errors();
  declare_options(app, arguments);
  const command_line line = split_command_line(words, app);
  if (!parse_options(app, line.options)) return exit_code::success;
  require_program(line, "profile");
  require_file_name("-o", arguments.output);
  if (arguments.runs > 1) {
    if (arguments.paused || arguments.prove)
      throw cli_error(exit_code::usage, "--rounds cannot be used with --paused or --prove",
                      "Omit --rounds, or the other option.");
    profile_repeatedly(line, arguments.runs, arguments.output, !arguments.quiet && !arguments.json);
  }
  if (!arguments.load.command.empty()) require_complete(arguments.load);
  const double begin = monotonic_seconds();
  recording_settings settings = arguments.settings();
  settings.symbols = symbol_settings_of(arguments);
  if (arguments.paused) return profile_paused(line.program, settings, arguments.quiet, arguments.json);
  start_request request = prepare(line.program, settings.mode);
  request.child.standard_error = arguments.program_errors;
  settings.command = describe_start(request.child.path, line.program);
  if (arguments.prove) require_provable(*settings.command);
  std::vector<std::string> notes;
  settings.prices = find_prices(request.allocator, notes);
  if (settings.mode != profile_mode::faults)
    note_unseen_blocks(request.executable, request.executable, notes);
  settings.meta = describe_place(notes);
  settings.meta["arguments"] = line.program;
  if (!arguments.load.command.empty()) settings.meta["load"] = true;
  recorded_run run = record_program(settings, request, arguments);
  if (!run.failure.empty()) print_note(fmt::format("the recording ended early: {}", run.failure));
  if (!run.load_problem.empty()) {
    throw cli_error(exit_code::refused, "nothing could be measured: " + run.load_problem,
                    "Try the load by hand: it must end with status 0 while the server runs.");
  }
  if (!run.unwritten.empty()) {
    throw cli_error(exit_code::refused, "a profile could not be written: " + run.unwritten,
                    "Give -o a place with room; the program itself has ended as it would have.");
  }
  if (run.provable) prove_recorded(std::move(*run.provable), arguments, monotonic_seconds() - begin);
  // SIGTERM was how the server was asked to end.
  if (!arguments.load.command.empty() && WIFSIGNALED(run.result.wait_status) &&
      WTERMSIG(run.result.wait_status) == SIGTERM)
    return exit_code::success;
  end_like(run.result.wait_status);
}

}  // namespace tarn::cli
