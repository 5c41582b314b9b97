// SPDX-License-Identifier: MIT
// proof: the results of running a profile's program again under actions that change no code. Stored in the table
// "proof" of the profile's file, one row of JSON (docs/reference/format.md). Plain data; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tarn::profiler {

enum class proof_outcome : std::uint8_t { none, less, more };  // none: no difference beyond noise

// A figure of the program with the action, compared with the unchanged program.
struct proven_figure {
  double before = 0;  // of the unchanged program: seconds, bytes, faults
  double ratio = 1;   // figure with the action / before; the interval is [low, high]
  double low = 1;
  double high = 1;
  // With which each bound holds, for all ways and all looks at the rounds together. 0: there is no interval, as there were too
  // few rounds; low and high are the ratio.
  double confidence = 0;
  proof_outcome outcome = proof_outcome::none;
};

// What the rounds say about the CPU time of an action.
enum class proof_decision : std::uint8_t {
  undecided,
  saves,    // at least least_proven_change
  costs,    // at least that much more
  no_gain,  // it saves less than worthwhile_change
  behind    // others took less, so it was not measured further
};
inline constexpr double least_proven_change = 0.01;
inline constexpr double worthwhile_change = 0.03;

enum class proof_metric : std::uint8_t { wall, cpu, rss, faults };
inline constexpr std::array<const char*, 4> proof_metric_names = {"wall_time", "cpu_time", "peak_rss",
                                                                  "page_faults"};

// The results of one action.
struct proof_way {
  std::string name;  // "jemalloc"
  // kind_name() of the advice that it carries out; "layer": the overhead of the layer for pools itself.
  std::string kind;
  std::string headline;      // what the action does, in words
  std::string library = {};  // preloaded; empty: none
  std::string place = {};    // of that advice
  std::string type = {};     // of that advice
  std::vector<std::pair<std::string, std::string>> variables = {};
  proof_decision decision = proof_decision::undecided;
  int rounds = 0;            // in which it took part
  std::string failure = {};  // why there are no figures; empty: there are
  std::array<proven_figure, 4> figures =
      {};                    // by proof_metric; for pools, CPU time excludes the layer's overhead
  double layer_seconds = 0;  // for pools: CPU time that was subtracted as the layer's overhead
  double layered_ratio = 0;  // for pools: measured CPU time, including the layer, / before

  const proven_figure& of(proof_metric metric) const { return figures[static_cast<std::size_t>(metric)]; }
  proven_figure& of(proof_metric metric) { return figures[static_cast<std::size_t>(metric)]; }
};

struct proof {
  std::int64_t start = 0;    // seconds since 1970
  int rounds = 0;            // 0: there is no proof
  double seconds = 0;        // duration of the proof
  double limit_seconds = 0;  // when it would have ended at the latest; 0: there was no limit
  std::string load = {};     // load command of a server; empty: the program ran without one
  std::vector<proof_way> ways = {};
};

// `now`, and of the proof before it the ways that it did not measure, unless that was with another load.
proof joined(const proof& earlier, proof now);
const char* decision_name(proof_decision decision);  // "no gain"
nlohmann::json as_json(const proof& what);
// Members that are missing or invalid keep their values from an empty proof. Never throws.
proof read_proof(const nlohmann::json& json);

}  // namespace tarn::profiler
