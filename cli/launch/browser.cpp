// SPDX-License-Identifier: MIT
#include "cli/launch/browser.hpp"

#include <fmt/core.h>
#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <sstream>
#include <vector>

#include "cli/launch/child_process.hpp"
#include "cli/launch/environment.hpp"
#include "cli/launch/program_target.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr const char* desktop_openers[] = {"xdg-open", "gio open", "sensible-browser", "x-www-browser"};

std::vector<std::string> commands(const environment& variables) {
  std::vector<std::string> all;
  std::istringstream list(variables.get("BROWSER").value_or(""));
  for (std::string one; std::getline(list, one, ':');) {
    if (!one.empty()) all.push_back(one);
  }
  if (all.empty()) all.assign(std::begin(desktop_openers), std::end(desktop_openers));
  return all;
}

// Replaces "%s" by the address, or adds it as the last word.
std::vector<std::string> words_of(const std::string& command, const std::string& address) {
  std::vector<std::string> words;
  std::istringstream text(command);
  bool is_placed = false;
  for (std::string word; text >> word;) {
    if (word == "%s") is_placed = true;
    words.push_back(word == "%s" ? address : word);
  }
  if (!is_placed) words.push_back(address);
  return words;
}

// How the program ended: a wait status. Throws cli_error if it cannot be started.
int run_opener(const std::vector<std::string>& words, const environment& variables) {
  child_request request;
  request.path = locate_program(words.front(), variables);
  request.arguments = words;
  request.variables = variables;
  const held_signals signals{};
  const pid_t child = start_child(request, signals.before());
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

void open_in_browser(const std::string& path) {
  const environment variables = environment::current();
  const std::string address = std::filesystem::absolute(path).string();
  std::vector<std::string> failures;
  for (const std::string& command : commands(variables)) {
    const std::vector<std::string> words = words_of(command, address);
    try {
      const int status = run_opener(words, variables);
      if (status == 0) return;
      failures.push_back(fmt::format("{}: {}", words.front(), format_exit(status)));
    } catch (const cli_error& error) {
      if (error.code() != exit_code::not_found) failures.emplace_back(error.what());
    }
  }
  throw cli_error(exit_code::refused,
                  fmt::format("the page is written, but no browser could be opened ({})",
                              failures.empty() ? "none is installed" : join(failures, ", ")),
                  fmt::format("Open it yourself: file://{}", address));
}

}  // namespace tarn::cli
