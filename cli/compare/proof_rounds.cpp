// SPDX-License-Identifier: MIT
#include "cli/compare/proof_rounds.hpp"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "cli/compare/proof_course.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

namespace {

// The unchanged program hangs if it takes that much longer than the recorded run, and a way if it takes `way_patience` times
// as long as the unchanged program.
constexpr double patience = 10;
constexpr double least_timeout = 30;
constexpr double load_timeout = 600;
constexpr double way_patience = 4;
// Of the program's own time: the recording just before, or a run that warms up, included. With what comes before and after the
// rounds it makes 12.
constexpr double own_times = 11.5;
// Of ways that were asked for by name: as many rounds of all.
constexpr double wanted_rounds = 4;
constexpr double least_limit = 4;
constexpr std::size_t least_chosen = 2;  // for a second round
constexpr double overhead_runs = 0.5;
constexpr double load_limit = 170;  // all in all, too
// Of memory per second of the program: keeps the time for that below some percent.
constexpr double conditioned_bytes_per_second = 0x1p26;
// Beyond this factor the repeated runs probably did other work than the recorded one: the recorder takes up to half
// as much time again.
constexpr double alike = 2;
// Wall time only: recording every call of a fast allocator takes up to four times as long.
constexpr double alike_in_wall_time = 5;
constexpr double least_compared_seconds = 0.1;

// What the rounds need of the profile, which is given up before them: the memory of this process would count as the
// program's.
struct recorded_figures {
  double seconds = 0;
  double cpu_seconds = 0;
  double resident_bytes = 0;
};

recorded_figures figures_of(const profiler::profile& p) {
  recorded_figures figures{1e-9 * profiler::number_in(p.meta, "duration_ns"), 1e-9 * profiler::cpu_time_of(p),
                           0};
  for (const profiler::counter_row& row : p.counters)
    figures.resident_bytes = std::max(figures.resident_bytes, row.resident_bytes);
  return figures;
}

run_settings settings_of(const recorded_figures& recorded, const profiler::recorded_command& command,
                         const proof_wishes& wishes, std::vector<std::string>& notes) {
  run_settings settings = restore_start(command, wishes.repeat, notes);
  settings.load = wishes.load;
  settings.timeout_seconds = wishes.timeout_seconds > 0 ? wishes.timeout_seconds
                             : wishes.load              ? load_timeout
                                                        : least_timeout + patience * recorded.seconds;
  return settings;
}

course_settings course_of(const recorded_figures& recorded, const proof_wishes& wishes, std::size_t ways) {
  course_settings settings;
  settings.stops = wishes.rounds == 0;
  settings.chooses = wishes.actions.ways.empty();
  settings.limit_seconds = wishes.limit_seconds;
  if (wishes.limit_seconds > 0 || wishes.rounds > 0) return settings;
  if (wishes.load) {
    settings.limit_seconds = std::max(least_limit, load_limit - wishes.spent_seconds);
    return settings;
  }
  settings.own_times = own_times;
  if (!settings.chooses)
    settings.own_times = std::max(own_times, wanted_rounds * static_cast<double>(ways + 1));
  settings.spent_seconds = wishes.spent_seconds;
  settings.least_seconds = least_limit;
  settings.least_runs = static_cast<double>(ways + 1 + std::min(ways, least_chosen) + 1) + overhead_runs;
  settings.limit_seconds = settings.limit_for(recorded.seconds);
  return settings;
}

comparison_settings comparison_of(const recorded_figures& recorded, const run_settings& run,
                                  const proof_wishes& wishes, double limit_seconds) {
  comparison_settings settings;
  static_cast<run_settings&>(settings) = run;
  if (wishes.rounds > 0) settings.rounds = wishes.rounds;
  settings.warmup_rounds = 0;
  settings.warms_first = wishes.spent_seconds <= 0 && !wishes.load;
  settings.limit_seconds = limit_seconds;
  if (wishes.timeout_seconds <= 0 && !wishes.load) settings.patience = way_patience;
  settings.expected_seconds = recorded.seconds;
  settings.first_must_succeed = true;
  settings.progress = wishes.progress;
  settings.seed = wishes.seed;
  // As much as the program can have released; a small program should not wait for more.
  settings.conditioning_bytes =
      std::min(default_conditioning_bytes(),
               static_cast<std::uint64_t>(
                   std::min(2 * recorded.resident_bytes, conditioned_bytes_per_second * recorded.seconds)));
  return settings;
}

void announce(const std::vector<proof_action>& actions, const proof_wishes& wishes,
              const course_settings& limits) {
  if (!wishes.progress) return;
  std::vector<std::string> names;
  for (const proof_action& action : actions) names.push_back(action.who.name);
  // The limit grows if the program takes longer than it was recorded.
  const std::string bound = limits.limit_seconds > 0
                                ? fmt::format("{} {:.0f} s", limits.own_times > 0 ? "about" : "at most",
                                              std::ceil(limits.limit_seconds))
                                : rounds_in_words(wishes.rounds);
  print_note(fmt::format(
      "measures {} way{} ({}) against the unchanged program: {}; Ctrl-C keeps the rounds that are complete",
      names.size(), names.size() == 1 ? "" : "s", join(names, ", "), bound));
}

program_target find_repeated(const profiler::recorded_command& command) {
  std::vector<std::string> words = command.words;
  words.resize(std::max<std::size_t>(words.size(), 1));
  words.front() = command.path;
  try {
    return find_program(words, environment::current());
  } catch (const cli_error& error) {
    if (error.code() != exit_code::refused) throw;
    return {command.path, {}};  // static: no preload can work
  }
}

// A program that fails only after complete rounds was measured in them.
void check_unchanged_end(const comparison_outcome& outcome, bool is_server, std::vector<std::string>& notes) {
  const contender_result& unchanged = outcome.results.front();
  if (unchanged.failure.empty()) return;
  if (outcome.rounds > 0) {
    notes.push_back(fmt::format(
        "the unchanged program began to fail in round {}: {}. The figures are those of the {} before it",
        outcome.rounds + 1, unchanged.failure, rounds_in_words(outcome.rounds)));
    return;
  }
  throw cli_error(exit_code::program_fails,
                  is_server
                      ? "the server cannot be measured: " + unchanged.failure
                      : "the program ended with status 0 when it was recorded, but now: " + unchanged.failure,
                  unchanged.error_tail);
}

[[noreturn]] void refuse_background(const std::string& problem) {
  throw cli_error(
      exit_code::refused, problem + "; what is done there is not measured",
      "Record it with its option for the foreground. For a server: tarn prove --load COMMAND. A helper that "
      "stays for later runs is no part of the program: start it before.");
}

// The work of a process tree is in its descendants, whose processor time is not in the file of the first process;
// so wall time is compared there.
void compare_with_recording(const recorded_figures& recorded, const proof_result& result,
                            std::vector<std::string>& notes) {
  const auto differ = [&](double before, double now, double factor, const char* what) {
    if (std::max(before, now) < least_compared_seconds) return false;
    if (now <= factor * before && before <= factor * now) return false;
    notes.push_back(fmt::format(
        "the program took {} of {} when it was recorded, but {} now: it may not do the same work "
        "(because of files that it created or changed), or the recorder or other processes slowed "
        "it down",
        profiler::say_seconds(before), what, profiler::say_seconds(now)));
    return true;
  };
  const double processor =
      median(values_of(result.outcome.results.front().rounds, &run_figures::cpu_seconds));
  if (differ(recorded.cpu_seconds, processor, alike, "CPU time")) return;
  differ(recorded.seconds, result.program_seconds, alike_in_wall_time, "wall time");
}

// Runs the rounds. None is complete if the outcome's first result has none.
void measure(const recorded_figures& recorded, const proof_wishes& wishes, const run_settings& run,
             const proof_actions& actions, proof_result& result) {
  std::vector<contender> contenders = {actions.unchanged()};
  for (const proof_action& action : actions.all()) contenders.push_back(action.who);
  const course_settings limits = course_of(recorded, wishes, actions.all().size());
  announce(actions.all(), wishes, limits);
  const double begin = monotonic_seconds();
  proof_course course(actions.all(), limits);
  comparison_settings settings = comparison_of(recorded, run, wishes, limits.limit_seconds);
  if (limits.own_times > 0) settings.limit_for = [&limits](double own) { return limits.limit_for(own); };
  if (limits.stops)
    settings.go_on = [&course](const comparison_outcome& outcome) { return course.after_round(outcome); };
  const program_target target = find_repeated(result.command);
  try {
    result.outcome = comparison(contenders, target, result.command.words, settings).run();
  } catch (const comparison_interrupted& stop) {
    result.outcome = stop.so_far;
    result.interrupted_by = stop.signal;
  }
  check_unchanged_end(result.outcome, wishes.load.has_value(), result.notes);
  result.notes.insert(result.notes.end(), result.outcome.lapses.begin(), result.outcome.lapses.end());
  const std::vector<run_figures>& rounds = result.outcome.results.front().rounds;
  const std::string background = result.outcome.doubt_about_end();
  if (rounds.empty() && !background.empty()) refuse_background(background);
  if (!background.empty()) result.notes.push_back(background + ". The figures are of the rounds before");
  if (rounds.empty()) return;
  result.proven = course.result(result.outcome);
  result.proven.start = std::time(nullptr);
  result.proven.seconds = monotonic_seconds() - begin;
  if (wishes.load) result.proven.load = wishes.load->command;
  result.program_seconds = median(values_of(rounds, &run_figures::wall_seconds));
}

[[noreturn]] void refuse_without_round(const std::string& cut_short) {
  const std::string reason = cut_short.empty() ? "" : ": " + cut_short;
  throw cli_error(
      exit_code::refused, "no round was complete within the limit" + reason,
      std::string(cut_short.empty() ? "" : "Check --ready-port, --ready-command and --load. ") +
          "A round runs the program once under each way. Measure fewer ways (tarn prove --only), or allow "
          "more time (tarn prove --for).");
}

}  // namespace

