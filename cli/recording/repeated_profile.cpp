// SPDX-License-Identifier: MIT
#include "cli/recording/repeated_profile.hpp"

#include <fmt/core.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "cli/launch/environment.hpp"
#include "cli/launch/foreground.hpp"
#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

void require_repeatable_input() {
  struct stat input = {};
  if (fstat(STDIN_FILENO, &input) != 0 || (!S_ISFIFO(input.st_mode) && !S_ISSOCK(input.st_mode))) return;
  throw cli_error(exit_code::refused, "--rounds: the runs cannot be repeated: standard input is a pipe",
                  "Redirect standard input from a file or from /dev/null.");
}

// False: tarn itself refused, or could not start the program. Any other exit status is the program's own.
bool may_be_repeated(int wait_status) {
  return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != exit_code::refused &&
         WEXITSTATUS(wait_status) != exit_code::not_executable &&
         WEXITSTATUS(wait_status) != exit_code::not_found;
}

std::string name_of_run(const std::string& output, int run) {
  const std::filesystem::path path = output;
  return fmt::format("{}-{}{}", std::filesystem::path(path).replace_extension().string(), run,
                     path.extension().string());
}

}  // namespace

void profile_repeatedly(const command_line& line, int runs, const std::string& output, bool tells) {
  if (output.empty()) {
    throw cli_error(exit_code::usage, "--rounds: several recordings need a name for their files",
                    fmt::format("Give it: -o FILE.prof; the files are FILE-1.prof to FILE-{}.prof", runs));
  }
  require_repeatable_input();
  const off_t input_begin = lseek(STDIN_FILENO, 0, SEEK_CUR);
  std::optional<int> usual_end;
  int end = 0;
  for (int run = 1; run <= runs && end == usual_end.value_or(end) && may_be_repeated(end); ++run) {
    if (input_begin >= 0) lseek(STDIN_FILENO, input_begin, SEEK_SET);
    const std::string name = name_of_run(output, run);
    child_request request;
    request.path = "/proc/self/exe";
    request.arguments = {"tarn", "profile"};
    request.arguments.insert(request.arguments.end(), line.options.begin(), line.options.end());
    for (const char* word : {"-r", "1", "-o", name.c_str()}) request.arguments.emplace_back(word);
    if (tells && run < runs) request.arguments.emplace_back("-q");
    request.arguments.emplace_back("--");
    request.arguments.insert(request.arguments.end(), line.program.begin(), line.program.end());
    request.variables = environment::current();
    if (tells) print_note(fmt::format("recording {} of {}: {}", run, runs, name));
    end = run_in_foreground(request).wait_status;
    if (run == 1) usual_end = end;
  }
  end_like(end);
}

}  // namespace tarn::cli
