// SPDX-License-Identifier: MIT
#include "cli/cost/cost_experiment.hpp"

#include <fmt/core.h>

#include <utility>

#include "cli/launch/child_process.hpp"
#include "cli/show/cli_error.hpp"
#include "profiler/format/quantity.hpp"

namespace tarn::cli {

namespace {

void stop_if_told(const held_signals& signals) {
  const timespec at_once = {};
  const int signal = sigtimedwait(&signals.held(), nullptr, &at_once);
  if (signal > 0) throw interrupted{signal};
}

}  // namespace

cost_experiment::cost_experiment(std::vector<buffer_way> ways, const cost_settings& settings)
    : settings_(settings) {
  outcome_.ways = std::move(ways);
  outcome_.sizes = settings_.sizes;
  outcome_.rounds = settings_.rounds;
  for (const std::uint64_t size : outcome_.sizes) {
    for (std::size_t way = 0; way < outcome_.ways.size(); ++way) {
      outcome_.results.push_back({way, size, {}, {}});
    }
  }
}

std::vector<measured_way> cost_experiment::measured_ways() const {
  std::vector<measured_way> ways;
  for (const cost_result& each : outcome_.results) {
    // Twice the size: some allocators allocate another block while they still keep the previous one.
    ways.push_back({fmt::format("{}, {}", outcome_.ways[each.way].name, profiler::say_exactly(each.size)),
                    2 * each.size});
  }
  return ways;
}

cost_outcome cost_experiment::run() {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  interleaved_rounds rounds(measured_ways(), true, settings_.seed);
  for (int round = 0; round < settings_.rounds; ++round) {
    const std::string title = fmt::format("round {}/{}", round + 1, settings_.rounds);
    rounds.run_round(title, settings_.rounds - round, [&](std::size_t index) {
      stop_if_told(signals);
      measure(outcome_.results[index]);
      if (!outcome_.results[index].failure.empty()) rounds.fail(index);
    });
  }
  rounds.clear_progress();
  return std::move(outcome_);
}

void cost_experiment::measure(cost_result& result) {
  try {
    result.rounds.push_back(run_cycles(outcome_.ways[result.way], result.size, settings_.seconds));
  } catch (const cli_error& error) {
    result.failure = error.what();
    result.rounds.clear();
  }
}

}  // namespace tarn::cli
