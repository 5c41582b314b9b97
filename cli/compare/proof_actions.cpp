// SPDX-License-Identifier: MIT
#include "cli/compare/proof_actions.hpp"

#include <fmt/core.h>
#include <gnu/libc-version.h>
#include <wordexp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "cli/launch/elf_file.hpp"
#include "cli/launch/facilities.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

using profiler::advice;
using profiler::advice_kind;

namespace {

constexpr const char* unchanged_name = "unchanged";
constexpr const char* layer_name = "layer";
constexpr const char* pool_prefix = "pool-";
constexpr const char* huge_tarn_name = "tarn-huge-pages";
constexpr const char* keep_memory_name = "keep-memory";
constexpr const char* huge_pages_name = "huge-pages";
constexpr const char* one_arena_name = "one-arena";
constexpr const char* tunables = "GLIBC_TUNABLES";
constexpr std::size_t most_pools = 3;  // each is run as often as the program
constexpr double smallest_kept = 0x1p26;
constexpr int first_glibc_with_huge_pages = 35;  // 2.35

// Below this share of the elapsed time, a process mostly waits, for others or for its children.
constexpr double own_share = 0.25;
// Where so much lives, the order in which blocks lie can matter more than calls cost.
constexpr double cached_bytes = 0x1p22;
constexpr double large_bytes = 0x1p25;
constexpr double least_faults_again = 1000;
constexpr double share_of_faults_again = 0.1;

bool is_pool(const advice& one) {
  return one.kind == advice_kind::typed_pool || one.kind == advice_kind::object_pool ||
         one.kind == advice_kind::buffer_pool;
}

bool have_same_content(const std::string& one, const std::string& other) {
  std::ifstream first(one, std::ios::binary);
  std::ifstream second(other, std::ios::binary);
  using bytes = std::istreambuf_iterator<char>;
  return first && second && std::equal(bytes(first), bytes(), bytes(second), bytes());
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

// What the counters and the calls of a profile exclude. All of it matters if the program's own process is not what runs.
struct what_matters {
  bool malloc = true;
  bool faults_again = true;  // memory that was resident before
  bool large = true;
  double most_share = 1;  // of processor time, that malloc, free and page faults take
};

what_matters look_at(const profiler::profile& p) {
  what_matters result;
  const double processor = profiler::processor_ns(p);
  if (p.counters.empty() || p.mode == profiler::profile_mode::faults ||
      processor < own_share * profiler::number_in(p.meta, "duration_ns"))
    return result;
  double live = 0, resident = 0;
  for (const profiler::counter_row& row : p.counters) {
    live = std::max(live, row.live_bytes);
    resident = std::max(resident, row.resident_bytes);
  }
  const profiler::cost all = profiler::cost_of_all(p);
  double most = all.total() + 2 * std::sqrt(all.whole_variance());
  // That none of n samples hit does not exclude three of them (95 %).
  if (p.malloc_time.samples > 0) most += processor * 3 / p.malloc_time.samples;
  result.most_share = std::min(1.0, most / processor);
  result.malloc = result.most_share >= profiler::worthwhile_change || live >= cached_bytes;
  const double faults = p.counters.back().faults;
  const double again = faults - resident / profiler::positive_in(p.meta, "page_bytes", 4096);
  result.faults_again = again >= least_faults_again && again >= share_of_faults_again * faults;
  result.large = resident >= large_bytes;
  return result;
}

}  // namespace

other_build find_build(const std::string& text) {
  other_build build{text, {}, {}};
  std::error_code error;
  if (std::filesystem::is_regular_file(text, error)) {
    build.words = {text};
  } else {
    wordexp_t found = {};
    const int failure = wordexp(text.c_str(), &found, WRDE_NOCMD);
    if (failure == 0) build.words.assign(found.we_wordv, found.we_wordv + found.we_wordc);
    if (failure == 0 || failure == WRDE_NOSPACE) wordfree(&found);
    if (build.words.empty())
      throw cli_error(exit_code::usage,
                      fmt::format("--with-build {}: not a command line", text.empty() ? "''" : text),
                      "Give the program of the other build, with its arguments if they differ: --with-build "
                      "'build2/program input.dat'. For a pipeline: --with-build \"sh -c '...'\"");
  }
  build.path = std::filesystem::absolute(locate_program(build.words.front(), environment::current()), error)
                   .lexically_normal()
                   .string();
  // The runs begin in another folder.
  if (build.words.front().find('/') != std::string::npos) build.words.front() = build.path;
  return build;
}

proof_actions::proof_actions(const profiler::profile& p, const program_target& target,
                             const std::vector<std::string>& recorded_words, const action_wishes& wishes,
                             std::vector<std::string>& notes)
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
    // The start of a static glibc reads the tunables.
    is_glibc_ = contains_bytes(target.path, tunables);
    if (!is_glibc_) notes.emplace_back("its malloc is not glibc's, so glibc's tunables are not measured");
  }
  const std::vector<advice> advised = profiler::advise(p);
  add_variables(p, advised);
  std::vector<std::string> wanted = wishes.ways;
  const bool pools = std::any_of(wanted.begin(), wanted.end(),
                                 [](const std::string& name) { return name.starts_with(pool_prefix); });
  if (has_preloads_ && pools) add_pools(p, advised);
  if (wishes.build) {
    add_build(*wishes.build, target.path, recorded_words, notes);
    wanted.emplace_back(build_name);
  }
  if (wishes.plan) {
    add_plan(*wishes.plan);
    wanted.emplace_back(plan_name);
  }
  keep_wanted(wanted);
  if (wanted.empty()) drop_without_effect(p, !wishes.mallocs.empty(), notes);
  drop_unusable(target, notes);
  if (with_plan_) require_plan(notes);
}

