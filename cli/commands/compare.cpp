// SPDX-License-Identifier: MIT
// tarn compare: measures a program under the system's malloc, tarn and the other allocators.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <random>

#include "cli/commands/commands.hpp"
#include "cli/compare/comparison.hpp"
#include "cli/compare/comparison_report.hpp"
#include "cli/compare/contender.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/compare/tail_report.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/launch/preload_check.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/proc/ticks.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning compare_exits[] = {
    {0, "measured"},
    {1, "the program ends differently under different allocators, or a run took longer than --timeout"},
    usage_exit,
    {3, "the program fails in the same way in all runs; the table is still printed"},
    refused_exit,
    not_executable_exit,
    not_found_exit};

constexpr command_text compare_text = {
    .name = "compare",
    .summary = "Measure a program under the system's malloc, tarn and other mallocs.",
    .usage = "tarn compare [OPTIONS] -- PROGRAM ARG...",
    .examples =
        "  tarn compare -- ./my_program input.dat\n"
        "  tarn compare -r 20 --only system,tarn -- g++ -O2 -c big.cpp -o /dev/null\n"
        "  tarn compare --tail -- ./my_program input.dat\n"
        "  tarn compare --malloc snmalloc=/opt/lib/libsnmallocshim.so -- ./my_program\n"
        "  tarn compare -- sh -c 'sort <words.txt | uniq -c'\n",
    .notes = "",
    .exits = compare_exits,
};

struct compare_arguments {
  comparison_settings settings;
  std::vector<std::string> with;
  std::vector<std::string> only;
  std::int64_t touch_mib = -1;
  int rounds = 0;
  bool tail = false;
  bool json = false;
};

void declare_options(command& app, compare_arguments& arguments) {
  comparison_settings& settings = arguments.settings;
  app.option("-r,--rounds N", arguments.rounds,
             "Number of timed rounds (3 to 10, as many as fit into about a minute)",
             whole_number(1, most_rounds));
  app.option("-w,--warmup N", settings.warmup_rounds, "Rounds before the timed ones, not counted (1)",
             whole_number(0, 100));
  add_malloc_option(app, arguments.with);
  add_only_option(app, arguments.only,
                  "Measure only these (of system, tarn, jemalloc, mimalloc, tcmalloc, ...)");
  app.option("--timeout SECONDS", settings.timeout_seconds,
             "Seconds after which a run is killed and counts as failed", number_above_zero());
  app.option("--stdin FILE", settings.input, "The program's standard input (/dev/null)");
  app.option("--touch MIB", arguments.touch_mib, "Memory to touch and release before each run; 0: none (256)",
             whole_number(0, 1 << 20));
  app.option("--seed N", settings.seed, "Seed for the order of the runs, to repeat that order");
  app.add_flag("--tail", arguments.tail,
               "Time each call of malloc, realloc and free: p50, p99, p99.99, worst");
  app.add_flag("-i,--ignore-failure", settings.ignore_failure, "Count every exit status as success");
  app.add_flag("--show-output", settings.show_output,
               "Show the program's output, which is discarded otherwise");
  app.add_flag("--json", arguments.json, "Print all figures of all runs as one JSON object on stdout");
}

void note_python(const program_target& target, std::vector<std::string>& notes) {
  const environment variables = environment::current();
  const std::string name = std::filesystem::path(target.programs.back().path).filename().string();
  if (name.starts_with("python") && !variables.get("PYTHONMALLOC")) {
    notes.emplace_back(
        "python allocates small objects from its own pools; with PYTHONMALLOC=malloc they come "
        "from malloc");
  }
}

// Times single calls in all runs; throws cli_error where libtarn_tail would have no effect.
void time_calls(const std::vector<contender>& contenders, const program_target& target,
                comparison_settings& settings, profiler::tick_source source) {
  settings.tails = {find_tail_library(), source};
  for (const contender& who : contenders) {
    environment variables = environment_for(who);
    variables.prepend_preload(settings.tails->library);
    require_preload_in_use(target, settings.tails->library, "libtarn_tail", variables);
  }
}

tick_length length_of(const profiler::tick_clock& clock) {
  return {clock.duration_ns(1), clock.duration_ns(profiler::step_of_ticks(clock.source()))};
}

