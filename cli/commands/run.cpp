// SPDX-License-Identifier: MIT
// tarn run: starts a program on tarn, after making sure that it will really use it.
#include <fmt/core.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/compare/applied_plan.hpp"
#include "cli/control/program_push.hpp"
#include "cli/control/push_options.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/foreground.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/preload_check.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/launch/scratch_file.hpp"
#include "cli/recording/box_files.hpp"
#include "cli/recording/box_watch.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning run_exits[] = {program_exit,
                                      {125, "wrong usage, or tarn refuses; the message says why"},
                                      not_executable_exit,
                                      not_found_exit};

constexpr command_text run_text = {
    .name = "run",
    .summary = "Start a program on tarn.",
    .usage =
        "tarn run [--stats] [--json] -- PROGRAM ARG...\n"
        "tarn run --plan FILE -- PROGRAM ARG...\n"
        "tarn run [--black-box DIR] [--push STORE=URL] -- PROGRAM ARG...",
    .examples =
        "  tarn run -- python3 script.py    start it on tarn; exit status is its own\n"
        "  tarn run --stats -- make -j2     print time, memory and page faults at the end\n"
        "  tarn run --json -- ./server      the same figures as one JSON object on stderr\n"
        "  tarn run --plan plan.json -- ./server    with what tarn advise --plan wrote\n"
        "  tarn run --black-box /dev/shm/box -- ./server    if it is killed, say what its\n"
        "                                                   memory held\n"
        "  tarn run --push pyroscope=http://pyroscope:4040 -- ./server\n",
    .notes =
        "Refuses with a reason if tarn would have no effect: static, setuid, setgid and\n"
        "foreign programs, programs with a malloc of their own or with a sanitizer.\n",
    .exits = run_exits,
};

// Replaces this process: the program gets its signals, terminal and parent as if started directly.
[[noreturn]] void replace_by(const program_target& target, const std::vector<std::string>& words,
                             environment variables) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> pointers = variables.pointers();
  std::fflush(nullptr);
  execve(target.path.c_str(), arguments.data(), pointers.data());
  const int error = errno;
  throw cli_error(error == ENOENT ? exit_code::not_found : exit_code::not_executable,
                  fmt::format("cannot start {}: {}", target.path, std::strerror(error)),
                  error == E2BIG
                      ? "The arguments and the environment together are too long; shorten one of them."
                      : "Check whether it starts without tarn.");
}

nlohmann::json figures_as_json(const std::vector<std::string>& words, const foreground_result& result,
                               const exit_statistics& statistics) {
  return {
      {"program", words},
      {"exit_status",
       WIFEXITED(result.wait_status) ? nlohmann::json(WEXITSTATUS(result.wait_status)) : nullptr},
      {"signal", WIFSIGNALED(result.wait_status) ? nlohmann::json(WTERMSIG(result.wait_status)) : nullptr},
      {"wall_seconds", result.wall_seconds},
      {"user_seconds", seconds_of(result.usage.ru_utime)},
      {"system_seconds", seconds_of(result.usage.ru_stime)},
      {"peak_rss_bytes", result.usage.ru_maxrss * 1024},
      {"minor_faults", result.usage.ru_minflt},
      {"major_faults", result.usage.ru_majflt},
      {"returned_bytes", statistics.processes > 0 ? nlohmann::json(statistics.returned) : nullptr},
      {"processes_reporting", statistics.processes}};
}

void print_figures(const foreground_result& result, const exit_statistics& statistics) {
  std::string returned = "not reported (the program ended without running exit handlers, or in a sandbox)";
  if (statistics.processes > 0) {
    returned =
        fmt::format("{} by {} process{}", profiler::say_bytes(static_cast<double>(statistics.returned)),
                    statistics.processes, statistics.processes == 1 ? "" : "es");
  }
  const bool colour = wants_colour(STDERR_FILENO);
  const auto line = [colour](const char* label, const std::string& value) {
    print_message("  {}  {}\n", paint(pad_right(label, 12), style::faint, colour), value);
  };
  print_note(format_exit(result.wait_status));
  line("wall", profiler::say_seconds(result.wall_seconds));
  line("user", profiler::say_seconds(seconds_of(result.usage.ru_utime)));
  line("system", profiler::say_seconds(seconds_of(result.usage.ru_stime)));
  line("peak RSS", profiler::say_bytes(static_cast<double>(result.usage.ru_maxrss) * 1024));
  line("page faults", fmt::format("{} minor, {} major", result.usage.ru_minflt, result.usage.ru_majflt));
  line("returned", returned);
}

int run_with_statistics(const program_target& target, const std::vector<std::string>& words,
                        environment variables, bool json) {
  if (variables.get("TARN_STATS")) {
    print_note("--stats replaces TARN_STATS for this run");
  }
  foreground_result result;
  exit_statistics statistics;
  {
    const scratch_file file("");
    variables.set("TARN_STATS", file.path());
    child_request request{.path = target.path, .arguments = words, .variables = std::move(variables)};
    result = run_in_foreground(request);
    statistics = read_exit_statistics(file.path());
  }
  // The file is gone by now: where nobody reads stderr, this waits, and a signal may end it.
  if (json) {
    print_message("{}\n", json_text(figures_as_json(words, result, statistics)));
  } else {
    print_figures(result, statistics);
  }
  end_like(result.wait_status);
}

