// SPDX-License-Identifier: MIT
#include "cli/compare/proof_course.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/compare/statistics.hpp"
#include "cli/launch/child_process.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

using profiler::proof;
using profiler::proof_decision;
using profiler::proof_metric;
using profiler::proof_way;

namespace {

struct measured_metric {
  proof_metric metric;
  double run_figures::*value;
};
constexpr measured_metric measured_metrics[] = {{proof_metric::wall, &run_figures::wall_seconds},
                                                {proof_metric::cpu, &run_figures::cpu_seconds},
                                                {proof_metric::rss, &run_figures::peak_rss_bytes},
                                                {proof_metric::faults, &run_figures::minor_faults}};

profiler::proven_figure figure_of(const block_estimate& estimate, const std::vector<double>& reference) {
  profiler::proven_figure figure{
      .before = median(reference), .ratio = estimate.ratio, .low = estimate.low, .high = estimate.high};
  if (!estimate.has_interval) return figure;
  figure.confidence = proof_confidence;
  if (figure.high <= 1 - profiler::least_proven_change) figure.outcome = profiler::proof_outcome::less;
  if (figure.low >= 1 + profiler::least_proven_change) figure.outcome = profiler::proof_outcome::more;
  return figure;
}

proof_decision decide(const proof_way& way) {
  const profiler::proven_figure& cpu = way.of(proof_metric::cpu);
  if (!way.failure.empty() || cpu.confidence <= 0) return proof_decision::undecided;
  if (cpu.outcome == profiler::proof_outcome::less) return proof_decision::saves;
  if (cpu.outcome == profiler::proof_outcome::more) return proof_decision::costs;
  return cpu.low >= 1 - profiler::worthwhile_change ? proof_decision::no_gain : proof_decision::undecided;
}

double processor_ratio(const proof_way& way) { return way.of(proof_metric::cpu).ratio; }

// The processor times of the way of that kind, or, without a kind, of that name.
std::vector<double> times_of(const comparison_outcome& outcome, const std::vector<proof_action>& actions,
                             std::string_view kind, std::string_view name) {
  for (std::size_t index = 0; index < actions.size(); ++index) {
    const bool meant = kind.empty() ? actions[index].way.name == name : actions[index].way.kind == kind;
    const contender_result& result = outcome.results[index + 1];
    if (meant && result.failure.empty()) return values_of(result.rounds, &run_figures::cpu_seconds);
  }
  return {};
}

// CPU time of the layer in each round: that of an empty plan under the layer, less that of the same malloc without
// it. Empty if the difference is within noise.
std::vector<double> layer_price(const comparison_outcome& outcome, const std::vector<proof_action>& actions) {
  std::vector<double> with = times_of(outcome, actions, layer_kind, "");
  const std::vector<double> without = times_of(outcome, actions, "", tarn_name);
  if (with.empty() || without.empty()) return {};
  const block_estimate added = estimate_blocks({without, with}, 1 - proof_confidence)[1];
  if (!added.has_interval || added.low <= 1) return {};
  with.resize(std::min(with.size(), without.size()));
  for (std::size_t round = 0; round < with.size(); ++round) with[round] -= without[round];
  return with;
}

// Subtracts by round, so that the interval includes the uncertainty of the price.
void take_off(std::vector<double>& values, const std::vector<double>& price) {
  for (std::size_t round = 0; round < std::min(values.size(), price.size()); ++round)
    values[round] -= price[round];
}

}  // namespace

proof_course::proof_course(const std::vector<proof_action>& actions, const course_settings& settings)
    : actions_(actions),
      settings_(settings),
      any_layered_(std::any_of(actions.begin(), actions.end(),
                               [](const proof_action& action) { return action.is_layered; })),
      begin_(monotonic_seconds()) {}

