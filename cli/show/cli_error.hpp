// SPDX-License-Identifier: MIT
// cli_error: a failure of the command itself, with what to do about it and the exit code.
// Thrown anywhere below main; main prints it (as text or JSON) and exits with `code`.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace tarn::cli {

// The command's own exit codes; `run` otherwise passes the program's through. docs/reference/exit-codes.md
// lists them, and scripts depend on them.
struct exit_code {
  static constexpr int success = 0;
  static constexpr int results_differ = 1;
  static constexpr int usage = 2;
  static constexpr int program_fails = 3;
  static constexpr int damaged_profile = 4;
  static constexpr int refused = 125;
  static constexpr int not_executable = 126;
  static constexpr int not_found = 127;
  static constexpr int closed_pipe = 141;  // the status that a shell reports for a program ended by SIGPIPE
};

class cli_error : public std::runtime_error {
 public:
  cli_error(int code, const std::string& problem, std::string advice = {})
      : std::runtime_error(problem), code_(code), advice_(std::move(advice)) {}

  int code() const noexcept { return code_; }
  const std::string& advice() const noexcept { return advice_; }

 private:
  int code_;
  std::string advice_;
};

// A system call of tarn itself failed because a limit is reached: no other option or command of tarn would help.
class resource_error : public cli_error {
 public:
  // The message is `problem` and the text of `error` (an errno value); the advice names the limit to raise.
  resource_error(const std::string& problem, int error);
};

// (refused) `process`: its number, as it was given.
cli_error no_such_process(const std::string& process);

// An exception of a library, as an error (refused). Its text is "what is wrong; what to do"; without the second part
// the advice is empty.
cli_error as_cli_error(const std::exception& error);

// All that tarn says on stderr. What cannot be written is dropped: a closed or full stderr changes neither the work nor the
// exit status, and no SIGPIPE comes. Any thread.
void write_message(std::string_view text) noexcept;
template <class... values>
void print_message(fmt::format_string<values...> format, values&&... arguments) {
  write_message(fmt::format(format, std::forward<values>(arguments)...));
}

// While one lives, a message waits for 100 ms at most where stderr is full and nobody reads it; the rest of it is dropped, and
// the next ones do not wait. For whoever watches a program, which must not depend on who reads the messages.
class bounded_messages {
 public:
  bounded_messages();
  ~bounded_messages();
  bounded_messages(const bounded_messages&) = delete;
  bounded_messages& operator=(const bounded_messages&) = delete;
};

// Prints to stderr: "tarn: problem" and, indented below it, the advice; or one JSON object.
void print_error(const cli_error& error, bool json);

// A remark that is no failure, on stderr.
void print_note(const std::string& text);

}  // namespace tarn::cli
