// SPDX-License-Identifier: MIT
// replay_rounds: does a recorded trace again in a child per way, round after round in random order, and collects what
// each took. A way is a malloc, or tarn's pools for the sites that have a route.
// For a process with one thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "contender.hpp"
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
  const profiler::trace_image* image = nullptr;  // outlives the rounds
};

struct replay_result {
  replay_way way;
  std::vector<profiler::play_figures>
      rounds;           // what the replay itself takes is off; the n-th are of one round
  std::string failure;  // empty, or why there are no figures
};

struct replay_settings {
  int rounds = 5;
  double timeout_seconds = 600;  // of one child
  std::uint64_t conditioning_bytes = 0;
  std::uint64_t seed = 0;
  bool progress = true;
};

// How long a child may take: far longer than the program did.
inline double replay_timeout(double recorded_ns) { return 60 + 20e-9 * recorded_ns; }

// In the order of `ways`. A way that fails has its reason and takes no further part. Requires: an image each. Throws
// cli_error where the replay alone (play_mode::nothing) fails.
std::vector<replay_result> replay_all(const std::vector<replay_way>& ways, const replay_settings& settings);

// How much less CPU time `subject` took than `reference`: the median of the rounds' differences, the least and the most of
// them. None without figures.
std::optional<profiler::raw_saving> saving_of(const replay_result& subject, const replay_result& reference);

// One column per way, ratios to the first.
std::string render_replay_table(const std::vector<replay_result>& results, bool colour);
nlohmann::json as_json(const std::vector<replay_result>& results);

// The player's main: `words` is "DESCRIPTOR MODE". Prints one JSON object.
int replay_worker(const std::vector<std::string>& words);

}  // namespace tarn::cli