// The malloc is the plan's: that of the system, tarn's, or another one.
[[noreturn]] void run_with_plan(const std::string& file, bool trusted, const program_target& target,
                                const std::vector<std::string>& words) {
  const profiler::plan plan = load_plan(file, trusted);
  const applied_plan in_place(plan);
  const contender applied = in_place.as_contender("plan");
  if (!applied.library.empty()) verify_contender(applied, target);
  child_request request{.path = target.path, .arguments = words, .variables = environment_for(applied)};
  const foreground_result result = run_in_foreground(request);
  in_place.remove_files();
  end_like(result.wait_status);
}

// `box`: the folder of black boxes; empty: there are none.
[[noreturn]] void run_watched(const std::string& box, std::optional<push_settings> pushed,
                              const program_target& target, const std::vector<std::string>& words,
                              environment variables) {
  const bounded_messages bounded;  // also before the start and after the end, which others wait for
  int wait_status = 0;
  {
    std::optional<program_push> push;
    if (pushed) push.emplace(*std::move(pushed)).prepare(variables);
    std::optional<box_watch> watch;
    if (!box.empty()) {
      // What a look has used stays for the next one, which needs no new page then when the group is full.
      mallopt(M_TRIM_THRESHOLD, 16 << 20);
      watch.emplace(box).take_old();
      variables.set("TARN_BLACK_BOX", box);
    }
    const child_request request{.path = target.path, .arguments = words, .variables = std::move(variables)};
    const foreground_look look{.interval_seconds = 0.05,
                               .look =
                                   [&](pid_t program) {
                                     if (push) push->look(program);
                                     if (watch) watch->look(program);
                                   },
                               .ended =
                                   [&](int status) {
                                     if (watch) watch->ended(status);
                                   }};
    const foreground_result result = run_in_foreground(request, &look);
    wait_status = result.wait_status;
    if (watch) watch->finish(1024.0 * static_cast<double>(result.usage.ru_maxrss));
    if (push) push->finish();
  }
  end_like(wait_status);
}

}  // namespace

int cmd_run(const std::vector<std::string>& words) {
  command app(run_text);
  bool statistics = false;
  bool json = false;
  bool trusted = false;
  std::string plan;
  CLI::Option* stats =
      app.add_flag("-s,--stats", statistics, "Print time, peak memory and page faults on stderr at the end");
  CLI::Option* as_json = app.add_flag("--json", json, "Print the same figures as one JSON object on stderr");
  CLI::Option* of_plan =
      app.option("--plan FILE", plan, "Start the program with the changes of this plan instead")
          ->excludes(stats)
          ->excludes(as_json);
  std::string box;
  app.option(
         "--black-box DIR", box,
         "If the program does not end with status 0, or a process of it is killed: say what its memory held, and write that as "
         "a profile into this folder, where each process keeps its box meanwhile")
      ->excludes(stats)
      ->excludes(as_json)
      ->excludes(of_plan);
  push_arguments push;
  for (CLI::Option* const each : add_push_options(app, push))
    each->excludes(stats)->excludes(as_json)->excludes(of_plan);
  app.add_flag("--trust-file", trusted,
               "Use a library or variables that the plan names, although they could run anything")
      ->needs(of_plan);
  const command_line line = split_command_line(words, app);
  if (!parse_options(app, line.options)) return exit_code::success;
  require_program(line, "run");
  auto pushed = push_settings_of(app, push);

  environment variables = environment::current();
  if (!plan.empty()) run_with_plan(plan, trusted, find_program(line.program, variables), line.program);
  const std::string library = find_tarn_library();
  const program_target target = find_program(line.program, variables);
  const std::optional<std::string> replaced = box.empty() ? std::nullopt : other_malloc(target, variables);
  variables.prepend_preload(library);
  // A variable for this command only; the library would warn about an unknown option.
  variables.unset("TARN_LIBRARY");
  require_preload_in_use(target, library, "tarn", variables);
  for (const elf_program& program : target.programs) {
    const std::string note = note_of_own_malloc(program.path, program.path,
                                                "tarn's malloc does not serve what it allocates by that");
    if (!note.empty()) print_note(note);
  }
  // Who wants a black box has not asked for another malloc.
  if (replaced && !std::filesystem::path(*replaced).filename().string().starts_with("libtarn")) {
    print_note(fmt::format(
        "the program's malloc, {}, gives way to tarn's; to keep it: tarn profile --checkpoint 1 -- PROGRAM, "
        "which says the same of a program that is killed",
        *replaced));
  }
  if (pushed || !box.empty())
    run_watched(box.empty() ? "" : box_folder(box), std::move(pushed), target, line.program,
                std::move(variables));
  if (statistics || json) return run_with_statistics(target, line.program, std::move(variables), json);
  replace_by(target, line.program, std::move(variables));
}

}  // namespace tarn::cli
