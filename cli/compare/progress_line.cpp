// SPDX-License-Identifier: MIT
#include "cli/compare/progress_line.hpp"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "cli/launch/child_process.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

constexpr double seconds_between_log_lines = 15;

std::size_t terminal_width() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

progress_line::progress_line(bool enabled)
    : enabled_(enabled), terminal_(isatty(STDERR_FILENO) == 1), last_shown_(monotonic_seconds()) {}

progress_line::~progress_line() { clear(); }

void progress_line::show(const std::string& line) {
  if (!enabled_) return;
  const std::string text = profiler::printable(line);
  if (terminal_) {
    // A line that wraps could not be rewritten.
    fmt::print(stderr, "\r\033[K{}", text.substr(0, terminal_width() - 1));
    std::fflush(stderr);
    shown_ = true;
    return;
  }
  const double now = monotonic_seconds();
  if (now - last_shown_ < seconds_between_log_lines) return;
  last_shown_ = now;
  fmt::print(stderr, "tarn: {}\n", text);
}

void progress_line::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace tarn::cli
