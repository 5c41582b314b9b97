// SPDX-License-Identifier: MIT
// progress_line: shows progress on stderr. On a terminal, show() rewrites one line in place. Elsewhere it prints a new
// line, but at most one in 15 seconds, so that logs stay short. For one thread.
#pragma once

#include <string>

namespace tarn::cli {

class progress_line {
 public:
  // `enabled`: false: shows nothing.
  explicit progress_line(bool enabled);
  ~progress_line();  // calls clear()
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void show(const std::string& line);
  // Erases the line on the terminal.
  void clear();

 private:
  bool enabled_;
  bool terminal_;
  bool shown_ = false;  // on the terminal, and not erased
  double last_shown_;   // elsewhere: time of the last line, at first of the construction; monotonic_seconds()
};

}  // namespace tarn::cli
