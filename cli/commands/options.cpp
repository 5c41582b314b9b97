// SPDX-License-Identifier: MIT
// tarn doctor --options: the library's options with their effective values. The answer comes from the
// library itself, preloaded into a child of this command, so it is what every program would get.
#include <dlfcn.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <tarn/malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "cli/launch/child_process.hpp"
#include "cli/launch/command_line.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

constexpr double answer_timeout_seconds = 20;
// tarn_option_at ends the table itself; this limit is for a library that never does.
constexpr std::size_t option_limit = 1000;

std::string variable_name(const std::string& option) {
  std::string name = "TARN_";
  for (const char letter : option)
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return name;
}

nlohmann::json ask_library(const std::string& library) {
  child_request request;
  request.path = own_executable();
  request.arguments = {"tarn", print_preloaded_options_word};
  request.variables = environment::current();
  request.variables.prepend_preload(library);
  request.variables.unset("TARN_LIBRARY");
  // The child ends without exit handlers: a report at its exit (TARN_STATS) was not asked for, but the option's
  // value is part of the answer.
  const captured_output answer = run_captured(request, answer_timeout_seconds);
  // Warnings of the library, for example about an unknown TARN_ variable.
  fmt::print(stderr, "{}", answer.errors);
  nlohmann::json table = nlohmann::json::parse(answer.output, nullptr, false);
  if (answer.timed_out || !WIFEXITED(answer.wait_status) || WEXITSTATUS(answer.wait_status) != 0 ||
      !table.is_object()) {
    throw cli_error(
        exit_code::refused, fmt::format("{} does not answer with its options", library),
        "Is it tarn's library? Give the path of the right one: TARN_LIBRARY=/path/to/libtarn.so.1");
  }
  return table;
}

// Makes a sentence of the library's phrase.
std::string sentence(std::string text) {
  if (text.empty()) return text;
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  if (text.back() != '.') text += '.';
  return text;
}

void print_table(const nlohmann::json& table) {
  const bool colour = wants_colour(STDOUT_FILENO);
  const std::vector<std::string> heads = {"variable", "value", "default", "set by"};
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> widths;
  for (const std::string& head : heads) widths.push_back(display_width(head));
  for (const nlohmann::json& option : table["options"]) {
    rows.emplace_back();
    for (const char* cell : {"variable", "value", "default", "source"}) {
      rows.back().push_back(profiler::printable(option[cell].get<std::string>()));
    }
    for (std::size_t column = 0; column < heads.size(); ++column) {
      widths[column] = std::max(widths[column], display_width(rows.back()[column]));
    }
  }
  const auto print_row = [&](const std::vector<std::string>& cells, style wanted) {
    std::string line;
    for (std::size_t column = 0; column < cells.size(); ++column)
      line += pad_right(cells[column], widths[column] + 2);
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", paint(line, wanted, colour));
  };
  print_row(heads, style::bold);
  for (std::size_t index = 0; index < rows.size(); ++index) {
    const nlohmann::json& option = table["options"][index];
    print_row(rows[index], option["source"] == "default" ? style::plain : style::good);
    fmt::print("    {}\n    Accepts: {}.\n", sentence(option["meaning"]),
               option["accepts"].get<std::string>());
  }
  fmt::print("\ntarn {}, {}\n", table["version"].get<std::string>(),
             profiler::printable(table["library"].get<std::string>()));
}

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

}  // namespace

int print_preloaded_options() {
  const auto option_at =
      reinterpret_cast<int (*)(std::size_t, tarn_option*)>(dlsym(RTLD_DEFAULT, "tarn_option_at"));
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "tarn_version"));
  if (option_at == nullptr || version == nullptr) return exit_code::refused;
  nlohmann::json options = nlohmann::json::array();
  for (std::size_t index = 0; index < option_limit; ++index) {
    tarn_option option = {};
    if (option_at(index, &option) != 0) break;
    const std::string name = text_or_empty(option.name);
    options.push_back({{"name", name},
                       {"variable", variable_name(name)},
                       {"value", text_or_empty(option.value)},
                       {"default", text_or_empty(option.standard)},
                       {"source", text_or_empty(option.source)},
                       {"accepts", text_or_empty(option.accepts)},
                       {"meaning", text_or_empty(option.meaning)}});
  }
  const nlohmann::json table = {{"version", text_or_empty(version())}, {"options", options}};
  fmt::print("{}", json_text(table));
  flush_standard_output();
  _exit(exit_code::success);
}

int show_options(bool json) {
  const std::string library = find_tarn_library();
  nlohmann::json table = ask_library(library);
  table["library"] = library;
  if (json) {
    print_json_object(table);
  } else {
    print_table(table);
  }
  return exit_code::success;
}

}  // namespace tarn::cli
