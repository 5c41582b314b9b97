// SPDX-License-Identifier: MIT
// printable: makes untrusted text safe to show on one line. Names of functions, programs, threads and files, and
// words of command lines, may contain any bytes; shown unchanged, they could send commands to a terminal, forge
// rows of a table, or break a format that requires UTF-8. load_profile() applies it to all text of a profile;
// commands apply it to other untrusted text when they print it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tarn::profiler {

// The text, with an escape instead of each byte or character that is not printable: "\n", "\t", "\x1b" for control
// characters and invalid UTF-8, "\u{202e}" for characters that change the writing direction or the line. A text
// without any of these is returned unchanged. No state; any thread.
std::string printable(std::string_view text);

// At most `bytes` bytes of the text, and whole characters. Requires: valid UTF-8, as of printable().
std::string cut_at_character(std::string text, std::size_t bytes);

// JSON text, with the JSON escape instead of each character that printable() escapes and JSON allows as it is: "\u009b".
// Requires: valid UTF-8. Values are unchanged.
std::string escape_json(std::string text);

// "0x12ab".
std::string hexadecimal(std::uint64_t value);

// "a<b" becomes "a&lt;b": text for SVG and HTML, in attributes too.
std::string escape_markup(std::string_view text);

}  // namespace tarn::profiler
