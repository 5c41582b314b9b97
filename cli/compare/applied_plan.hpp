// SPDX-License-Identifier: MIT
// applied_plan: a plan read from its file, and as a contender: the variables, the malloc and the pools that a program is started with, and
// what the pools reported at its end. The calling process must have one thread. Failures are cli_error
// and profile_error.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "cli/compare/contender.hpp"
#include "cli/launch/scratch_file.hpp"
#include "profiler/analyze/plan.hpp"

namespace tarn::cli {

// The plan in the file. A plan that changes nothing is refused. One that lets the program load or read what neither the
// system nor tarn has installed needs the user's consent; `trusted`: it is given (--trust-file).
profiler::plan load_plan(const std::string& path, bool trusted);

struct site_report {
  double processes = 0;
  double found = 0;  // sites of the plan that were found, in the process that had most of their modules
  double all = 0;
  std::map<std::size_t, double> blocks;  // by group, over all runs
};

class applied_plan {
 public:
  // `with_layer`: preload libtarn_apply even for a plan without sites, to measure the overhead of the layer itself.
  explicit applied_plan(const profiler::plan& plan, bool with_layer = false);

  contender as_contender(const std::string& name) const;
  site_report report() const;
  // Removes the files; to be called before this process ends without running destructors.
  void remove_files() const;

 private:
  const profiler::plan& plan_;
  bool with_layer_;
  scratch_file sites_;
  scratch_file report_;
};

}  // namespace tarn::cli