std::vector<proof_way> proof_course::evaluate(const comparison_outcome& outcome, double error) const {
  std::vector<proof_way> ways;
  const std::vector<double> price = layer_price(outcome, actions_);
  for (std::size_t index = 0; index < actions_.size(); ++index) {
    const contender_result& measured = outcome.results[index + 1];
    ways.push_back(actions_[index].way);
    ways.back().rounds = static_cast<int>(measured.rounds.size());
    ways.back().failure = measured.failure;
    if (measured.failure.empty() && measured.rounds.empty()) ways.back().failure = "no round was complete";
  }
  for (const measured_metric& each : measured_metrics) {
    std::vector<std::vector<double>> values = {values_of(outcome.results.front().rounds, each.value)};
    for (std::size_t index = 0; index < actions_.size(); ++index) {
      values.emplace_back();
      if (!ways[index].failure.empty()) continue;
      values.back() = values_of(outcome.results[index + 1].rounds, each.value);
      if (!actions_[index].is_layered || each.metric != proof_metric::cpu) continue;
      ways[index].layered_ratio = median(values.back()) / std::max(1e-9, median(values.front()));
      if (!price.empty()) ways[index].layer_seconds = std::max(0.0, median(price));
      take_off(values.back(), price);
    }
    std::vector<block_estimate> estimates = estimate_blocks(values, error);
    if (each.metric == proof_metric::rss && !outcome.doubt_about_peak().empty())
      estimates.assign(values.size(), {});
    for (std::size_t index = 0; index < actions_.size(); ++index) {
      if (ways[index].failure.empty())
        ways[index].of(each.metric) = figure_of(estimates[index + 1], values.front());
    }
  }
  return ways;
}

bool proof_course::is_early() const { return monotonic_seconds() - begin_ < settings_.least_seconds; }

// The ways that are measured further unless there is a reason not to, the best first. One that was left out of a round does
// not come back.
std::vector<std::size_t> proof_course::candidates(int rounds) const {
  std::vector<std::size_t> order;
  for (std::size_t index = 0; index < ways_.size(); ++index) {
    const proof_way& way = ways_[index];
    const bool is_open =
        way.decision == proof_decision::undecided || (way.decision == proof_decision::saves && is_early());
    if (way.failure.empty() && way.rounds == rounds && is_open) order.push_back(index);
  }
  if (order.size() == 1 && ways_[order.front()].decision == proof_decision::saves)
    order.clear();  // it has no rival
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return processor_ratio(ways_[a]) < processor_ratio(ways_[b]);
  });
  return order;
}

void proof_course::leave_behind(const std::vector<std::size_t>& order, std::size_t keep) {
  for (std::size_t place = keep; place < order.size(); ++place)
    ways_[order[place]].decision = proof_decision::behind;
}

void proof_course::update_decisions(std::vector<proof_way> seen) {
  double best_high = 1;
  for (std::size_t index = 0; index < seen.size(); ++index) {
    // While the layer's price is not known, a pool's figure contains it.
    const bool is_priced = !actions_[index].is_layered || seen[index].layer_seconds > 0;
    seen[index].decision = is_priced ? decide(seen[index]) : proof_decision::undecided;
    if (index >= ways_.size() || !ways_[index].failure.empty()) continue;
    // What is decided stays; a way that saves takes the figures of more rounds as long as they say the same.
    const proof_decision before = ways_[index].decision;
    const bool is_confirmed = before == proof_decision::saves && seen[index].decision == before &&
                              seen[index].rounds > ways_[index].rounds;
    if (before != proof_decision::undecided && !is_confirmed) seen[index] = ways_[index];
  }
  for (std::size_t index = 0; index < seen.size(); ++index) {
    if (seen[index].decision == proof_decision::saves && !actions_[index].is_layered)
      best_high = std::min(best_high, seen[index].of(proof_metric::cpu).high);
  }
  ways_ = std::move(seen);
  for (proof_way& way : ways_) {
    const profiler::proven_figure& cpu = way.of(proof_metric::cpu);
    if (way.failure.empty() && way.decision == proof_decision::undecided && cpu.confidence > 0 &&
        cpu.low > best_high)
      way.decision = proof_decision::behind;
  }
}

