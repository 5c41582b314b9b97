// SPDX-License-Identifier: MIT
// printable: text of foreign origin as one line that is safe to show. Names of functions, programs, threads and files, and
// words of command lines, may hold any bytes; shown as they are, they could send commands to a terminal, forge rows of a
// table, or break a format that wants UTF-8. All text from a profile goes through it in load_profile(); all other text of
// foreign origin where the command prints it.
#pragma once

#include <string>
#include <string_view>

namespace tarn::profiler {

// The text, with an escape in the place of each byte or character that does not print: "\n", "\t", "\x1b" for control
// characters and bytes that are no UTF-8, "\u{202e}" for characters that change the direction or the line. A text without
// any of these comes back unchanged. No state; any thread.
std::string printable(std::string_view text);

}  // namespace tarn::profiler
