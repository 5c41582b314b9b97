// SPDX-License-Identifier: MIT
// text: aligned columns, exit statuses, colour, and the nearest of a few known words.
// No state; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tarn::cli {

std::string format_exit(int wait_status);  // "exit status 3", "killed by signal 11 (Segmentation fault)"

// Number of terminal columns that UTF-8 text takes, for text without wide characters; its colours take none.
std::size_t display_width(std::string_view text);
std::string pad_left(std::string_view text, std::size_t width);
std::string pad_right(std::string_view text, std::size_t width);
// At most `width` columns of the text, 0: all. cut_in_middle is for names, which often differ only at their end.
std::string cut_to_width(const std::string& text, std::size_t width);
std::string cut_in_middle(const std::string& text, std::size_t width);
// Columns of the terminal that `descriptor` refers to; 0: it is no terminal.
std::size_t terminal_width(int descriptor);
// The candidate that `word` is most likely a misspelling of; "" if none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);
std::size_t edit_distance(std::string_view left, std::string_view right);

// `text` with line breaks in place of blanks, so that lines have at most `width` columns where words allow it.
std::string wrap(std::string_view text, std::size_t width);

// `beginning` before each line but the first.
std::string begin_lines(std::string lines, std::string_view beginning);
// Each line of `lines` that is longer than `width` columns, on several: broken at blanks, so that words stay whole whatever
// their length; what follows is indented further than the line, or stands below its last column. 0: unchanged.
std::string fold(std::string_view lines, std::size_t width);
// On standard output, folded to its terminal.
void print_text(std::string_view lines);

// The content of a file; empty: it cannot be read.
std::string text_of_file(const std::string& path);

std::string join(const std::vector<std::string>& words, std::string_view separator);

// "always", "never", or "auto": wants_colour is true for a terminal, unless NO_COLOR is set or TERM is "dumb". One
// choice for the process, made before the first output.
void choose_colour(std::string_view when);
bool wants_colour(int descriptor);

enum class style { plain, bold, good, bad, faint };
std::string paint(std::string_view text, style wanted, bool colour);

}  // namespace tarn::cli
