// SPDX-License-Identifier: MIT
#include "cli/compare/proof_rounds.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "cli/compare/comparison_report.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

using profiler::proof;
using profiler::proof_metric;
using profiler::proof_way;

namespace {

constexpr double budget_seconds = 600;
// A way that takes `patience` times as long as the recorded run counts as hanging.
constexpr double patience = 10;
constexpr double least_timeout = 30;
constexpr double load_timeout = 600;
// Beyond this factor the repeated runs probably did other work than the recorded one: the recorder takes up to half
// as much time again.
constexpr double alike = 2;
// Wall time only: recording every call of a fast allocator takes up to four times as long.
constexpr double alike_in_wall_time = 5;
constexpr double least_compared_seconds = 0.1;

struct measured_metric {
  proof_metric metric;
  double run_figures::*value;
};
constexpr measured_metric measured_metrics[] = {{proof_metric::wall, &run_figures::wall_seconds},
                                                {proof_metric::cpu, &run_figures::cpu_seconds},
                                                {proof_metric::rss, &run_figures::peak_rss_bytes},
                                                {proof_metric::faults, &run_figures::minor_faults}};

profiler::proven_figure judged_figure(const std::vector<double>& subject,
                                      const std::vector<double>& reference, std::size_t comparisons) {
  const judgement judged = judge_rounds(subject, reference, comparisons);
  profiler::proven_figure figure;
  figure.before = median(reference);
  figure.ratio = judged.ratio;
  figure.low = judged.low;
  figure.high = judged.high;
  figure.confidence = judged.confidence;
  if (judged.outcome == difference::less) figure.outcome = profiler::proof_outcome::less;
  if (judged.outcome == difference::more) figure.outcome = profiler::proof_outcome::more;
  return figure;
}

const contender_result* result_of(const comparison_outcome& outcome, const std::vector<proof_action>& actions,
                                  std::string_view kind, std::string_view name) {
  for (std::size_t index = 0; index < actions.size(); ++index) {
    const bool meant = kind.empty() ? actions[index].told.name == name : actions[index].told.kind == kind;
    const contender_result& result = outcome.results[index + 1];
    if (meant && result.failure.empty() && !result.rounds.empty()) return &result;
  }
  return nullptr;
}

// CPU time of the layer in each round: that of an empty plan under the layer, less that of the same malloc without
// it. Empty if the difference is within noise.
std::vector<double> layer_price(const contender_result* layer, const contender_result* bare) {
  if (layer == nullptr || bare == nullptr) return {};
  std::vector<double> with = values_of(layer->rounds, &run_figures::cpu_seconds);
  const std::vector<double> without = values_of(bare->rounds, &run_figures::cpu_seconds);
  if (judge_rounds(with, without, 1).outcome != difference::more) return {};
  with.resize(std::min(with.size(), without.size()));
  for (std::size_t round = 0; round < with.size(); ++round) with[round] -= without[round];
  return with;
}

// Subtracts by round, so that the interval includes the uncertainty of the price.
void take_off(std::vector<double>& values, const std::vector<double>& price) {
  for (std::size_t round = 0; round < std::min(values.size(), price.size()); ++round)
    values[round] -= price[round];
}

run_settings settings_of(const profiler::profile& p, const profiler::recorded_command& command,
                         const proof_wishes& wishes, std::vector<std::string>& notes) {
  run_settings settings = restore_start(command, wishes.repeat, notes);
  settings.load = wishes.load;
  const double recorded = 1e-9 * profiler::number_in(p.meta, "duration_ns");
  settings.timeout_seconds = wishes.timeout_seconds > 0 ? wishes.timeout_seconds
                             : wishes.load              ? load_timeout
                                                        : least_timeout + patience * recorded;
  return settings;
}

comparison_settings comparison_of(const profiler::profile& p, const run_settings& run,
                                  const proof_wishes& wishes) {
  comparison_settings settings;
  static_cast<run_settings&>(settings) = run;
  if (wishes.rounds > 0) settings.rounds = wishes.rounds;
  settings.budget_seconds = wishes.limit_seconds > 0 ? wishes.limit_seconds : budget_seconds;
  settings.limit_seconds = wishes.limit_seconds;
  settings.first_must_succeed = true;
  settings.progress = wishes.progress;
  settings.seed = wishes.seed;
  // As much as the program can have released; a small program should not wait for more.
  double resident = 0;
  for (const profiler::counter_row& row : p.counters) resident = std::max(resident, row.resident_bytes);
  settings.conditioning_bytes =
      std::min(default_conditioning_bytes(), static_cast<std::uint64_t>(2 * resident));
  return settings;
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

void require_unchanged_end(const comparison_outcome& outcome, bool is_server) {
  const contender_result& unchanged = outcome.results.front();
  if (unchanged.failure.empty()) return;
  throw cli_error(exit_code::program_fails,
                  is_server
                      ? "the server cannot be measured: " + unchanged.failure
                      : "the program ended with status 0 when it was recorded, but now: " + unchanged.failure,
                  unchanged.error_tail);
}

// The work of a process tree is in its descendants, whose processor time is not in the file of the first process;
// so wall time is compared there.
void compare_with_recording(const profiler::profile& p, const proof_result& result,
                            std::vector<std::string>& notes) {
  const auto differ = [&](double recorded, double now, double factor, const char* what) {
    if (std::max(recorded, now) < least_compared_seconds) return false;
    if (now <= factor * recorded && recorded <= factor * now) return false;
    notes.push_back(fmt::format(
        "the program took {} of {} when it was recorded, but {} now: it may not do the same work "
        "(because of files that it created or changed), or the recorder or other processes slowed "
        "it down",
        profiler::say_seconds(recorded), what, profiler::say_seconds(now)));
    return true;
  };
  const double processor =
      median(values_of(result.outcome.results.front().rounds, &run_figures::cpu_seconds));
  const double lasted = 1e-9 * profiler::number_in(p.meta, "duration_ns");
  if (differ(1e-9 * profiler::cpu_time_of(p), processor, alike, "CPU time")) return;
  differ(lasted, result.program_seconds, alike_in_wall_time, "wall time");
}

}  // namespace

proof evaluate_rounds(const comparison_outcome& outcome, const std::vector<proof_action>& actions) {
  proof result;
  result.rounds = outcome.rounds;
  const contender_result& unchanged = outcome.results.front();
  const std::vector<double> price =
      layer_price(result_of(outcome, actions, layer_kind, ""), result_of(outcome, actions, "", tarn_name));
  for (std::size_t index = 0; index < actions.size(); ++index) {
    const contender_result& measured = outcome.results[index + 1];
    proof_way way = actions[index].told;
    way.failure = measured.failure;
    if (way.failure.empty() && measured.rounds.empty()) way.failure = "no round was complete";
    for (const measured_metric& each : measured_metrics) {
      if (!way.failure.empty()) break;
      std::vector<double> values = values_of(measured.rounds, each.value);
      const std::vector<double> reference = values_of(unchanged.rounds, each.value);
      if (actions[index].is_layered && each.metric == proof_metric::cpu) {
        way.layered_ratio = median(values) / std::max(1e-9, median(reference));
        if (!price.empty()) way.layer_seconds = std::max(0.0, median(price));
        take_off(values, price);
      }
      way.of(each.metric) = judged_figure(values, reference, actions.size());
    }
    result.ways.push_back(std::move(way));
  }
  return result;
}

proof_result prove_profile(const std::string& path, const profiler::profile& p, const proof_wishes& wishes) {
  const std::string profile_path = std::filesystem::absolute(path).string();
  proof_result result;
  result.command = load_repeatable(profile_path, p, wishes.repeat);
  // Opened before the rounds, so that a file that cannot be written is reported at once.
  if (wishes.keep) profiler::table_writer(profile_path, profiler::table_writer::start::go_on);
  const run_settings run = settings_of(p, result.command, wishes, result.notes);
  const program_target target = find_repeated(result.command);
  const proof_actions actions(p, target, wishes.actions, result.notes);
  std::vector<contender> contenders = {actions.unchanged()};
  for (const proof_action& action : actions.all()) contenders.push_back(action.who);
  const comparison_settings settings = comparison_of(p, run, wishes);
  const double begin = monotonic_seconds();
  try {
    result.outcome = comparison(contenders, target, result.command.words, settings).run();
  } catch (const comparison_interrupted& stop) {
    result.outcome = stop.so_far;
    result.interrupted_by = stop.signal;
  }
  require_unchanged_end(result.outcome, wishes.load.has_value());
  if (result.outcome.results.front().rounds.empty()) {
    if (result.interrupted_by != 0) return result;
    throw cli_error(
        exit_code::refused, "no round was complete within the limit",
        "A round runs the program once under each way. Measure fewer ways (--only), or allow more "
        "time (--for).");
  }
  result.proven = evaluate_rounds(result.outcome, actions.all());
  result.plan_sites = actions.plan_report();
  result.proven.start = std::time(nullptr);
  result.proven.seconds = monotonic_seconds() - begin;
  if (wishes.load) result.proven.load = wishes.load->command;
  result.program_seconds =
      median(values_of(result.outcome.results.front().rounds, &run_figures::wall_seconds));
  if (!wishes.load) compare_with_recording(p, result, result.notes);
  if (wishes.keep) {
    profiler::table_writer file(profile_path, profiler::table_writer::start::go_on);
    file.append_json("proof", json_text(as_json(result.proven)));
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
