// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include "cli/manual/completed_words.hpp"
#include "cli/manual/completion.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

// _tarn_verb sets what is known of a command; _tarn_value sets what the value of an option may be, or, with the option
// "", the words that follow the options.
constexpr const char* bash_end = R"sh(
_tarn() {
  local current=${COMP_WORDS[COMP_CWORD]}
  local verb= option= at word kind= words= options= values= program= has_argument=
  COMPREPLY=()
  # bash splits --name=value at "=".
  [[ $current == = ]] && current=
  for ((at = 1; at < COMP_CWORD; at++)); do
    word=${COMP_WORDS[at]}
    if [[ -n $option ]]; then
      [[ $word == = ]] || option=
    elif [[ -z $verb ]]; then
      case $word in
        --color) option=$word ;;
        -*) ;;
        *) verb=$word; _tarn_verb "$verb" ;;
      esac
    elif [[ $word == -- && -n $program ]]; then
      _tarn_program $((at + 1))
      return
    elif [[ $word == -* ]]; then
      [[ " $values " == *" $word "* ]] && option=$word
    elif [[ $program == after_plan && -z $has_argument ]]; then
      has_argument=1
    elif [[ $program == at_once || $program == after_plan ]]; then
      _tarn_program "$at"
      return
    fi
  done
  if [[ -n $option ]]; then
    _tarn_value "$verb" "$option"
  elif [[ -z $verb ]]; then
    kind=words words="$_tarn_verbs help --help --version --color"
  elif [[ $verb == help ]]; then
    kind=words words=$_tarn_verbs
  elif [[ $current == -* ]]; then
    kind=words words=$options
  elif [[ $program == at_once && $current != [0-9]* || $program == after_plan && -n $has_argument ]]; then
    _tarn_program "$COMP_CWORD"
    return
  else
    _tarn_value "$verb" ''
  fi
  local IFS=$' \t\n'
  case $kind in
    words) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    process) COMPREPLY=($(compgen -W "$(command ps -A -o pid= 2>/dev/null)" -- "$current")) ;;
    folder) _tarn_files -d ;;
    profile) _tarn_files -f '!*.prof' ;;
    plan) _tarn_files -f '!*.json' ;;
    file) _tarn_files -f ;;
  esac
}

# Files; with a second word only folders, and the files that match it. Names may hold blanks.
_tarn_files() {
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  if [[ -n ${2-} ]]; then
    COMPREPLY=($(compgen -f -X "$2" -- "$current") $(compgen -d -- "$current"))
  else
    COMPREPLY=($(compgen "$1" -- "$current"))
  fi
}

# The program begins at word $1: its own completion, or a command's name and then files.
_tarn_program() {
  local IFS=$' \t\n'
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)) && [[ $current != */* ]]; then
    IFS=$'\n'
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -c -- "$current") $(compgen -d -- "$current"))
  else
    _tarn_files -f
  fi
}

complete -F _tarn tarn
)sh";

const char* kind_word(completed_kind kind) {
  constexpr const char* words[] = {"", "words", "file", "folder", "profile", "plan", "process"};
  return words[static_cast<std::size_t>(kind)];
}

const char* word_of(program_place place) {
  constexpr const char* words[] = {"", "at_once", "after_plan", "after_dashes"};
  return words[static_cast<std::size_t>(place)];
}

std::string case_of(const std::string& pattern, const completed_value& value) {
  if (value.kind == completed_kind::nothing) return "";
  std::string text = fmt::format("    {}) kind={}", pattern, kind_word(value.kind));
  if (!value.words.empty()) text += fmt::format(" words='{}'", join(value.words, " "));
  return text + " ;;\n";
}

}  // namespace

std::string bash_completion(std::span<const verb> verbs) {
  std::string names, of_verbs, of_values;
  define_all(verbs, [&](const command& app) {
    const std::string& name = app.get_name();
    std::vector<std::string> options, valued;
    for (const CLI::Option* option : options_of(app)) {
      for (const std::string& each : names_of(option)) options.push_back(each);
      if (!takes_value(option)) continue;
      std::vector<std::string> patterns;
      for (const std::string& each : names_of(option)) {
        valued.push_back(each);
        patterns.push_back("'" + name + " " + each + "'");
      }
      of_values += case_of(join(patterns, " | "), value_of(app, option));
    }
    of_values += case_of("'" + name + " '", argument_of(app));
    names += (names.empty() ? "" : " ") + name;
    of_verbs += fmt::format("    {}) options='{}' values='{}' program={} ;;\n", name, join(options, " "),
                            join(valued, " "), word_of(program_of(app)));
  });
  return "# SPDX-License-Identifier: MIT\n"
         "# bash completion of tarn. Made from the command's own definition of its options.\n"
         "\n_tarn_verbs='" +
         names +
         "'\n"
         "\n_tarn_verb() {\n  case $1 in\n" +
         of_verbs +
         "  esac\n}\n"
         "\n_tarn_value() {\n  case \"$1 $2\" in\n    *' --color') kind=words words='auto always never' ;;\n" +
         of_values + "  esac\n}\n" + bash_end;
}

}  // namespace tarn::cli
