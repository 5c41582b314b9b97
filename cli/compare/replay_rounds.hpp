// SPDX-License-Identifier: MIT
// replay_rounds: replays a recorded trace, for each way in a child process of its own, in interleaved rounds, and
// collects the figures. A way is a malloc, or tarn's pools for the sites that have a route. The calling process must
// have one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/compare/contender.hpp"
#include "profiler/analyze/experience.hpp"
#include "profiler/replay/player.hpp"
#include "profiler/replay/trace_image.hpp"

namespace tarn::cli {

// The hidden word by which this command starts itself as a player.
inline constexpr const char* replay_worker_word = "--replay-worker";

struct replay_way {
  std::string name;
  contender who;
  profiler::play_mode mode = profiler::play_mode::heap;
  const profiler::trace_image* image = nullptr;  // must outlive the rounds
};

struct replay_result {
  replay_way way;
  // Without the cost of the replay itself. The n-th entries of all ways are of the same round.
  std::vector<profiler::play_figures> rounds;
  std::string failure;  // why there are no figures; empty: there are
};

struct replay_settings {
  int rounds = 5;
  double timeout_seconds = 600;  // of one child
  std::uint64_t conditioning_bytes = 0;
  std::uint64_t seed = 0;
  bool progress = true;
};

// Time limit of a child: far longer than the program took.
inline double replay_timeout(double recorded_ns) { return 60 + 20e-9 * recorded_ns; }

// Results in the order of `ways`. A way that fails gets the reason, and takes no further part. Requires: an image
// each. Throws cli_error where the replay alone (play_mode::nothing) fails.
std::vector<replay_result> replay_all(const std::vector<replay_way>& ways, const replay_settings& settings);

// How much less CPU time `subject` took than `reference`: the median of the differences by round, and the least and
// the largest of them. None without figures.
std::optional<profiler::raw_saving> saving_of(const replay_result& subject, const replay_result& reference);

// One column per way, ratios to the first.
std::string render_replay_table(const std::vector<replay_result>& results, bool colour);
nlohmann::json as_json(const std::vector<replay_result>& results);

// The player's main function: `words` is "DESCRIPTOR MODE". Prints one JSON object.
int replay_worker(const std::vector<std::string>& words);

}  // namespace tarn::cli
