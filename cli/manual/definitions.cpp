// SPDX-License-Identifier: MIT
#include "cli/manual/definitions.hpp"

#include <nlohmann/json.hpp>

#include "cli/show/cli_error.hpp"

namespace tarn::cli {

namespace {

nlohmann::json option_json(const command& app, const CLI::Option* option) {
  return {
      {"names", names_of(option)},          {"value", takes_value(option) ? option->get_option_text() : ""},
      {"words", app.words_of(option)},      {"positional", option->get_positional()},
      {"required", option->get_required()}, {"help", option->get_description()}};
}

std::string code_text(int code) {
  return code == exit_meaning::of_program ? std::string("other") : std::to_string(code);
}

}  // namespace

nlohmann::json definitions_json(std::span<const verb> verbs) {
  nlohmann::json all = nlohmann::json::object();
  for (const verb& each : verbs) {
    define_command(each.run, [&](const command& app) {
      nlohmann::json options = nlohmann::json::array();
      for (const CLI::Option* option : app.get_options()) options.push_back(option_json(app, option));
      nlohmann::json exits = nlohmann::json::array();
      for (const exit_meaning& one : app.text().exits)
        exits.push_back({{"code", code_text(one.code)}, {"meaning", one.meaning}});
      all[each.name] = {{"summary", app.text().summary},
                        {"usage", app.text().usage},
                        {"usage_exit", each.passes_status ? exit_code::refused : exit_code::usage},
                        {"exits", exits},
                        {"options", options}};
    });
  }
  return all;
}

}  // namespace tarn::cli
