// SPDX-License-Identifier: MIT
#include "cli/manual/overview.hpp"

#include <fmt/core.h>

#include <cctype>

#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t name_column = 11;
constexpr std::size_t help_columns = 80;

constexpr exit_meaning all_exits[] = {
    {0, "success"},
    {1,
     "compare, prove: results differ; diff: a limit is exceeded; show --by leaks: a block is lost; doctor: something "
     "is missing"},
    {2, "wrong usage (of run and profile: 125)"},
    {3, "the program fails under every allocator"},
    {4, "a profile is damaged; what could be read was used"},
    refused_exit,
    not_executable_exit,
    not_found_exit,
    {141, "the reader of standard output has closed the pipe; no message"},
};

}  // namespace

const char* const overview_examples =
    "  tarn run --stats -- make\n"
    "  tarn compare -- ./my_program input.dat\n"
    "  tarn profile -o run.prof -- ./my_program input.dat\n"
    "  tarn show run.prof; tarn report run.prof --open\n"
    "  tarn advise run.prof; tarn prove run.prof\n";

const std::span<const exit_meaning> overview_exits = all_exits;

std::string phrase_of(const command& app) {
  std::string phrase = app.text().summary;
  if (phrase.ends_with('.')) phrase.pop_back();
  phrase[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(phrase[0])));
  return phrase;
}

std::string render_overview(std::span<const verb> verbs) {
  std::string text =
      "tarn: a memory toolkit for C and C++ programs on Linux\n"
      "\n"
      "Usage: tarn COMMAND ...\n"
      "\n";
  const auto add = [&text](const std::string& name, const std::string& phrase) {
    std::string lines = wrap(phrase, help_columns - name_column);
    for (std::size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n', end + 1))
      lines.insert(end + 1, name_column, ' ');
    text += "  " + pad_right(name, name_column - 2) + lines + "\n";
  };
  for (const verb& each : verbs) {
    if (each.group != nullptr) text += std::string(&each == verbs.data() ? "" : "\n") + each.group + ":\n";
    define_command(each.run, [&add](const command& app) { add(app.get_name(), phrase_of(app)); });
  }
  text += "\n";
  add("help", "show this text, or the help of a command: tarn help COMMAND");
  text += std::string("\nExamples:\n") + overview_examples;
  text +=
      "\n"
      "Every command takes --help, --version, --color and --json. run, profile and top\n"
      "end as the program does; otherwise:\n"
      "\n";
  return text + render_exits(overview_exits) + "\nMore: man tarn, docs/reference/commands.md\n";
}

}  // namespace tarn::cli
