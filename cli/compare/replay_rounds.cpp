// SPDX-License-Identifier: MIT
#include "cli/compare/replay_rounds.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/compare/interleaved_rounds.hpp"
#include "cli/compare/statistics.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

using profiler::play_figures;
using profiler::play_mode;

namespace {

constexpr std::array<named_figure<play_figures>, 6> play_figure_names = {{
    {"wall_seconds", &play_figures::wall_seconds},
    {"user_seconds", &play_figures::user_seconds},
    {"system_seconds", &play_figures::system_seconds},
    {"faults", &play_figures::faults},
    {"peak_bytes", &play_figures::peak_bytes},
    {"failed", &play_figures::failed},
}};

const char* mode_word(play_mode mode) {
  if (mode == play_mode::nothing) return "nothing";
  return mode == play_mode::routes ? "routes" : "heap";
}

play_figures run_once(const replay_way& way, double timeout_seconds) {
  const std::string answer =
      run_worker(way.who, {replay_worker_word, std::to_string(way.image->descriptor()), mode_word(way.mode)},
                 timeout_seconds);
  return figures_from<play_figures>(answer, play_figure_names);
}

// Subtracts the cost of the replay itself.
void take_off(play_figures& from, const play_figures& own) {
  from.wall_seconds = std::max(0.0, from.wall_seconds - own.wall_seconds);
  from.user_seconds = std::max(0.0, from.user_seconds - own.user_seconds);
  from.system_seconds = std::max(0.0, from.system_seconds - own.system_seconds);
}

std::vector<measured_way> measured_ways(const std::vector<replay_way>& ways,
                                        const replay_settings& settings) {
  std::vector<measured_way> measured;
  for (const replay_way& way : ways) measured.push_back({way.name, settings.conditioning_bytes});
  return measured;
}

class replay_run {
 public:
  replay_run(const std::vector<replay_way>& ways, const replay_settings& settings)
      : settings_(settings), rounds_(measured_ways(ways, settings), settings.progress, settings.seed) {
    for (const replay_way& way : ways) results_.push_back({way, {}, {}});
  }

  std::vector<replay_result> run() {
    for (int round = 0; round < settings_.rounds; ++round) {
      play_nothing(round == 0);
      rounds_.run_round(fmt::format("replay {}/{}", round + 1, settings_.rounds), settings_.rounds - round,
                        [this](std::size_t index) { measure(index); });
    }
    rounds_.clear_progress();
    for (replay_result& result : results_) {
      if (!result.failure.empty()) result.rounds.clear();
      for (play_figures& figures : result.rounds) take_off(figures, own_);
    }
    return std::move(results_);
  }

 private:
  void measure(std::size_t index) {
    replay_result& result = results_[index];
    try {
      result.rounds.push_back(run_once(result.way, settings_.timeout_seconds));
    } catch (const cli_error& error) {
      result.failure = error.what();
      rounds_.fail(index);
    }
  }

  // Measures the cost of the replay itself: the minimum of all rounds, as disturbances can only add time.
  void play_nothing(bool first) {
    replay_way way;
    way.name = "nothing";
    way.who.name = system_name;
    way.mode = play_mode::nothing;
    way.image = results_.front().way.image;
    const play_figures now = run_once(way, settings_.timeout_seconds);
    for (double play_figures::*each :
         {&play_figures::wall_seconds, &play_figures::user_seconds, &play_figures::system_seconds}) {
      own_.*each = first ? now.*each : std::min(own_.*each, now.*each);
    }
  }

  const replay_settings& settings_;
  interleaved_rounds rounds_;
  std::vector<replay_result> results_;
  play_figures own_;
};

struct table_row {
  const char* name;
  double (*value)(const play_figures&);
  profiler::quantity (*show)(double);
};

constexpr std::array<table_row, 5> table_rows = {{
    {"CPU time", [](const play_figures& f) { return f.cpu_seconds(); }, show_seconds},
    {"  in the kernel", [](const play_figures& f) { return f.system_seconds; }, show_seconds},
    {"wall time", [](const play_figures& f) { return f.wall_seconds; }, show_seconds},
    {"page faults", [](const play_figures& f) { return f.faults; }, show_count},
    {"peak RSS", [](const play_figures& f) { return f.peak_bytes; }, show_bytes},
}};

std::vector<double> values_of(const replay_result& result, double (*value)(const play_figures&)) {
  std::vector<double> values;
  for (const play_figures& round : result.rounds) values.push_back(value(round));
  return values;
}

}  // namespace

