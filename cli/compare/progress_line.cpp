// SPDX-License-Identifier: MIT
#include "cli/compare/progress_line.hpp"

#include <unistd.h>

#include "cli/launch/child_process.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

constexpr double seconds_between_log_lines = 15;

}  // namespace

progress_line::progress_line(bool enabled)
    : enabled_(enabled), terminal_(isatty(STDERR_FILENO) == 1), last_shown_(monotonic_seconds()) {}

progress_line::~progress_line() { clear(); }

void progress_line::show(const std::string& line) {
  if (!enabled_) return;
  const std::string text = profiler::printable(line);
  if (terminal_) {
    // A line that wraps could not be rewritten.
    const std::size_t width = terminal_width(STDERR_FILENO);
    print_message("\r\033[K{}", cut_to_width(text, (width > 1 ? width : 80) - 1));
    shown_ = true;
    return;
  }
  const double now = monotonic_seconds();
  if (now - last_shown_ < seconds_between_log_lines) return;
  last_shown_ = now;
  print_message("tarn: {}\n", text);
}

void progress_line::clear() {
  if (!shown_) return;
  write_message("\r\033[K");
  shown_ = false;
}

}  // namespace tarn::cli