contender proof_actions::unchanged() const {
  contender who{unchanged_name, "", {}};
  who.keeps_preloads = true;
  return who;
}

void proof_actions::add(contender who, std::string kind, std::string headline) {
  proof_action action;
  action.way.name = who.name;
  action.way.kind = std::move(kind);
  action.way.headline = std::move(headline);
  action.way.library = who.library;
  action.way.variables = who.variables;
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
  add({huge_tarn_name, find_tarn_library(), {{"TARN_HUGE_PAGES", "always"}}},
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
  add_tunables(keep_memory_name, tunable, "Let glibc keep memory that the program frees and allocates again",
               keep);
  if (huge_page_setting() == "madvise" && glibc_minor() >= first_glibc_with_huge_pages) {
    add_tunables(huge_pages_name, profiler::kind_name(advice_kind::huge_pages), "Ask for huge pages",
                 "glibc.malloc.hugetlb=1");
  }
  if (p.threads.size() > 1) {
    add_tunables(one_arena_name, tunable, "Let glibc's threads share one arena", "glibc.malloc.arena_max=1");
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
    add(applied_.back().as_contender(pool_prefix + std::to_string(applied_.size())),
        profiler::kind_name(one.kind), one.headline);
    actions_.back().is_layered = true;
    profiler::proof_way& way = actions_.back().way;
    way.place = one.place;
    way.type = one.type;
    way.variables.clear();  // they name files that are removed at the end
  }
  if (!plans_.empty()) add_layer();
}

void proof_actions::add_layer() {
  plans_.emplace_back();
  plans_.back().on_tarn = true;
  applied_.emplace_back(plans_.back(), true);
  add(applied_.back().as_contender(layer_name), layer_kind, "What the layer for pools itself costs");
  actions_.back().way.variables.clear();
}

void proof_actions::add_build(const other_build& build, const std::string& recorded,
                              const std::vector<std::string>& recorded_words,
                              std::vector<std::string>& notes) {
  contender who = unchanged();
  who.name = build_name;
  who.path = build.path;
  who.words = build.words;
  if (who.words.size() == 1 && recorded_words.size() > 1)
    who.words.insert(who.words.end(), recorded_words.begin() + 1, recorded_words.end());
  const bool has_other_arguments =
      who.words.size() != recorded_words.size() ||
      !std::equal(who.words.begin() + 1, who.words.end(), recorded_words.begin() + 1);
  if (!has_other_arguments && have_same_content(build.path, recorded)) {
    throw cli_error(exit_code::refused,
                    fmt::format("--with-build {}: this is the recorded program, byte for byte: there is no "
                                "change to measure",
                                build.text),
                    "Build the changed program beside the recorded one, and name its file.");
  }
  const auto name_of = [](const std::string& path) {
    return std::filesystem::path(path).filename().string();
  };
  if (name_of(build.path) != name_of(recorded)) {
    notes.push_back(profiler::printable(
        fmt::format("{} is run in place of {} (--with-build takes a program, not the command that makes it)",
                    name_of(build.path), name_of(recorded))));
  }
  add(std::move(who), build_name, "Run the other build: " + profiler::printable(build.text));
}

void proof_actions::add_plan(const profiler::plan& plan) {
  if (!plan.sites.empty() && plans_.empty()) add_layer();
  plans_.push_back(plan);
  applied_.emplace_back(plans_.back());
  with_plan_ = true;
  add(applied_.back().as_contender(plan_name), plan_name, "Carry out the plan");
  actions_.back().is_layered = !plan.sites.empty();
  if (actions_.back().is_layered) actions_.back().way.variables.clear();
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

// Leaves out what the profile says cannot matter.
void proof_actions::drop_without_effect(const profiler::profile& p, bool wants_mallocs,
                                        std::vector<std::string>& notes) {
  what_matters matters = look_at(p);
  matters.malloc = matters.malloc || wants_mallocs;
  std::vector<std::string> names;
  std::erase_if(actions_, [&](const proof_action& action) {
    const std::string& name = action.who.name;
    const bool is_idle = !action.who.library.empty() ? !matters.malloc || name == huge_tarn_name
                         : name == keep_memory_name  ? !matters.faults_again
                         : name == huge_pages_name   ? !matters.large
                                                     : false;
    if (is_idle) names.push_back(name);
    return is_idle;
  });
  if (!matters.malloc) {
    notes.push_back(fmt::format(
        "malloc, free and page faults take {} of the program's CPU time at most, and few blocks live: another "
        "malloc could save no more",
        profiler::say_share(matters.most_share)));
  }
  if (actions_.empty() && has_preloads_)
    notes.push_back("nothing was run; ways that are named are measured all the same: --only " +
                    join(names, ","));
}

void proof_actions::drop_unusable(const program_target& target, std::vector<std::string>& notes) {
  std::erase_if(actions_, [&](const proof_action& action) {
    return !action.who.library.empty() && !takes_effect(action.who, target, notes, true);
  });
}

void proof_actions::require_plan(const std::vector<std::string>& notes) const {
  const auto plan = std::find_if(actions_.begin(), actions_.end(),
                                 [](const proof_action& action) { return action.way.kind == plan_name; });
  if (plan != actions_.end() && (plan->who.library.empty() || has_preloads_)) return;
  throw cli_error(exit_code::refused, "the plan would have no effect in this program",
                  notes.empty() ? "Its library cannot be preloaded." : notes.back() + ".");
}

}  // namespace tarn::cli
