// SPDX-License-Identifier: MIT
// trouble_text: the beginning of a summary where memory is the trouble: what happened, in one or two sentences, and who held the
// memory, or what grew. Lines as those of `summary` (profile_verdict.hpp). Pure; any thread.
#pragma once

#include <string>

#include "profiler/analyze/trouble.hpp"

namespace tarn::cli {

// sentence_of() as a line, and half a page about it. Of a trouble with time: what memory is to be said, one line.
std::string render_trouble(const profiler::profile& p, const profiler::trouble& what);

// What was resident at the reading, in parts that add up, with the places of those that have some.
std::string render_held(const profiler::profile& p, const profiler::memory_row& row);
// The same of a process's end, and what grew. Without a reading of what was resident: what lived.
std::string render_death(const profiler::profile& p, const profiler::trouble& what);

// What would lower the memory, as far as the recording shows it; empty: nothing is known that would be worth it.
std::string render_memory_help(const profiler::profile& p, const profiler::trouble& what);

// One line: the places that held a tenth or more of the memory at the live peak; "": none did.
std::string most_held(const profiler::profile& p);

}  // namespace tarn::cli
