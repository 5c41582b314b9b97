// SPDX-License-Identifier: MIT
// progress_line: one line on stderr that is rewritten in place on a terminal; elsewhere a line now
// and then, so that logs stay short.
#pragma once

#include <string>

namespace tarn::cli {

class progress_line {
 public:
  explicit progress_line(bool enabled);
  ~progress_line();
  progress_line(const progress_line&) = delete;
  progress_line& operator=(const progress_line&) = delete;

  void show(const std::string& line);
  void clear();

 private:
  bool enabled_;
  bool terminal_;
  bool shown_ = false;
  double last_shown_;
};

}  // namespace tarn::cli
