// SPDX-License-Identifier: MIT
// proof_actions: actions that need no change of a recorded program's code, as contenders: other mallocs, glibc's
// tunables, huge pages, and the pools of the advice. For a process with one thread.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "cli/compare/applied_plan.hpp"
#include "cli/compare/contender.hpp"
#include "cli/launch/program_target.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/model/proof.hpp"

namespace tarn::cli {

// The kind of an action is kind_name() of its advice, or this: the overhead of the layer of `tarn apply`.
inline constexpr const char* layer_kind = "layer";

struct proof_action {
  contender who;
  profiler::proof_way told;  // describes the action; figures are still empty
};

struct action_wishes {
  std::vector<std::string> ways;     // by name; empty: all
  std::vector<std::string> mallocs;  // NAME=LIBRARY, further ones
};

class proof_actions {
 public:
  // Actions that cannot take effect in the program are left out, and reported in `notes`. Throws cli_error for an
  // unknown name.
  proof_actions(const profiler::profile& p, const program_target& target, const action_wishes& wishes,
                std::vector<std::string>& notes);

  const std::vector<proof_action>& all() const noexcept { return actions_; }
  contender unchanged() const;

 private:
  void add_mallocs(const std::vector<std::string>& with);
  void add_variables(const profiler::profile& p, const std::vector<profiler::advice>& advised);
  void add_pools(const profiler::profile& p, const std::vector<profiler::advice>& advised);
  void add(contender who, std::string kind, std::string headline);
  void keep_wanted(const std::vector<std::string>& names);
  void drop_unusable(const program_target& target, std::vector<std::string>& notes);

  bool has_preloads_ = false;         // the program's malloc can be replaced by preloading
  bool is_glibc_ = true;              // the program's malloc
  std::deque<profiler::plan> plans_;  // of `applied_`
  std::deque<applied_plan> applied_;
  std::vector<proof_action> actions_;
};

}  // namespace tarn::cli
