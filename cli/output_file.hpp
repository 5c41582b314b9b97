// SPDX-License-Identifier: MIT
// output_file: a file that results will be written to, opened before the work begins, so that a name that cannot be
// written to is told at once. What the file held stays until there is something to put in its place.
// flush_standard_output: the same check for what was printed to standard output.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace tarn::cli {

// Nobody reads what is written: the reader has closed the pipe. main() ends with exit_status, without a message.
class closed_pipe : public std::exception {
 public:
  // As a shell reports a program that SIGPIPE has ended.
  static constexpr int exit_status = 141;
  const char* what() const noexcept override { return "the pipe is closed"; }
};

// Throws cli_error (refused) when standard output has not taken
// all that was printed so far, closed_pipe when its reader has gone.
void flush_standard_output();

class output_file {
 public:
  // "-" is standard output. `option` is how messages call it. Throws cli_error (usage).
  output_file(std::string option, const std::string& path);
  // Removes the file if it was made here, and never written or not to its end: where an exception ends the work.
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  // Puts `text` in the place of what was there, or appends to what was written before. Throws cli_error (refused), or
  // closed_pipe.
  void write(std::string_view text);

 private:
  std::string option_;
  std::string path_;
  int descriptor_ = -1;
  bool created_ = false;
  bool written_ = false;
  int exceptions_;  // that were under way when the work began
};

}  // namespace tarn::cli
