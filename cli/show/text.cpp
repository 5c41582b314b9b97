// SPDX-License-Identifier: MIT
#include "cli/show/text.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <numeric>
#include <sstream>

namespace tarn::cli {

namespace {

std::string colour_choice = "auto";

constexpr std::string_view message_mark = "tarn: ";  // what follows of a message stands below its first word
constexpr std::size_t usual_indentation = 2;

// Whether a figure's unit follows the blank at `at`.
bool is_before_unit(std::string_view line, std::size_t at) {
  constexpr std::string_view units[] = {"%", "B", "KiB", "MiB", "GiB", "TiB", "ns", "us", "ms", "s"};
  if (at == 0 || line[at - 1] < '0' || line[at - 1] > '9') return false;
  const std::string_view word = line.substr(at + 1, line.find_first_of(" ,;:/.()", at + 1) - at - 1);
  return std::find(std::begin(units), std::end(units), word) != std::end(units);
}

// Where the line is to be broken: the last blank before `width` columns, or else the first one after them.
std::size_t break_of(std::string_view line, std::size_t width) {
  std::size_t found = std::string_view::npos;
  for (std::size_t at = line.find(' '); at != std::string_view::npos; at = line.find(' ', at + 1)) {
    if (found != std::string_view::npos && display_width(line.substr(0, at)) > width) break;
    if (!is_before_unit(line, at)) found = at;
  }
  return found;
}

// Where what follows of a line is to begin: below its last column, if it has columns (with a gap of two blanks or more).
std::size_t indentation_of(std::string_view line, std::size_t begin, std::size_t width) {
  if (line.starts_with(message_mark)) return message_mark.size();
  for (std::size_t gap = line.rfind("  "); gap != std::string_view::npos && gap > begin;
       gap = line.rfind("  ", gap - 1)) {
    const std::size_t column = display_width(line.substr(0, gap + 2));
    if (column <= width * 2 / 3) return column;
  }
  return std::min(begin + usual_indentation, width / 2);
}

std::string fold_line(std::string_view line, std::size_t width) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::string indentation(indentation_of(line, begin, width), ' ');
  std::string out(line.substr(0, begin));
  line.remove_prefix(begin);
  for (std::size_t room = width - std::min(width, begin); display_width(line) > room;
       room = width - indentation.size()) {
    const std::size_t end = break_of(line, room);
    const std::size_t next = line.find_first_not_of(' ', std::min(end, line.size()));
    if (end == std::string_view::npos || next == std::string_view::npos) break;
    out.append(line.substr(0, line.find_last_not_of(' ', end) + 1)).append("\n").append(indentation);
    line.remove_prefix(next);
  }
  return out.append(line);
}

// Number of bytes of the first `columns` characters.
std::size_t head_of(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xc0U) != 0x80 && seen++ == columns) break;
  }
  return end;
}

}  // namespace

std::string format_exit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* meaning = sigdescr_np(number);
    return fmt::format("killed by signal {} ({})", number, meaning != nullptr ? meaning : "unknown");
  }
  return fmt::format("exit status {}", WEXITSTATUS(wait_status));
}

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  bool in_colour = false;
  for (const char unit : text) {
    in_colour = in_colour || unit == '\033';
    // Continuation bytes of UTF-8 take no column of their own.
    columns += !in_colour && (static_cast<unsigned char>(unit) & 0xC0U) != 0x80U ? 1U : 0U;
    in_colour = in_colour && unit != 'm';
  }
  return columns;
}

std::string pad_left(std::string_view text, std::size_t width) {
  const std::size_t columns = display_width(text);
  return std::string(columns < width ? width - columns : 0, ' ').append(text);
}

std::string pad_right(std::string_view text, std::size_t width) {
  const std::size_t columns = display_width(text);
  return std::string(text).append(columns < width ? width - columns : 0, ' ');
}

std::string cut_to_width(const std::string& text, std::size_t width) {
  if (width == 0 || display_width(text) <= width) return text;
  return text.substr(0, head_of(text, width <= 3 ? width : width - 3)) + (width <= 3 ? "" : "...");
}

std::string cut_in_middle(const std::string& text, std::size_t width) {
  const std::size_t columns = display_width(text);
  if (width <= 3 || columns <= width) return cut_to_width(text, width);
  const std::size_t tail = (width - 1) / 2;
  return text.substr(0, head_of(text, width - 1 - tail)) + "…" + text.substr(head_of(text, columns - tail));
}

std::size_t terminal_width(int descriptor) {
  struct winsize size {};
  if (isatty(descriptor) == 0 || ioctl(descriptor, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before(right.size() + 1);
  std::iota(before.begin(), before.end(), std::size_t{0});
  std::vector<std::size_t> two_before;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    std::vector<std::size_t> current(right.size() + 1);
    current[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t substitution = before[j - 1] + (left[i - 1] == right[j - 1] ? 0U : 1U);
      current[j] = std::min({before[j] + 1, current[j - 1] + 1, substitution});
      // Two swapped neighbouring letters count as one edit, not two.
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        current[j] = std::min(current[j], two_before[j - 2] + 1);
      }
    }
    two_before = std::move(before);
    before = std::move(current);
  }
  return before.back();
}

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const bool is_prefix = word.size() >= 2 && candidate.starts_with(word);
    const std::size_t distance = is_prefix ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string wrap(std::string_view text, std::size_t width) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const std::size_t needed = display_width(word);
    if (column > 0 && column + 1 + needed > width) {
      lines += '\n';
      column = 0;
    } else if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += needed;
  }
  return lines;
}

std::string begin_lines(std::string lines, std::string_view beginning) {
  for (std::size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n', end + 1))
    lines.insert(end + 1, beginning);
  return lines;
}

std::string fold(std::string_view lines, std::size_t width) {
  std::string out;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    out += width == 0 ? std::string(lines.substr(0, end)) : fold_line(lines.substr(0, end), width);
    if (end < lines.size()) out += '\n';
    lines.remove_prefix(std::min(lines.size(), end + 1));
  }
  return out;
}

void print_text(std::string_view lines) { fmt::print("{}", fold(lines, terminal_width(STDOUT_FILENO))); }

std::string text_of_file(const std::string& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();  // an iterator would throw where a folder is read
  return all.str();
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string all;
  for (const std::string& word : words) {
    if (!all.empty()) all += separator;
    all += word;
  }
  return all;
}

void choose_colour(std::string_view when) { colour_choice = when; }

bool wants_colour(int descriptor) {
  if (colour_choice != "auto") return colour_choice == "always";
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::strcmp(terminal, "dumb") == 0) return false;
  return isatty(descriptor) == 1;
}

std::string paint(std::string_view text, style wanted, bool colour) {
  if (!colour || wanted == style::plain) return std::string(text);
  const char* code = "1";
  if (wanted == style::good) code = "32";
  if (wanted == style::bad) code = "31";
  if (wanted == style::faint) code = "2";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

}  // namespace tarn::cli
