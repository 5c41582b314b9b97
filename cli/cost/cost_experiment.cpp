// SPDX-License-Identifier: MIT
#include "cli/cost/cost_experiment.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cli/compare/comparison.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/memory_conditioner.hpp"
#include "cli/show/byte_size.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

void stop_if_told(const held_signals& signals) {
  const timespec at_once = {};
  const int signal = sigtimedwait(&signals.held(), nullptr, &at_once);
  if (signal > 0) throw interrupted{signal};
}

}  // namespace

cost_experiment::cost_experiment(std::vector<buffer_way> ways, const cost_settings& settings)
    : settings_(settings), progress_(true), random_(settings.seed) {
  outcome_.ways = std::move(ways);
  outcome_.sizes = settings_.sizes;
  outcome_.rounds = settings_.rounds;
  for (const std::uint64_t size : outcome_.sizes) {
    for (std::size_t way = 0; way < outcome_.ways.size(); ++way) {
      outcome_.results.push_back({way, size, {}, {}});
    }
  }
}

cost_outcome cost_experiment::run() {
  const held_signals signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::vector<std::size_t> order(outcome_.results.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  begin_ = monotonic_seconds();
  for (int round = 0; round < settings_.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), random_);
    for (const std::size_t index : order) {
      stop_if_told(signals);
      progress_.show(describe(outcome_.results[index], round));
      measure(outcome_.results[index]);
      ++done_;
    }
  }
  progress_.clear();
  return std::move(outcome_);
}

void cost_experiment::measure(cost_result& result) {
  if (!result.failure.empty()) return;
  // Twice the size: some allocators allocate another block while they still keep the previous one.
  condition_memory(2 * result.size);
  try {
    result.rounds.push_back(run_cycles(outcome_.ways[result.way], result.size, settings_.seconds));
  } catch (const cli_error& error) {
    result.failure = error.what();
    result.rounds.clear();
  }
}

std::string cost_experiment::describe(const cost_result& result, int round) const {
  std::string text = fmt::format("round {}/{}: {}, {}", round + 1, settings_.rounds,
                                 outcome_.ways[result.way].name, format_byte_size(result.size));
  if (done_ == 0) return text;
  const auto all = static_cast<double>(outcome_.results.size()) * settings_.rounds;
  const double each = (monotonic_seconds() - begin_) / static_cast<double>(done_);
  return text + fmt::format(", about {:.0f} s left", std::ceil((all - static_cast<double>(done_)) * each));
}

}  // namespace tarn::cli