proof_result prove_profile(const std::string& path, profiler::profile p, const proof_wishes& wishes) {
  // The recorded command may have begun in another folder, where the runs begin, too.
  const std::string profile_path = std::filesystem::absolute(path).string();
  action_wishes ways = wishes.actions;
  ways.mallocs = with_absolute_paths(ways.mallocs);
  proof_result result;
  result.command = load_repeatable(profile_path, p, wishes.repeat);
  // Opened before the rounds, so that a file that cannot be written is reported at once.
  if (wishes.keep) profiler::table_writer(profile_path, profiler::table_writer::start::go_on);
  const recorded_figures recorded = figures_of(p);
  const run_settings run = settings_of(recorded, result.command, wishes, result.notes);
  const proof_actions actions(p, find_repeated(result.command), result.command.words, ways, result.notes);
  if (actions.all().empty()) return result;
  const profiler::proof earlier = std::move(p.proven);
  p = {};
  malloc_trim(0);
  measure(recorded, wishes, run, actions, result);
  if (result.proven.rounds == 0) {
    if (result.interrupted_by != 0) return result;
    refuse_without_round(result.outcome.cut_short);
  }
  result.plan_sites = actions.plan_report();
  if (!wishes.load) compare_with_recording(recorded, result, result.notes);
  for (const std::string& doubt : {doubt_about_load(result.proven), result.outcome.doubt_about_peak()}) {
    if (!doubt.empty()) result.notes.push_back(doubt);
  }
  if (wishes.keep) {
    profiler::table_writer file(profile_path, profiler::table_writer::start::go_on);
    file.append_json("proof", json_text(as_json(joined(earlier, result.proven))));
  }
  return result;
}

std::string interruption_text(const proof_result& result) {
  if (result.interrupted_by == 0) return "";
  const int rounds = result.proven.rounds;
  if (rounds == 0) return "interrupted before the first round was complete; no figures";
  return fmt::format("interrupted; the figures of {} complete round{} are kept", rounds,
                     rounds == 1 ? "" : "s");
}

}  // namespace tarn::cli
