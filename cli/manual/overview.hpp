// SPDX-License-Identifier: MIT
// overview: what `tarn help` prints, and the parts of it that the manual page has, too. Pure functions; any thread.
#pragma once

#include <span>
#include <string>

#include "cli/manual/verb.hpp"

namespace tarn::cli {

// The verbs' summaries as one says them in a list: "start a program on tarn".
std::string phrase_of(const command& app);

extern const char* const overview_examples;
extern const std::span<const exit_meaning> overview_exits;

std::string render_overview(std::span<const verb> verbs);

}  // namespace tarn::cli
