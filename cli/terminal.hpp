// SPDX-License-Identifier: MIT
// terminal: the whole screen for a view that is drawn again and again, and keys without Enter. Gives the terminal back as
// it was: at the end of its life, on exit(), and on signals that end the process.
// One at a time; for a process's main thread.
#pragma once

#include <optional>
#include <string>

namespace tarn::cli {

class terminal {
 public:
  // Whether standard input and output are terminals that such a view can be drawn on.
  static bool is_there();

  terminal();  // takes the screen
  ~terminal();
  terminal(const terminal&) = delete;
  terminal& operator=(const terminal&) = delete;

  int rows() const;
  int columns() const;
  // Draws the lines from the top, cut at the screen's edge; what was there goes. Lines hold UTF-8 and colours.
  void draw(const std::string& lines);
  // The next key that has been pressed, if any; a sequence of an arrow key or the like counts as none.
  std::optional<char> key();
  // Gives the terminal back, stops this process as ^Z would, and takes the terminal again when it goes on.
  void suspend();
};

}  // namespace tarn::cli