// How many ways still fit into one more round.
std::size_t proof_course::room(const comparison_outcome& outcome) const {
  if (settings_.limit_seconds <= 0) return actions_.size();
  const double elapsed = monotonic_seconds() - begin_;
  std::size_t runs = 0;
  for (const contender_result& result : outcome.results) runs += result.rounds.size();
  const double each = elapsed / static_cast<double>(std::max<std::size_t>(1, runs));
  const double fit = std::floor((settings_.limit_seconds - elapsed) / std::max(1e-9, each)) - 1;
  return static_cast<std::size_t>(std::clamp(fit, 0.0, static_cast<double>(actions_.size())));
}

// Requires: the unchanged program has figures.
std::vector<bool> proof_course::after_round(const comparison_outcome& outcome) {
  std::vector<bool> further(outcome.results.size(), true);
  if (!settings_.stops) return further;
  if (settings_.own_times > 0) {
    const double own = median(values_of(outcome.results.front().rounds, &run_figures::wall_seconds));
    settings_.limit_seconds = settings_.limit_for(own);
  }
  if (outcome.rounds > 1) ++looks_;
  const auto look = static_cast<double>(std::max(1, looks_));
  update_decisions(
      evaluate(outcome, (1 - proof_confidence) / (static_cast<double>(actions_.size()) * look * (look + 1))));
  std::vector<std::size_t> order = candidates(outcome.rounds);
  const std::size_t fitting = room(outcome);
  if (any_layered_) {  // its price needs all of them
    const bool is_open = std::any_of(order.begin(), order.end(),
                                     [this](std::size_t index) { return ways_[index].kind != layer_kind; });
    if (!is_open || fitting < actions_.size()) further.assign(further.size(), false);
    return further;
  }
  if (settings_.chooses && outcome.rounds == 1 && order.size() > most_chosen) {
    leave_behind(order, most_chosen);
    order.resize(most_chosen);
  }
  order.resize(std::min(order.size(), fitting));
  further.assign(further.size(), false);
  for (const std::size_t index : order) further[index + 1] = true;
  return further;
}

proof proof_course::result(const comparison_outcome& outcome) const {
  proof all{.rounds = outcome.rounds, .limit_seconds = settings_.limit_seconds};
  if (settings_.stops) {
    all.ways = ways_;
    return all;
  }
  all.ways = evaluate(
      outcome, (1 - proof_confidence) / static_cast<double>(std::max<std::size_t>(1, actions_.size())));
  for (proof_way& way : all.ways) way.decision = decide(way);
  return all;
}

std::string rounds_in_words(int rounds) { return rounds == 1 ? "1 round" : fmt::format("{} rounds", rounds); }

std::string doubt_about_load(const profiler::proof& what) {
  constexpr double alike = 0.1;
  constexpr double differs = 0.2;
  constexpr double at_once = 0.05;
  constexpr double hardly = 0.005;
  if (what.load.empty()) return {};
  double wall = 0;
  double cpu = 0;
  for (const profiler::proof_way& way : what.ways) {
    if (!way.failure.empty()) continue;
    const double load_seconds = way.of(profiler::proof_metric::wall).before;
    const double server_seconds = way.of(profiler::proof_metric::cpu).before;
    if (load_seconds < at_once && server_seconds < hardly)
      return fmt::format(
          "the load ended after {}, in which the server took {} of CPU time: does it run in the background? Let it end "
          "when its requests are answered",
          profiler::say_seconds(load_seconds), profiler::say_seconds(server_seconds));
    wall = std::max(wall, std::abs(way.of(profiler::proof_metric::wall).ratio - 1));
    cpu = std::max(cpu, std::abs(way.of(profiler::proof_metric::cpu).ratio - 1));
  }
  if (wall > alike || cpu < differs) return {};
  return "the load took the same time in all ways, but CPU time differs. If the load ends after a time, a faster server does "
         "more work in it, and these figures mislead: let it end after a number of requests";
}

}  // namespace tarn::cli
