// SPDX-License-Identifier: MIT
// output_file: a file that results will be written to, opened before the work begins, so that a name that cannot be
// written to is told at once. What the file held stays until there is something to put in its place.
#pragma once

#include <string>

namespace tarn::cli {

class output_file {
 public:
  // "-" is standard output. `option` is how messages call it. Throws cli_error (usage).
  output_file(std::string option, const std::string& path);
  // Removes the file if it was made here and never written.
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  // Puts `text` in the place of what was there, or appends to what was written before. Throws cli_error (refused).
  void write(const std::string& text);

 private:
  std::string option_;
  std::string path_;
  int descriptor_ = -1;
  bool created_ = false;
  bool written_ = false;
};

}  // namespace tarn::cli
