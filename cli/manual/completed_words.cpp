// SPDX-License-Identifier: MIT
#include "cli/manual/completed_words.hpp"

#include <string_view>

namespace tarn::cli {

namespace {

completed_kind kind_of(std::string_view value) {
  if (value == "FILE") return completed_kind::file;
  if (value == "FOLDER") return completed_kind::folder;
  if (value == "PLAN") return completed_kind::plan;
  if (value.starts_with("PROFILE")) return completed_kind::profile;
  if (value.starts_with("PID")) return completed_kind::process;
  return completed_kind::nothing;
}

}  // namespace

completed_value value_of(const command& app, const CLI::Option* option) {
  std::vector<std::string> words = app.words_of(option);
  if (!words.empty()) return {completed_kind::words, std::move(words)};
  return {kind_of(option->get_option_text()), {}};
}

completed_value argument_of(const command& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) return value_of(app, option);
  }
  if (std::string_view(app.text().usage).find("[PID |") != std::string_view::npos)
    return {completed_kind::process, {}};
  return {};
}

program_place program_of(const command& app) {
  const std::string_view usage = app.text().usage;
  if (usage.find("PROGRAM") == std::string_view::npos) return program_place::nowhere;
  if (usage.substr(0, usage.find('\n')).find("PROGRAM") == std::string_view::npos)
    return program_place::after_dashes;
  return argument_of(app).kind == completed_kind::plan ? program_place::after_plan : program_place::at_once;
}

std::vector<const CLI::Option*> options_of(const command& app) {
  return app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

}  // namespace tarn::cli
