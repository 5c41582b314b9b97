// SPDX-License-Identifier: MIT
// report_action: a piece of advice as the report shows it. Whoever judges the profile fills it; the report shows the
// actions in the order they are given, and judges nothing itself. Plain data.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace tarn::profiler {

struct report_action {
  std::string title;                  // what to do, in one line
  std::string reason;                 // why it would help, in a sentence or two
  std::vector<std::string> evidence;  // the figures that led to it
  std::string how;                    // code or a command, ready to be copied; may be empty
  std::string grade;                  // how it is known: "estimated", "replayed", "proven"
  double saved_ns = 0;                // of the whole run
  double least_saved_ns = 0;          // the interval's ends
  double most_saved_ns = 0;
  double held_bytes = 0;            // memory that it would keep
  std::optional<std::size_t> site;  // index into profile::sites; none: the program as a whole
};

}  // namespace tarn::profiler
