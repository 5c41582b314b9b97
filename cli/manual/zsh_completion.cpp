// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include <string_view>

#include "cli/manual/completed_words.hpp"
#include "cli/manual/completion.hpp"
#include "cli/manual/overview.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

// Within single quotes, and within a description of _arguments or _describe.
std::string zsh_text(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\'') {
      result += "'\\''";
      continue;
    }
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

std::string action_of(const completed_value& value) {
  switch (value.kind) {
    case completed_kind::words:
      return "(" + join(value.words, " ") + ")";
    case completed_kind::file:
      return "_files";
    case completed_kind::folder:
      return "_files -/";
    case completed_kind::profile:
      return "_files -g \"*.prof(-.)\"";
    case completed_kind::plan:
      return "_files -g \"*.json(-.)\"";
    case completed_kind::process:
      return "_tarn_processes";
    case completed_kind::nothing:
      break;
  }
  return "";
}

std::string option_spec(const command& app, const CLI::Option* option) {
  const std::vector<std::string> names = names_of(option);
  const bool repeats = takes_value(option) && option->get_expected_max() > 1;
  std::string shown;
  for (const std::string& name : names) {
    const bool is_long = name.starts_with("--");
    shown += (shown.empty() ? "" : ",") + name + (!takes_value(option) ? "" : is_long ? "=" : "+");
  }
  std::string spec = repeats ? "'*'" : "'(" + join(names, " ") + ")'";
  spec += names.size() > 1 ? "{" + shown + "}" : shown;
  spec += "'[" + zsh_text(option->get_description()) + "]";
  if (takes_value(option)) {
    spec += ":" + zsh_text(option->get_option_text()) + ":" + action_of(value_of(app, option));
  }
  return spec + "'";
}

std::string argument_specs(const command& app) {
  const completed_value argument = argument_of(app);
  switch (program_of(app)) {
    case program_place::at_once:
      return argument.kind == completed_kind::process
                 ? " \\\n        '(-)1:program or process:_tarn_program_or_process' '*::argument:_normal'"
                 : " \\\n        '(-)1:program:_command_names -e' '*::argument:_normal'";
    case program_place::after_plan:
      return " \\\n        '1:plan:" + action_of(argument) +
             "' '(-)2:program:_command_names -e' '*::argument:_normal'";
    case program_place::after_dashes:
    case program_place::nowhere:
      break;
  }
  if (argument.kind == completed_kind::nothing) return "";
  return std::string(" \\\n        '*:") +
         (argument.kind == completed_kind::process ? "process" : "profile") + ":" + action_of(argument) + "'";
}

constexpr const char* zsh_begin = R"sh(
_tarn_processes() {
  local -a processes
  processes=(${${${(f)"$(command ps -A -o pid= -o comm=)"}## #}/ /:})
  _describe -t processes process processes
}

_tarn_program_or_process() {
  if [[ $PREFIX == <-> ]]; then _tarn_processes; else _command_names -e; fi
}

_tarn() {
  local curcontext="$curcontext" state line
  typeset -A opt_args
  _arguments -C \
    '(- *)'{-h,--help}'[Print the commands]' \
    '(- *)'{-V,--version}'[Print the version]' \
    '--color=[Colour]:WHEN:(auto always never)' \
    '1:command:_tarn_verbs' \
    '*::argument:->arguments' && return
  [[ $state == arguments ]] || return 1
  curcontext="${curcontext%:*:*}:tarn-$words[1]:"
  # After "--": the program and its own arguments.
  local -i dashes=$words[(i)--]
  if (( dashes < CURRENT )) && [[ $words[1] == (@PROGRAMS@) ]]; then
    shift $dashes words
    (( CURRENT -= dashes ))
    _normal
    return
  fi
  case $words[1] in
    help) _arguments '1:command:_tarn_verbs' ;;
)sh";

}  // namespace

std::string zsh_completion(std::span<const verb> verbs) {
  std::string list, cases, begin = zsh_begin;
  std::vector<std::string> programs;
  define_all(verbs, [&](const command& app) {
    list += fmt::format("    '{}:{}'\n", app.get_name(), zsh_text(phrase_of(app)));
    cases += fmt::format("    {})\n      _arguments -s -S", app.get_name());
    for (const CLI::Option* option : options_of(app)) cases += " \\\n        " + option_spec(app, option);
    cases += argument_specs(app) + " ;;\n";
    if (program_of(app) != program_place::nowhere) programs.push_back(app.get_name());
  });
  constexpr std::string_view mark = "@PROGRAMS@";
  begin.replace(begin.find(mark), mark.size(), join(programs, "|"));
  return std::string(
             "#compdef tarn\n"
             "# SPDX-License-Identifier: MIT\n"
             "# zsh completion of tarn. Made from the command's own definition of its options.\n"
             "\n_tarn_verbs() {\n  local -a verbs=(\n") +
         list +
         "    'help:show the commands, or the help of one'\n  )\n  _describe -t commands command verbs\n}\n" +
         begin + cases + "  esac\n}\n\n_tarn \"$@\"\n";
}

}  // namespace tarn::cli
