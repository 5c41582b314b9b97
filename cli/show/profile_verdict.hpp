// SPDX-License-Identifier: MIT
// profile_verdict: half a page about a profile, which begins with the trouble that hurts most (trouble.hpp): what ended
// the program, who held its memory, what grew, or what allocation truly cost and where. The rest follows in short.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profiler/analyze/advice.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// What memory did to a program that is not the one of the verdict: that it was killed, came near its limit, or grew to
// the end. Lines for stderr; empty if none of it.
std::string render_memory_verdict(const profiler::profile& p);

// What the terminal and the report's first screen both say of a profile. In each part, lines; in a line, a tab after
// each figure that stands in a column of its own.
struct summary {
  std::string problem;  // whether memory is the problem, and where
  std::string help;     // what would help: headlines and figures of advise()
  std::string next;     // the next command
};
// `actions` are those of advise(). `is_proven_next`: what the changes save is about to be measured, so no next command
// is named.
summary summarise(const profiler::profile& p, const std::vector<profiler::advice>& actions,
                  bool is_proven_next = false);

std::string render_verdict(const profiler::profile& p, bool is_proven_next = false);
nlohmann::json verdict_as_json(const profiler::profile& p);
// Of a profile made from a black box: how the process ended, and who held its memory. On stderr.
void print_box_verdict(const profiler::profile& p);
void print_verdict(const profiler::profile& p, bool is_proven_next = false);  // on stderr

}  // namespace tarn::cli
