// SPDX-License-Identifier: MIT
#include "cli/show/guarded_main.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <string_view>
#include <system_error>

#include "cli/show/cli_error.hpp"
#include "cli/show/output_file.hpp"

namespace tarn::cli {

namespace {

// Only tarn's own words count, which are those before "--".
bool wants_json(const std::vector<std::string>& words) {
  const auto end = std::find(words.begin(), words.end(), "--");
  return std::find(words.begin(), end, "--json") != end;
}

cli_error output_error(const std::system_error& error) {
  if (!std::string_view(error.what()).starts_with("cannot write to file")) return as_cli_error(error);
  return not_written("standard output", error.code().value());
}

// A descriptor that is closed would become that of the next file that is opened, into which messages would go then. Opened in
// the wrong direction, it fails like a closed one; a started program gets it closed.
void fill_standard_descriptors() {
  for (const int one : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(one, F_GETFD) < 0) open("/dev/null", (one == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  }
}

int report(const cli_error& error, bool json) {
  print_error(error, json);
  return error.code();
}

}  // namespace

int guarded_main(int count, char** values, int (*run)(const std::vector<std::string>& words)) {
  fill_standard_descriptors();
  // A file beyond RLIMIT_FSIZE is reported as an error instead of ending the process. Exec restores the default for
  // started programs; where the signal was ignored, they ignore it too.
  if (std::signal(SIGXFSZ, [](int) {}) == SIG_IGN) std::signal(SIGXFSZ, SIG_IGN);
  std::vector<std::string> words;
  for (int index = 1; index < count; ++index) words.emplace_back(values[index]);
  const bool json = wants_json(words);
  try {
    const int status = run(words);
    flush_standard_output();
    return status;
  } catch (const closed_pipe&) {
    return exit_code::closed_pipe;
  } catch (const std::system_error& error) {  // fmt's, when it cannot print
    if (error.code().value() == EPIPE) return exit_code::closed_pipe;
    return report(output_error(error), json);
  } catch (const cli_error& error) {
    return report(error, json);
  } catch (const std::exception& error) {
    return report(as_cli_error(error), json);
  }
}

}  // namespace tarn::cli
