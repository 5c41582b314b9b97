// SPDX-License-Identifier: MIT
// cost_experiment: measures every way to get a buffer at every size, in interleaved rounds. The calling process must
// have one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/compare/interleaved_rounds.hpp"
#include "cli/cost/buffer_way.hpp"
#include "cli/cost/cost_worker.hpp"

namespace tarn::cli {

struct cost_settings {
  std::vector<std::uint64_t> sizes;
  int rounds = 5;
  double seconds = 0.08;  // duration of one measurement, which takes at least a few cycles
  std::uint64_t seed = 0;
};

// One way at one size.
struct cost_result {
  std::size_t way = 0;  // index in the outcome's ways
  std::uint64_t size = 0;
  std::vector<cost_figures> rounds;
  std::string failure;  // why the way takes no further part; empty: it does
};

struct cost_outcome {
  std::vector<buffer_way> ways;
  std::vector<std::uint64_t> sizes;
  std::vector<cost_result> results;  // size by size; within a size in the order of the ways
  int rounds = 0;
};

class cost_experiment {
 public:
  cost_experiment(std::vector<buffer_way> ways, const cost_settings& settings);
  // Throws `interrupted` (comparison.hpp) when this process gets a signal to end.
  cost_outcome run();

 private:
  void measure(cost_result& result);
  std::vector<measured_way> measured_ways() const;

  cost_settings settings_;
  cost_outcome outcome_;
};

}  // namespace tarn::cli
