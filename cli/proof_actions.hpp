// SPDX-License-Identifier: MIT
// proof_actions: what can be done to a recorded program without changing its code, as contenders: other mallocs, glibc's
// tunables, huge pages, and the pools of the advice. For a process with one thread.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "applied_plan.hpp"
#include "contender.hpp"
#include "profiler/analyze/advice.hpp"
#include "profiler/model/proof.hpp"
#include "program_target.hpp"

namespace tarn::cli {

// kind_name() of advice, or this: what the layer of `tarn apply` costs.
inline constexpr const char* layer_kind = "layer";

struct proof_action {
  contender who;
  profiler::proof_way told;  // without figures
};

struct action_wishes {
  std::vector<std::string> ways;     // by name; empty: all
  std::vector<std::string> mallocs;  // NAME=LIBRARY, further ones
};

class proof_actions {
 public:
  // Whatever cannot take effect in the program is left out, and told in `notes`. Throws cli_error for a name that there is
  // not.
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

  bool has_preloads_ = false;         // the program can be given another malloc
  bool is_glibc_ = true;              // the program's malloc
  std::deque<profiler::plan> plans_;  // of `applied_`
  std::deque<applied_plan> applied_;
  std::vector<proof_action> actions_;
};

}  // namespace tarn::cli
