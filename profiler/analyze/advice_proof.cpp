// SPDX-License-Identifier: MIT
#include "profiler/analyze/advice.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "profiler/format/quantity.hpp"

namespace tarn::profiler {

namespace {

bool saves(const proof_way& way) { return way.failure.empty() && way.decision == proof_decision::saves; }

bool is_refuted(const proof_way& way) {
  return way.failure.empty() &&
         (way.decision == proof_decision::costs || way.decision == proof_decision::no_gain);
}

// In one round anything can take less, and in a few that differ much some way nearly always does: a fourth of the distance to
// the bound is one to two standard errors.
bool is_promising(const proof_way& way) {
  constexpr double least_part = 0.25;
  const proven_figure& cpu = way.of(proof_metric::cpu);
  return way.failure.empty() && way.decision == proof_decision::undecided && way.rounds > 1 &&
         cpu.ratio <= 1 - worthwhile_change &&
         -std::log(cpu.ratio) >= least_part * std::log(cpu.high / cpu.ratio);
}

std::string percent(double ratio) {
  const double change = 100 * std::abs(ratio - 1);
  char text[32];
  std::snprintf(text, sizeof text, change >= 9.95 ? "%.0f" : "%.1f", change);
  return text;
}

std::string signed_percent(double ratio) { return percent(ratio) + (ratio < 1 ? " % less" : " % more"); }

bool is_without_code(const proof_way& way) {
  return way.kind == kind_name(advice_kind::allocator) || way.kind == kind_name(advice_kind::tunable) ||
         way.kind == kind_name(advice_kind::huge_pages);
}

advice_kind kind_of(const proof_way& way) {
  for (const advice_kind kind : {advice_kind::tunable, advice_kind::huge_pages}) {
    if (way.kind == kind_name(kind)) return kind;
  }
  return advice_kind::allocator;
}

bool has_variables(const advice& one, const proof_way& way) {
  return std::equal(
      one.variables.begin(), one.variables.end(), way.variables.begin(), way.variables.end(),
      [](const environment_variable& a, const auto& b) { return a.name == b.first && a.value == b.second; });
}

bool carries_out(const proof_way& way, const advice& one) {
  if (way.kind != kind_name(one.kind)) return false;
  if (one.kind == advice_kind::allocator) return true;
  if (is_without_code(way)) return way.library.empty() && has_variables(one, way);
  return way.place == one.place && way.type == one.type;
}

// A way that saves is better than another, and one that may save better than the rest; else the one that takes less CPU time.
bool is_better(const proof_way& a, const proof_way& b) {
  if (saves(a) != saves(b)) return saves(a);
  if (is_promising(a) != is_promising(b)) return is_promising(a);
  return a.of(proof_metric::cpu).ratio < b.of(proof_metric::cpu).ratio;
}

// The best of the ways that carry out the advice.
const proof_way* best_way(const proof& all, const advice& one) {
  const proof_way* best = nullptr;
  for (const proof_way& way : all.ways) {
    if (!way.failure.empty() || !carries_out(way, one)) continue;
    if (best == nullptr || is_better(way, *best)) best = &way;
  }
  return best;
}

std::string change_of(const proof_way& way) {
  std::string text;
  for (const auto& [name, value] : way.variables) text += name + "=" + value + " ";
  if (way.name == "tarn") return "tarn run -- PROGRAM ARG...";
  if (!way.library.empty()) text += "LD_PRELOAD=" + way.library + " ";
  return text + "PROGRAM ARG...";
}

std::string say_measured(const proof_way& way) {
  std::string text =
      "tarn prove, " + std::to_string(way.rounds) + (way.rounds == 1 ? " round, " : " rounds, ") + way.name;
  text += ": CPU time " + say_figure(way.of(proof_metric::cpu)) + "; wall time " +
          say_figure(way.of(proof_metric::wall)) + "; peak RSS " + say_figure(way.of(proof_metric::rss)) +
          "; page faults " + say_figure(way.of(proof_metric::faults));
  if (way.decision == proof_decision::behind) text += "; not measured further, as another way took less";
  return text;
}

void set_measured(advice& one, const proof_way& way) {
  const proven_figure& cpu = way.of(proof_metric::cpu);
  const proven_figure& rss = way.of(proof_metric::rss);
  const double cpu_ns = 1e9 * cpu.before;
  one.saving_ns = std::max(0.0, cpu_ns * (1 - cpu.ratio));
  one.low_ns = std::min(one.saving_ns, cpu_ns * (1 - cpu.high));
  one.high_ns = std::max(one.saving_ns, cpu_ns * (1 - cpu.low));
  one.share = std::max(0.0, 1 - cpu.ratio);
  one.memory_bytes = rss.outcome == proof_outcome::more ? rss.before * (rss.ratio - 1) : 0;
}

bool has_grade(const proof_way& way) { return saves(way) || is_refuted(way) || is_promising(way); }

// Requires: has_grade.
advice_grade grade_of(const proof_way& way) {
  if (saves(way)) return advice_grade::measured;
  return is_refuted(way) ? advice_grade::refuted : advice_grade::undecided;
}

void set_change(advice& one, const proof_way& way) {
  one.change = change_of(way);
  one.library = way.name == "tarn" ? std::string() : way.library;
  for (const auto& [name, value] : way.variables) one.variables.push_back({name, value});
}

void prove(advice& one, const proof_way& way) {
  one.evidence.push_back(say_measured(way));
  if (way.layer_seconds > 0) {
    one.evidence.push_back(
        "from that CPU time " + say_time(1e9 * way.layer_seconds) +
        " were subtracted: the cost of the layer for pools, which an edited program does not "
        "have");
  }
  if (!has_grade(way)) return;
  set_measured(one, way);
  one.grade = grade_of(way);
  if (is_refuted(way)) one.change.clear();
  if (one.kind != advice_kind::allocator || is_refuted(way)) return;
  one.headline = "Run it on " + way.name + ": no code changes";
  set_change(one, way);
}

// The ways that would carry it out, and under which the program fails. If all do, it is refuted.
void add_failures(advice& one, const proof& all, bool all_fail) {
  std::string names;
  std::string reason;
  for (const proof_way& way : all.ways) {
    if (way.failure.empty() || !carries_out(way, one)) continue;
    names += (names.empty() ? "" : ", ") + way.name;
    if (reason.empty()) reason = way.failure;
  }
  if (names.empty()) return;
  one.evidence.push_back("tarn prove: the program fails under " + names + ": " + reason);
  if (!all_fail) return;
  one.grade = advice_grade::refuted;
  one.fails = true;
  one.change.clear();
}

advice advice_from(const proof_way& way) {
  advice one;
  one.kind = kind_of(way);
  one.grade = grade_of(way);
  one.headline = way.headline + ": no code changes";
  one.reason = "Nothing that was counted suggests it; it was measured with the program itself.";
  set_change(one, way);
  set_measured(one, way);
  one.evidence = {say_measured(way)};
  return one;
}

}  // namespace

std::string say_figure(const proven_figure& figure) {
  if (figure.confidence <= 0) return figure.ratio == 1 ? "the same" : signed_percent(figure.ratio);
  if (figure.outcome == proof_outcome::none) {
    return "no difference beyond noise (" + signed_percent(figure.low) + " to " +
           signed_percent(figure.high) + ")";
  }
  if (figure.ratio >= 2) {
    char text[96];
    std::snprintf(text, sizeof text, "%.1f times (%.1f to %.1f)", figure.ratio, figure.low, figure.high);
    return text;
  }
  const bool less = figure.outcome == proof_outcome::less;
  return signed_percent(figure.ratio) + " (" + percent(less ? figure.high : figure.low) + " to " +
         percent(less ? figure.low : figure.high) + ")";
}

void apply_proof(const profile& p, std::vector<advice>& candidates) {
  const proof& all = p.proven;
  if (all.rounds == 0) return;
  std::vector<const proof_way*> used;
  for (advice& one : candidates) {
    const proof_way* way = best_way(all, one);
    add_failures(one, all, way == nullptr);
    if (way == nullptr) continue;
    used.push_back(way);
    prove(one, *way);
  }
  const bool has_allocator = std::any_of(candidates.begin(), candidates.end(), [](const advice& one) {
    return one.kind == advice_kind::allocator;
  });
  std::vector<const proof_way*> gaining;
  for (const proof_way& way : all.ways) {
    if (!is_without_code(way) || std::find(used.begin(), used.end(), &way) != used.end()) continue;
    // The best malloc represents all of them.
    if (has_allocator && way.kind == kind_name(advice_kind::allocator)) continue;
    if (saves(way) || is_promising(way)) gaining.push_back(&way);
  }
  // Of several mallocs the best one.
  const proof_way* best_malloc = nullptr;
  for (const proof_way* way : gaining) {
    if (way->kind != kind_name(advice_kind::allocator)) {
      candidates.push_back(advice_from(*way));
    } else if (best_malloc == nullptr || is_better(*way, *best_malloc)) {
      best_malloc = way;
    }
  }
  if (best_malloc != nullptr) candidates.push_back(advice_from(*best_malloc));
}

}  // namespace tarn::profiler