std::vector<replay_result> replay_all(const std::vector<replay_way>& ways, const replay_settings& settings) {
  return replay_run(ways, settings).run();
}

std::optional<profiler::raw_saving> saving_of(const replay_result& subject, const replay_result& reference) {
  const std::size_t rounds = std::min(subject.rounds.size(), reference.rounds.size());
  if (rounds == 0) return std::nullopt;
  std::vector<double> differences;
  std::vector<double> in_kernel;
  for (std::size_t round = 0; round < rounds; ++round) {
    const play_figures& before = reference.rounds[round];
    const play_figures& after = subject.rounds[round];
    differences.push_back(1e9 * (before.cpu_seconds() - after.cpu_seconds()));
    in_kernel.push_back(1e9 * (before.system_seconds - after.system_seconds));
  }
  const auto [least, most] = std::minmax_element(differences.begin(), differences.end());
  profiler::raw_saving saving;
  saving.raw_ns = median(differences);
  saving.least_ns = *least;
  saving.most_ns = *most;
  saving.fault_ns = median(in_kernel);
  return saving;
}

std::string render_replay_table(const std::vector<replay_result>& results, bool colour) {
  constexpr std::size_t label_width = 17;
  std::vector<const replay_result*> columns;
  std::size_t width = 13;
  for (const replay_result& result : results) {
    if (result.rounds.empty()) continue;
    columns.push_back(&result);
    width = std::max(width, result.way.name.size() + 2);
  }
  if (columns.empty()) return {};
  std::string header = pad_right("", label_width);
  for (const replay_result* column : columns) header += pad_left(column->way.name, width);
  std::string text = paint(header, style::bold, colour) + "\n";
  for (const table_row& row : table_rows) {
    std::string first = pad_right(row.name, label_width);
    std::string second = pad_right("", label_width);
    const double base = median(values_of(*columns.front(), row.value));
    for (const replay_result* column : columns) {
      const std::vector<double> values = values_of(*column, row.value);
      const double middle = median(values);
      first += pad_left(row.show(middle).text, width);
      const std::string ratio = base > 0 ? fmt::format("{:.2f}", middle / base) : "-";
      second += pad_left(
          middle > 0 ? fmt::format("{} \u00b1{:.0f}%", ratio, 100 * half_quartile_range(values) / middle)
                     : std::string("-"),
          width);
    }
    text += first + "\n" + paint(second, style::faint, colour) + "\n";
  }
  return text;
}

nlohmann::json as_json(const std::vector<replay_result>& results) {
  nlohmann::json all = nlohmann::json::array();
  for (const replay_result& result : results) {
    nlohmann::json rounds = nlohmann::json::array();
    for (const play_figures& figures : result.rounds)
      rounds.push_back(figures_as_json(figures, play_figure_names));
    all.push_back({{"name", result.way.name},
                   {"library", result.way.who.library},
                   {"failure", result.failure},
                   {"rounds", std::move(rounds)}});
  }
  return all;
}

int replay_worker(const std::vector<std::string>& words) {
  // A player must not outlive a command that was killed.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  volunteer_for_oom_killer();
  int descriptor = -1;
  if (words.size() == 2) std::from_chars(words[0].data(), words[0].data() + words[0].size(), descriptor);
  if (descriptor < 0) {
    throw cli_error(exit_code::usage, fmt::format("{} is for tarn's own use", replay_worker_word),
                    "See: tarn replay --help");
  }
  play_mode mode = play_mode::heap;
  for (const play_mode each : {play_mode::routes, play_mode::nothing}) {
    if (words[1] == mode_word(each)) mode = each;
  }
  fmt::print("{}\n", json_text(figures_as_json(profiler::play(descriptor, mode), play_figure_names)));
  return exit_code::success;
}

}  // namespace tarn::cli
