// SPDX-License-Identifier: MIT
// The table of the commands, in the order in which `tarn help` lists them, and what is made of all of them together.
#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"

namespace tarn::cli {

namespace {

constexpr verb all_verbs[] = {{"run", cmd_run, "Try tarn", true},
                              {"compare", cmd_compare},
                              {"cost", cmd_cost},
                              {"doctor", cmd_doctor},
                              {"profile", cmd_profile, "Find what memory costs, and where", true},
                              {"attach", cmd_attach},
                              {"show", cmd_show},
                              {"report", cmd_report},
                              {"diff", cmd_diff},
                              {"merge", cmd_merge},
                              {"export", cmd_export},
                              {"advise", cmd_advise, "Decide what to change"},
                              {"prove", cmd_prove},
                              {"top", cmd_top, "Watch what runs"},
                              {"control", cmd_control},
                              {"serve", cmd_serve}};

nlohmann::json option_json(const command& app, const CLI::Option* option) {
  return {
      {"names", names_of(option)},          {"value", takes_value(option) ? option->get_option_text() : ""},
      {"words", app.words_of(option)},      {"positional", option->get_positional()},
      {"required", option->get_required()}, {"help", option->get_description()}};
}

// By verb: "summary", "usage", "usage_exit", "exits", and "options", each with "names", "value" (empty: a flag),
// "words", "positional", "required" and "help". The tests compare every other form with it.
nlohmann::json definitions() {
  nlohmann::json all = nlohmann::json::object();
  for (const verb& each : all_verbs) {
    define_command(each.run, [&](const command& app) {
      nlohmann::json options = nlohmann::json::array();
      for (const CLI::Option* option : app.get_options()) options.push_back(option_json(app, option));
      nlohmann::json exits = nlohmann::json::array();
      for (const exit_meaning& one : app.text().exits)
        exits.push_back({{"code", one.code_text()}, {"meaning", one.meaning}});
      all[each.name] = {{"summary", app.text().summary},
                        {"usage", app.text().usage},
                        {"usage_exit", each.passes_status ? exit_code::refused : exit_code::usage},
                        {"exits", exits},
                        {"options", options}};
    });
  }
  return all;
}

std::string man_page_of(const std::string& name) {
  std::string page;
  if (name == "tarn") page = overview_man_page(all_verbs);
  for (const verb& each : all_verbs) {
    if (name == each.name) define_command(each.run, [&page](const command& app) { page = man_page(app); });
  }
  return page;
}

// For installation: man1/tarn.1 and man1/tarn-VERB.1.
void write_files(const std::string& folder) {
  const auto write = [&folder](const std::string& name, const std::string& text) {
    output_file file("--print-manual", folder + "/" + name);
    file.write(text);
    file.finish();
  };
  std::filesystem::create_directories(folder + "/man1");
  write("man1/tarn.1", overview_man_page(all_verbs));
  define_all(all_verbs,
             [&write](const command& app) { write("man1/tarn-" + app.get_name() + ".1", man_page(app)); });
}

}  // namespace

std::span<const verb> verbs() { return all_verbs; }

int print_manual(const std::vector<std::string>& words) {
  const std::string form = words.empty() ? "" : words.front();
  std::string text;
  if (form == "json" && words.size() == 1) text = json_text(definitions(), 1) + "\n";
  if (form == "files" && words.size() == 2) {
    write_files(words[1]);
    return exit_code::success;
  }
  if (form == "man" && words.size() == 2) text = man_page_of(words[1]);
  if (text.empty()) {
    throw cli_error(exit_code::usage, "--print-manual needs the name of a form",
                    "Give one of json, man tarn, man COMMAND, and files FOLDER.");
  }
  fmt::print("{}", text);
  return exit_code::success;
}

}  // namespace tarn::cli
