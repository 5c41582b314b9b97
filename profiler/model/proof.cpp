// SPDX-License-Identifier: MIT
#include "profiler/model/proof.hpp"

#include <algorithm>

#include "profiler/format/printable.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

// By proof_outcome.
constexpr std::array<const char*, 3> outcome_names = {"no difference beyond noise", "less", "more"};
// By proof_decision.
constexpr std::array<const char*, 5> decision_names = {"undecided", "saves", "costs", "no gain", "behind"};
// Limits on what is read from a file.
constexpr std::size_t most_ways = 1000;
constexpr double most_proof_value = 1e15;

nlohmann::json figure_as_json(const proven_figure& figure) {
  return {{"before", figure.before},
          {"ratio", figure.ratio},
          {"low", figure.low},
          {"high", figure.high},
          {"confidence", figure.confidence},
          {"outcome", outcome_names[static_cast<std::size_t>(figure.outcome)]}};
}

// `otherwise`: for a member that is missing, no number, or not in [0, most_proof_value].
double sane_number_in(const nlohmann::json& object, const char* name, double otherwise) {
  const double number = number_in(object, name, otherwise);
  return number >= 0 && number <= most_proof_value ? number : otherwise;
}

std::string shown_text_in(const nlohmann::json& object, const char* name) {
  return printable(text_in(object, name));
}

// The enumerator whose name `object` has; the first one if it has none of them.
template <class Enumeration, class Names>
Enumeration enumerator_in(const nlohmann::json& object, const char* member, const Names& names) {
  const auto* found = std::find(names.begin(), names.end(), text_in(object, member));
  return found == names.end() ? Enumeration{} : static_cast<Enumeration>(found - names.begin());
}

proven_figure read_figure(const nlohmann::json& json) {
  proven_figure figure;
  figure.before = sane_number_in(json, "before", 0);
  figure.ratio = sane_number_in(json, "ratio", 1);
  figure.low = std::min(figure.ratio, sane_number_in(json, "low", figure.ratio));
  figure.high = std::max(figure.ratio, sane_number_in(json, "high", figure.ratio));
  figure.confidence = std::min(1.0, sane_number_in(json, "confidence", 0));
  figure.outcome = enumerator_in<proof_outcome>(json, "outcome", outcome_names);
  return figure;
}

int rounds_in(const nlohmann::json& json) {
  return static_cast<int>(std::min(1e6, sane_number_in(json, "rounds", 0)));
}

proof_way read_way(const nlohmann::json& json) {
  proof_way way;
  way.name = shown_text_in(json, "name");
  way.kind = shown_text_in(json, "kind");
  way.headline = shown_text_in(json, "headline");
  way.library = shown_text_in(json, "library");
  way.place = shown_text_in(json, "place");
  way.type = shown_text_in(json, "type");
  way.decision = enumerator_in<proof_decision>(json, "decision", decision_names);
  way.rounds = rounds_in(json);
  way.failure = shown_text_in(json, "failure");
  way.layer_seconds = sane_number_in(json, "layer_seconds", 0);
  way.layered_ratio = sane_number_in(json, "layered_ratio", 0);
  if (const nlohmann::json* variables = member_in(json, "variables");
      variables != nullptr && variables->is_object()) {
    for (const auto& [name, value] : variables->items()) {
      if (value.is_string()) way.variables.emplace_back(printable(name), printable(value.get<std::string>()));
    }
  }
  const nlohmann::json* figures = member_in(json, "figures");
  for (std::size_t index = 0; index < proof_metric_names.size(); ++index) {
    const nlohmann::json* figure =
        figures != nullptr ? member_in(*figures, proof_metric_names[index]) : nullptr;
    if (figure != nullptr) way.figures[index] = read_figure(*figure);
  }
  return way;
}

}  // namespace

proof joined(const proof& earlier, proof now) {
  if (earlier.load != now.load) return now;
  for (const proof_way& way : earlier.ways) {
    const bool is_new = std::any_of(now.ways.begin(), now.ways.end(),
                                    [&way](const proof_way& one) { return one.name == way.name; });
    if (!is_new) now.ways.push_back(way);
  }
  return now;
}

const char* decision_name(proof_decision decision) {
  return decision_names[static_cast<std::size_t>(decision)];
}

nlohmann::json as_json(const proof& what) {
  nlohmann::json ways = nlohmann::json::array();
  for (const proof_way& way : what.ways) {
    nlohmann::json variables = nlohmann::json::object();
    for (const auto& [name, value] : way.variables) variables[name] = value;
    nlohmann::json one = {{"name", way.name},         {"kind", way.kind},
                          {"headline", way.headline}, {"library", way.library},
                          {"place", way.place},       {"type", way.type},
                          {"variables", variables},   {"decision", decision_name(way.decision)},
                          {"rounds", way.rounds},     {"failure", way.failure}};
    if (way.failure.empty()) {
      for (std::size_t index = 0; index < proof_metric_names.size(); ++index) {
        one["figures"][proof_metric_names[index]] = figure_as_json(way.figures[index]);
      }
    }
    if (way.layered_ratio > 0) {
      one["layer_seconds"] = way.layer_seconds;
      one["layered_ratio"] = way.layered_ratio;
    }
    ways.push_back(std::move(one));
  }
  return {{"start", what.start},     {"rounds", what.rounds},
          {"seconds", what.seconds}, {"limit_seconds", what.limit_seconds},
          {"load", what.load},       {"ways", ways}};
}

proof read_proof(const nlohmann::json& json) {
  proof result;
  result.start = static_cast<std::int64_t>(std::min(1e11, sane_number_in(json, "start", 0)));
  result.rounds = rounds_in(json);
  result.seconds = sane_number_in(json, "seconds", 0);
  result.limit_seconds = sane_number_in(json, "limit_seconds", 0);
  result.load = shown_text_in(json, "load");
  const nlohmann::json* ways = member_in(json, "ways");
  if (ways == nullptr || !ways->is_array()) return result;
  for (const nlohmann::json& way : *ways) {
    if (result.ways.size() < most_ways) result.ways.push_back(read_way(way));
  }
  return result;
}

}  // namespace tarn::profiler