std::vector<std::string> doubts_about(const comparison_outcome& outcome, bool tail) {
  std::vector<std::string> doubts = {outcome.doubt_about_end()};
  if (!tail) doubts.push_back(outcome.doubt_about_peak());
  for (const contender_result* result : with_figures(outcome)) {
    for (const call_tails& round : result->tails) {
      if (round.threads != 0) continue;
      doubts.push_back(
          fmt::format("under {}, the calls of a run were not timed: its processes could not open /proc/{}/fd",
                      result->who.name, getpid()));
      break;
    }
  }
  std::erase(doubts, "");
  return doubts;
}

void print_failures(const comparison_outcome& outcome) {
  flush_standard_output();
  write_message(fold(render_failures(outcome), terminal_width(STDERR_FILENO)));
}

void print_report(const comparison_outcome& outcome) {
  const bool colour = wants_colour(STDOUT_FILENO);
  fmt::print("{}", render_table(outcome, colour, terminal_width(STDOUT_FILENO)));
  bool first = true;
  for (const std::string& line : render_verdict(outcome)) {
    print_text((first ? "\n" + paint(line, style::bold, colour) : line) + "\n");
    first = false;
  }
  print_failures(outcome);
}

void print_tails(const comparison_outcome& outcome, const tick_length& tick) {
  fmt::print("{}", render_tails(outcome, tick, wants_colour(STDOUT_FILENO), terminal_width(STDOUT_FILENO)));
  print_failures(outcome);
}

}  // namespace

int cmd_compare(const std::vector<std::string>& words) {
  compare_arguments arguments;
  comparison_settings& settings = arguments.settings;
  settings.seed = std::random_device{}();
  command app(compare_text);
  declare_options(app, arguments);
  const command_line line = split_command_line(words, app);
  if (!parse_options(app, line.options)) return exit_code::success;
  require_program(line, "compare");
  if (arguments.rounds > 0) settings.rounds = arguments.rounds;
  settings.shows_on_errors = arguments.json;
  settings.conditioning_bytes = arguments.touch_mib < 0
                                    ? default_conditioning_bytes()
                                    : static_cast<std::uint64_t>(arguments.touch_mib) << 20;

  std::vector<std::string> notes;
  const program_target target = find_program(line.program, environment::current());
  note_preloads(notes);
  std::vector<contender> contenders = choose_contenders(arguments.with, arguments.only);
  std::erase_if(contenders, [&](const contender& who) { return !takes_effect(who, target, notes); });
  note_python(target, notes);
  for (const elf_program& program : target.programs) {
    const std::string note =
        note_of_own_malloc(program.path, program.path, "no compared malloc serves what it allocates by that");
    if (!note.empty()) notes.push_back(note);
  }
  for (const std::string& note : notes) print_note(note);
  if (!arguments.json) {
    std::vector<std::string> names;
    for (const contender& who : contenders) names.push_back(who.name);
    print_note(fmt::format("{} under {}", cut_to_width(profiler::printable(join(line.program, " ")), 80),
                           join(names, ", ")));
  }
  std::optional<profiler::tick_clock> clock;
  if (arguments.tail) {
    clock.emplace(profiler::best_tick_source());
    time_calls(contenders, target, settings, clock->source());
  }
  try {
    const comparison_outcome outcome = comparison(contenders, target, line.program, settings).run();
    if (clock) clock->learn();
    for (const std::string& doubt : doubts_about(outcome, arguments.tail)) {
      print_note(doubt);
      notes.push_back(doubt);
    }
    const tick_length tick = clock ? length_of(*clock) : tick_length();
    if (arguments.json) {
      nlohmann::json object = arguments.tail ? tails_as_json(outcome, tick) : as_json(outcome);
      object["program"] = line.program;
      object["notes"] = notes;
      object["seed"] = settings.seed;
      object["touched_bytes"] = settings.conditioning_bytes;
      print_json_object(object);
    } else if (arguments.tail) {
      print_tails(outcome, tick);
    } else {
      print_report(outcome);
    }
    return exit_code_of(outcome, settings.ignore_failure);
  } catch (const interrupted& stop) {
    print_note("interrupted; no figures");
    end_like(W_EXITCODE(0, stop.signal));  // by the same signal; does not return
  }
}

}  // namespace tarn::cli
