// SPDX-License-Identifier: MIT
// output_file: a file for results, opened before the work begins, so that a name that cannot be written to is
// reported at once. A file that exists is replaced when all has been written, so that a full disk leaves it as it was; the
// file that the command reads is refused. A descriptor, as /dev/stdout, gets the text added.
// flush_standard_output: the same check for standard output.
#pragma once

#include <sys/stat.h>

#include <exception>
#include <string>
#include <string_view>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

// Standard output is a pipe whose reader has closed it. main() ends with exit_code::closed_pipe, without a message.
class closed_pipe : public std::exception {
 public:
  const char* what() const noexcept override { return "the pipe is closed"; }
};

// The error for output that was not written completely. `error`: an errno value.
cli_error not_written(const std::string& where, int error);

// Throws cli_error (refused) if standard output did not take everything that was printed so far, closed_pipe if its
// reader has closed it.
void flush_standard_output();

// Throws cli_error (usage) for "-": profiles are files that are written and read in parts.
void require_file_name(const std::string& option, const std::string& path);

// A name that is not given by the user: the first of BEGINNING1ENDING, BEGINNING2ENDING, … that nothing has, not even a link.
struct fresh_name {
  std::string beginning;
  std::string ending;
};

// The command reads this file: an output_file that is made later and is the same one refuses (usage).
void note_input(const std::string& path);

class output_file {
 public:
  // "-" is standard output. `option` names the option in messages. Throws cli_error (refused, or usage: see note_input).
  output_file(std::string option, const std::string& path);
  output_file(std::string option, const fresh_name& name);
  // Without finish(), removes what was written and leaves the old file.
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  // Throws cli_error (refused), or closed_pipe.
  void write(std::string_view text);
  // After all is written: puts the new file in the place of the old one. Throws cli_error (refused).
  void finish();
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  void take(int given);
  void open_path(const std::string& path);
  void write_beside(const struct ::stat& old);
  void replace();

  std::string option_;
  std::string path_;
  std::string written_to_;  // the file beside the one that will be replaced; empty: it has no name yet
  std::string replaced_;    // the name of that one, without links; empty: none
  std::string created_;     // was not there before; empty: it was
  int descriptor_ = -1;
  int old_ = -1;            // the file that will be replaced; below 0: none
  bool is_stream_ = false;  // somebody else's, at whose place the text is added
  bool written_ = false;
  bool finished_ = false;
};

}  // namespace tarn::cli
