// SPDX-License-Identifier: MIT
#include "cli/launch/command_line.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

class usage_formatter : public CLI::Formatter {
 public:
  explicit usage_formatter(std::string usage) : usage_(std::move(usage)) { column_width(28); }

  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return "Usage: " + usage_ + "\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_option_text().empty() ? "" : " " + option->get_option_text();
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(option->get_description(), help_columns - get_column_width());
  }

 private:
  static constexpr std::size_t help_columns = 80;

  std::string usage_;
};

// `valued`: only of the options that take a value.
std::vector<std::string> option_names(const command& app, bool valued) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (valued && option->get_items_expected_max() == 0) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string advice_for(const command& app, const std::vector<std::string>& options) {
  const std::vector<std::string> known = option_names(app, false);
  for (const std::string& word : options) {
    const std::string name = word.substr(0, word.find('='));
    if (name.size() < 3 || !name.starts_with("--")) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest_word(name, known);
    if (!near.empty())
      return fmt::format("Did you mean '{}'? All options: tarn {} --help", near, app.get_name());
  }
  return fmt::format("See: tarn {} --help", app.get_name());
}

}  // namespace

command::command(const std::string& name, const std::string& what, const std::string& usage,
                 const std::string& end)
    : CLI::App(what, name) {
  formatter(std::make_shared<usage_formatter>(usage));
  footer(end);
}

command_line split_command_line(const std::vector<std::string>& words, const command& app) {
  const std::vector<std::string> valued = option_names(app, true);
  command_line line;
  std::size_t index = 0;
  while (index < words.size()) {
    const std::string& word = words[index];
    if (word == "--") {
      ++index;
      break;
    }
    if (word.size() < 2 || word.front() != '-') break;
    line.options.push_back(word);
    ++index;
    if (word == "--with") {
      // The first value is taken in any form, so that a malformed one is reported as such, and not taken for the
      // program.
      if (index < words.size() && words[index] != "--") line.options.push_back(words[index++]);
      while (index < words.size() && words[index].front() != '-' &&
             words[index].find('=') != std::string::npos) {
        line.options.push_back(words[index++]);
      }
    } else if (std::find(valued.begin(), valued.end(), word) != valued.end() && index < words.size() &&
               words[index] != "--") {
      line.options.push_back(words[index++]);
    }
  }
  line.program.assign(words.begin() + static_cast<std::ptrdiff_t>(index), words.end());
  return line;
}

bool parse_options(command& app, std::vector<std::string> options, int error_code) {
  const std::vector<std::string> given = options;
  // CLI11 expects the words in reverse order.
  std::reverse(options.begin(), options.end());
  try {
    app.parse(options);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    std::string problem = error.what();
    while (!problem.empty() && (problem.back() == '\n' || problem.back() == '.')) problem.pop_back();
    throw cli_error(error_code, problem, advice_for(app, given));
  }
  return true;
}

std::optional<pid_t> process_id(const std::string& word) {
  pid_t process = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), process);
  if (error != std::errc() || end != word.data() + word.size() || process <= 0) return std::nullopt;
  return process;
}

void require_program(const command_line& line, std::string_view command, int error_code) {
  if (line.program.empty()) {
    throw cli_error(error_code, "no program given", fmt::format("For example: tarn {} -- ls -l", command));
  }
}

}  // namespace tarn::cli
