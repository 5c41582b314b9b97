// SPDX-License-Identifier: MIT
#include "cli/compare/proof_actions.hpp"

#include <fmt/core.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "cli/launch/facilities.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

using profiler::advice;
using profiler::advice_kind;

namespace {

constexpr const char* unchanged_name = "unchanged";
constexpr const char* layer_name = "layer";
constexpr const char* tunables = "GLIBC_TUNABLES";
constexpr std::size_t most_pools = 3;  // each is run as often as the program
constexpr double smallest_kept = 0x1p26;
constexpr int first_glibc_with_huge_pages = 35;  // 2.35

bool is_pool(const advice& one) {
  return one.kind == advice_kind::typed_pool || one.kind == advice_kind::object_pool ||
         one.kind == advice_kind::buffer_pool;
}

int glibc_minor() {
  const char* version = gnu_get_libc_version();
  return std::atoi(version + 2);
}

std::string keep_memory_tunables(const profiler::profile& p) {
  double peak = 0;
  for (const profiler::counter_row& row : p.counters) peak = std::max(peak, row.live_bytes);
  const double keep = std::max(2 * peak, smallest_kept);
  return fmt::format("glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold={:.0f}", keep);
}

}  // namespace

proof_actions::proof_actions(const profiler::profile& p, const program_target& target,
                             const action_wishes& wishes, std::vector<std::string>& notes)
    : has_preloads_(!target.programs.empty()) {
  if (has_preloads_) {
    if (const auto provider = verify_contender(unchanged(), target)) {
      is_glibc_ = false;
      notes.push_back(
          fmt::format("the program's malloc comes from {}, so glibc's tunables are not measured", *provider));
    }
    add_mallocs(wishes.mallocs);
  } else {
    notes.emplace_back(
        "the program is static or of another kind, so no other malloc can be preloaded into it");
  }
  const std::vector<advice> advised = profiler::advise(p);
  add_variables(p, advised);
  if (has_preloads_) add_pools(p, advised);
  if (wishes.plan) add_plan(*wishes.plan);
  keep_wanted(wishes.plan && wishes.ways.empty() ? std::vector<std::string>{plan_name} : wishes.ways);
  drop_unusable(target, notes);
}

contender proof_actions::unchanged() const {
  contender who{unchanged_name, "", {}};
  who.keeps_preloads = true;
  return who;
}

void proof_actions::add(contender who, std::string kind, std::string headline) {
  proof_action action;
  action.told.name = who.name;
  action.told.kind = std::move(kind);
  action.told.headline = std::move(headline);
  action.told.library = who.library;
  action.told.variables = who.variables;
  // Tunables that the program already has stay in effect.
  for (auto& [name, value] : who.variables) {
    const auto present = environment::current().get(name);
    if (name == tunables && present && !present->empty()) value = *present + ":" + value;
  }
  action.who = std::move(who);
  actions_.push_back(std::move(action));
}

void proof_actions::add_mallocs(const std::vector<std::string>& with) {
  for (contender& who : choose_contenders(with, {})) {
    if (who.library.empty()) continue;
    const std::string headline = "Run it on " + who.name;
    add(std::move(who), profiler::kind_name(advice_kind::allocator), headline);
  }
  const std::string setting = huge_page_setting();
  if (setting.empty() || setting == "never") return;
  add({"tarn-huge-pages", find_tarn_library(), {{"TARN_HUGE_PAGES", "always"}}},
      profiler::kind_name(advice_kind::huge_pages), "Run it on tarn with huge pages");
}

void proof_actions::add_variables(const profiler::profile& p, const std::vector<advice>& advised) {
  if (!is_glibc_) return;
  const char* const tunable = profiler::kind_name(advice_kind::tunable);
  std::string keep = keep_memory_tunables(p);
  for (const advice& one : advised) {
    if (one.kind == advice_kind::tunable && !one.variables.empty() &&
        one.variables.front().value.find("mmap_max") != std::string::npos) {
      keep = one.variables.front().value;
    }
  }
  const auto add_tunables = [&](const char* name, const char* kind, const char* headline,
                                const std::string& value) {
    contender who{name, "", {{tunables, value}}};
    who.keeps_preloads = true;
    add(std::move(who), kind, headline);
  };
  add_tunables("keep-memory", tunable, "Let glibc keep memory that the program frees and allocates again",
               keep);
  if (huge_page_setting() == "madvise" && glibc_minor() >= first_glibc_with_huge_pages) {
    add_tunables("huge-pages", profiler::kind_name(advice_kind::huge_pages), "Ask for huge pages",
                 "glibc.malloc.hugetlb=1");
  }
  if (p.threads.size() > 1) {
    add_tunables("one-arena", tunable, "Let glibc's threads share one arena", "glibc.malloc.arena_max=1");
  }
}

void proof_actions::add_pools(const profiler::profile& p, const std::vector<advice>& advised) {
  for (std::size_t index = 0; index < advised.size() && plans_.size() < most_pools; ++index) {
    const advice& one = advised[index];
    if (!is_pool(one)) continue;
    plans_.push_back(profiler::plan_of(p, advised, static_cast<int>(index)));
    if (plans_.back().sites.empty()) {
      plans_.pop_back();
      continue;
    }
    applied_.emplace_back(plans_.back());
    add(applied_.back().as_contender(fmt::format("pool-{}", applied_.size())), profiler::kind_name(one.kind),
        one.headline);
    actions_.back().is_layered = true;
    profiler::proof_way& told = actions_.back().told;
    told.place = one.place;
    told.type = one.type;
    told.variables.clear();  // they name files that are removed at the end
  }
  if (!plans_.empty()) add_layer();
}

void proof_actions::add_layer() {
  plans_.emplace_back();
  plans_.back().on_tarn = true;
  applied_.emplace_back(plans_.back(), true);
  add(applied_.back().as_contender(layer_name), layer_kind, "What the layer for pools itself costs");
  actions_.back().told.variables.clear();
}

void proof_actions::add_plan(const profiler::plan& plan) {
  if (!plan.sites.empty() && plans_.empty()) add_layer();
  plans_.push_back(plan);
  applied_.emplace_back(plans_.back());
  with_plan_ = true;
  add(applied_.back().as_contender(plan_name), plan_name, "Carry out the plan");
  actions_.back().is_layered = !plan.sites.empty();
  if (actions_.back().is_layered) actions_.back().told.variables.clear();
}

// Pools need the two ways whose difference is the layer's overhead, so these are kept with any pool.
void proof_actions::keep_wanted(const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::vector<std::string> known;
  for (const proof_action& action : actions_) known.push_back(action.who.name);
  std::set<std::string> wanted(names.begin(), names.end());
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest_word(name, known);
    throw cli_error(
        exit_code::usage, fmt::format("--only {}: no way has this name for this profile", name),
        near.empty() ? "The ways are: " + join(known, ", ") : fmt::format("Did you mean '{}'?", near));
  }
  const bool pools = std::any_of(actions_.begin(), actions_.end(), [&wanted](const proof_action& action) {
    return action.is_layered && wanted.contains(action.who.name);
  });
  if (pools) wanted.insert({layer_name, tarn_name});
  std::erase_if(actions_,
                [&wanted](const proof_action& action) { return !wanted.contains(action.who.name); });
}

void proof_actions::drop_unusable(const program_target& target, std::vector<std::string>& notes) {
  std::erase_if(actions_, [&](const proof_action& action) {
    return !action.who.library.empty() && !takes_effect(action.who, target, notes, true);
  });
}

}  // namespace tarn::cli
