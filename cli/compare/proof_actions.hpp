// SPDX-License-Identifier: MIT
// proof_actions: the actions on a recorded program that need no change of its code: other mallocs, glibc's tunables,
// huge pages, and, if asked for, the pools that the profile's advice proposes, and another build. Each is a
// contender: a library to preload and variables to set. The calling process must have one
// thread, as it forks.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cli/compare/applied_plan.hpp"
#include "cli/compare/contender.hpp"
#include "cli/launch/program_target.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/model/proof.hpp"

namespace tarn::cli {

// The name and the kind of the action that carries out a plan, which may be of several kinds of advice.
inline constexpr const char* plan_name = "plan";
// The kind of the action that preloads libtarn_apply without any pool: it measures what that layer itself costs. Pools
// run on the same layer. The kind of any other action is kind_name() of its kind of advice.
inline constexpr const char* layer_kind = "layer";

struct proof_action {
  contender who;
  profiler::proof_way way;  // what is said of the action; the runs fill in its figures
  bool is_layered = false;  // its pools run on the layer
};

// Another build of the program. Its name and kind as an action: build_name.
struct other_build {
  std::string text;  // as it was given
  std::string path;
  std::vector<std::string> words;  // the command line; of one word: that of the recording follows
};
inline constexpr const char* build_name = "build";
// Takes a command line apart as the shell does. Throws cli_error if it is none, or if the program is not there.
other_build find_build(const std::string& text);

struct action_wishes {
  // Names of the actions. Empty: all that need no change of the code, unless the profile rules them out. With a pool,
  // "layer" and "tarn" are measured as well.
  std::vector<std::string> ways;
  std::vector<std::string> mallocs;  // further ones, as NAME=LIBRARY
  // Measured as well; without `ways` they alone are.
  std::optional<profiler::plan> plan;
  std::optional<other_build> build;
};

// Owns the temporary files that the pools' contenders name in their variables: it must outlive the runs.
class proof_actions {
 public:
  // Actions that cannot take effect in the program are left out, and reported in `notes`. Throws cli_error for an
  // unknown name.
  proof_actions(const profiler::profile& p, const program_target& target,
                const std::vector<std::string>& recorded_words, const action_wishes& wishes,
                std::vector<std::string>& notes);

  const std::vector<proof_action>& all() const noexcept { return actions_; }
  // What the sites of the wished plan reported; to be called after the runs.
  site_report plan_report() const { return with_plan_ ? applied_.back().report() : site_report{}; }
  // The program as it is, to compare the actions with.
  contender unchanged() const;

 private:
  void add_mallocs(const std::vector<std::string>& with);
  void add_variables(const profiler::profile& p, const std::vector<profiler::advice>& advised);
  void add_plan(const profiler::plan& plan);
  void add_layer();
  void add_build(const other_build& build, const std::string& recorded,
                 const std::vector<std::string>& recorded_words, std::vector<std::string>& notes);
  void add_pools(const profiler::profile& p, const std::vector<profiler::advice>& advised);
  void add(contender who, std::string kind, std::string headline);
  void keep_wanted(const std::vector<std::string>& names);
  void drop_without_effect(const profiler::profile& p, bool wants_mallocs, std::vector<std::string>& notes);
  void drop_unusable(const program_target& target, std::vector<std::string>& notes);
  void require_plan(const std::vector<std::string>& notes) const;  // throws cli_error where it was dropped

  bool with_plan_ = false;            // the last of `applied_` is the wished plan
  bool has_preloads_ = false;         // a malloc can be preloaded into the program
  bool is_glibc_ = true;              // the program's malloc is glibc's
  std::deque<profiler::plan> plans_;  // `applied_` refers to them
  std::deque<applied_plan> applied_;
  std::vector<proof_action> actions_;
};

}  // namespace tarn::cli
