// SPDX-License-Identifier: MIT
#include "cli/manual/definitions.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

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

// What the page's first table says.
bool is_general(const exit_meaning& one) {
  static constexpr exit_meaning general[] = {usage_exit,          damaged_exit,   refused_exit,
                                             not_executable_exit, not_found_exit, program_exit};
  return std::ranges::any_of(general, [&one](const exit_meaning& each) {
    return each.code == one.code && std::string_view(each.meaning) == one.meaning;
  });
}

constexpr const char* page_begin =
    R"(# Exit codes

Made from the definitions of the commands (`tarn --print-manual exit-codes`); `--help` and the manual pages say the same.

| code | meaning |
|---:|---|
| 0 | success |
| 1 | a result that differs, on which a script should act |
| 2 | wrong usage, whatever the system is like (of `run` and `profile`: 125, so that a 2 is the program's) |
| 3 | the program fails in the same way in all runs |
| 4 | a profile is damaged or cut off; what could be read was used, and a note on standard error says how far |
| 125 | tarn refuses or cannot do its work, or its results cannot be written: a file, a program, a right or a library; the message says why |
| 126 | the program cannot be executed |
| 127 | the program was not found |
| 141 | the reader of standard output has closed the pipe; no message |
| other | the program's own; a program that was killed by a signal ends tarn by the same signal |

Errors go to standard error in two lines: what is wrong, and what to do about it. With `--json` they are one object there,
`{"error": {"problem", "advice", "exit_code"}}`. [Mistakes](mistakes.md) lists many of them, word for word.
)";

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

std::string exit_codes_page(std::span<const verb> verbs) {
  std::string page = page_begin;
  page += "\n## By command\n\n| command | codes | in particular |\n|---|---|---|\n";
  define_all(verbs, [&page](const command& app) {
    std::string codes;
    std::string particular;
    for (const exit_meaning& each : app.text().exits) {
      const std::string code = code_text(each.code);
      codes += (codes.empty() ? "" : ", ") + code;
      if (!is_general(each))
        particular += fmt::format("{}**{}** {}", particular.empty() ? "" : ". ", code, each.meaning);
    }
    page += fmt::format("| `tarn {}` | {} | {} |\n", app.get_name(), codes, particular);
  });
  return page;
}

}  // namespace tarn::cli
