// SPDX-License-Identifier: MIT
// output_file: a file for results, opened before the work begins, so that a name that cannot be written to is
// reported at once. Its previous content stays until the first write. flush_standard_output: the same check for
// standard output.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace tarn::cli {

// Standard output is a pipe whose reader has closed it. main() ends with exit_status, without a message.
class closed_pipe : public std::exception {
 public:
  // The status that a shell reports for a program ended by SIGPIPE.
  static constexpr int exit_status = 141;
  const char* what() const noexcept override { return "the pipe is closed"; }
};

// Throws cli_error (refused) if standard output did not take everything that was printed so far, closed_pipe if its
// reader has closed it.
void flush_standard_output();

class output_file {
 public:
  // "-" is standard output. `option` names the option in messages. Throws cli_error (usage).
  output_file(std::string option, const std::string& path);
  // Removes the file if this object created it and it was not written completely, as after an exception.
  ~output_file();
  output_file(const output_file&) = delete;
  output_file& operator=(const output_file&) = delete;

  // The first call replaces the file's content by `text`; further calls append. Throws cli_error (refused), or
  // closed_pipe.
  void write(std::string_view text);

 private:
  std::string option_;
  std::string path_;
  int descriptor_ = -1;
  bool created_ = false;
  bool written_ = false;
  int exceptions_;  // exceptions in flight at construction
};

}  // namespace tarn::cli
