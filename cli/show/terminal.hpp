// SPDX-License-Identifier: MIT
// terminal: the alternate screen for a view that is redrawn repeatedly, and keys without Enter. Restores the
// terminal at the end of its life, on exit(), and on signals that end the process. One at a time; for a process's
// main thread.
#pragma once

#include <optional>
#include <string>

namespace tarn::cli {

class terminal {
 public:
  // Whether standard input and output are terminals that such a view can use.
  static bool is_there();

  terminal();  // switches to the alternate screen
  ~terminal();
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  int rows() const;
  int columns() const;
  // Draws the lines from the top, cut at the screen's edge, and clears the rest. Lines may contain UTF-8 and colour
  // sequences.
  void draw(const std::string& lines);
  // The next key press, if any; escape sequences (arrow keys and the like) are ignored.
  std::optional<char> key();
  // Restores the terminal, stops this process as ^Z would, and takes the terminal again when the process continues.
  void suspend();
};

}  // namespace tarn::cli
