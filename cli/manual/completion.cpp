// SPDX-License-Identifier: MIT
#include "cli/manual/completion.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "cli/launch/command_line.hpp"
#include "cli/manual/overview.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

class asked_line {
 public:
  asked_line(std::span<const verb> verbs, const std::vector<std::string>& words)
      : verbs_(verbs), words_(words), current_(words.empty() ? "" : words.back()) {}

  std::string answer() {
    find_verb();
    if (verb_ == nullptr) return before_the_verb();
    std::string text;
    define_command(verb_->run, [&](const command& app) { text = after_the_verb(app); });
    return text;
  }

 private:
  void find_verb() {
    while (next_ + 1 < words_.size() && verb_ == nullptr && !in_help_) {
      const std::string& word = words_[next_++];
      if (word == "--color") {
        if (next_ < words_.size() && words_[next_] == "=") ++next_;
        is_colour_ = next_ + 1 >= words_.size();
        ++next_;
        continue;
      }
      const auto known =
          std::find_if(verbs_.begin(), verbs_.end(), [&](const verb& one) { return word == one.name; });
      if (known != verbs_.end()) verb_ = &*known;
      in_help_ = word == "help";
    }
  }

  std::string before_the_verb() {
    if (is_colour_ || current_.starts_with("--color=")) return colours();
    if (!current_.starts_with('-')) {
      for (const verb& each : verbs_) {
        define_command(each.run, [this](const command& app) { add(app.get_name(), phrase_of(app)); });
      }
    }
    if (!in_help_) {
      add("help", "show the commands, or the help of one");
      for (const char* option : {"--help", "--version", "--color"}) add(option, "");
    }
    return "words\n" + found_;
  }

  std::string colours() {
    if (current_.starts_with("--color=")) prefix_ = "--color=";
    for (const char* each : {"auto", "always", "never"}) add(each, "");
    return "words\n" + found_;
  }

  std::string after_the_verb(const command& app) {
    const std::string_view usage = app.text().usage;
    const bool has_program = usage.find("PROGRAM") != std::string_view::npos;
    const bool at_once = usage.substr(0, usage.find('\n')).find("PROGRAM") != std::string_view::npos;
    const CLI::Option* valued = nullptr;
    for (; next_ + 1 < words_.size(); ++next_) {
      const std::string& word = words_[next_];
      if (word == "=" && valued != nullptr) continue;
      if (valued != nullptr) {
        valued = nullptr;
      } else if (word == "--" && has_program) {
        return fmt::format("program {}\n", next_ + 2);
      } else if (word.starts_with('-')) {
        valued = option_with_value(app, word);
      } else if (at_once) {
        return fmt::format("program {}\n", next_ + 1);
      }
    }
    const std::size_t equals = current_.starts_with("--") ? current_.find('=') : std::string::npos;
    if (equals != std::string::npos) {
      valued = option_with_value(app, current_.substr(0, equals));
      prefix_ = current_.substr(0, equals + 1);
    }
    if (valued != nullptr) return value(app, valued);
    if (current_.starts_with('-')) return option_names(app);
    const bool digits = !current_.empty() && std::isdigit(static_cast<unsigned char>(current_[0])) != 0;
    if (at_once && !(digits && usage.find("[PID") != std::string_view::npos))
      return fmt::format("program {}\n", words_.size());
    return argument(app);
  }

  static const CLI::Option* option_with_value(const command& app, const std::string& word) {
    for (const CLI::Option* option : app.get_options()) {
      const std::vector<std::string> names = names_of(option);
      if (takes_value(option) && std::find(names.begin(), names.end(), word) != names.end()) return option;
    }
    return nullptr;
  }

  std::string option_names(const command& app) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional()) continue;
      for (const std::string& name : names_of(option)) add(name, option->get_description());
    }
    return "words\n" + found_;
  }

  std::string value(const command& app, const CLI::Option* option) {
    const std::vector<std::string> words = app.words_of(option);
    if (words.empty()) return value_of_kind(option->get_option_text());
    for (const std::string& word : words) add(word, "");
    return "words\n" + found_;
  }

  std::string argument(const command& app) {
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional()) return value(app, option);
    }
    return value_of_kind("PID");
  }

  std::string value_of_kind(std::string_view kind) {
    if (kind == "FILE") return "files\n";
    if (kind == "FOLDER") return "folders\n";
    if (kind.starts_with("PROFILE")) return "files .prof\n";
    return kind.starts_with("PID") ? processes() : "\n";
  }

  std::string processes() {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const std::string process = entry.path().filename();
      if (!process_id(process)) continue;
      std::ifstream file(entry.path() / "comm");
      std::string name;
      std::getline(file, name);
      add(process, profiler::printable(name));
    }
    return "words\n" + found_;
  }

  void add(const std::string& word, const std::string& meaning) {
    if (!word.starts_with('-') || current_.starts_with('-')) found_ += prefix_ + word + "\t" + meaning + "\n";
  }

  std::span<const verb> verbs_;
  const std::vector<std::string>& words_;
  const std::string current_;
  const verb* verb_ = nullptr;
  bool in_help_ = false;
  bool is_colour_ = false;  // the value of --color is asked for
  std::size_t next_ = 0;    // the first word that is not yet read
  std::string prefix_;
  std::string found_;
};

constexpr const char* bash_script = R"sh(# SPDX-License-Identifier: MIT
# bash completion of tarn
_tarn() {
  local IFS=$'\n' current=${COMP_WORDS[COMP_CWORD]}
  local -a words=("${COMP_WORDS[@]:1:COMP_CWORD-1}") answer
  # bash splits --name=value at "=".
  [[ $current == = ]] && { words+=("="); current=; }
  COMPREPLY=()
  mapfile -t answer < <("${COMP_WORDS[0]}" __complete "${words[@]}" "$current" 2>/dev/null)
  case ${answer[0]} in
    words) answer=("${answer[@]:1}"); COMPREPLY=($(compgen -W "${answer[*]%%$'\t'*}" -- "$current")) ;;
    folders) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$current")) ;;
    files) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")) ;;
    files\ *)
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -f -X "!*${answer[0]#files }" -- "$current") $(compgen -d -- "$current"))
      ;;
    program\ *) _tarn_program "${answer[0]#program }" ;;
  esac
}

# The program begins at word $1: its own completion, or a command's name and then files.
_tarn_program() {
  local IFS=$' \t\n'
  if declare -F _comp_command_offset >/dev/null; then
    _comp_command_offset "$1"
  elif declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  else
    IFS=$'\n'
    compopt -o filenames 2>/dev/null
    if ((COMP_CWORD == $1)) && [[ $current != */* ]]; then
      COMPREPLY=($(compgen -c -- "$current") $(compgen -d -- "$current"))
    else
      COMPREPLY=($(compgen -f -- "$current"))
    fi
  fi
}

complete -F _tarn tarn
)sh";

constexpr const char* zsh_script = R"sh(#compdef tarn
# SPDX-License-Identifier: MIT
# zsh completion of tarn
_tarn() {
  local -a answer list
  answer=("${(@f)$("${(Q)words[1]}" __complete "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)}")
  case $answer[1] in
    words)
      list=("${(@)answer[2,-1]//:/\\:}")
      list=("${(@)list/$'\t'/:}")
      _describe -t words word list
      ;;
    files) compset -P '--*='; _files ;;
    files\ *) _files -g "*${answer[1]#files }(-.)" ;;
    folders) compset -P '--*='; _files -/ ;;
    program\ *)
      local -i before=${answer[1]#program }
      shift $before words
      (( CURRENT -= before ))
      _normal
      ;;
  esac
}

_tarn "$@"
)sh";

constexpr const char* fish_script = R"sh(# SPDX-License-Identifier: MIT
# fish completion of tarn
function __tarn_complete
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    set -l command $tokens[1]
    set -e tokens[1]
    set -l answer ($command __complete $tokens "$current" 2>/dev/null)
    set -l value (string replace -r '^--[^=]*=' '' -- $current)
    set -l before (string sub -l (math (string length -- "$current") - (string length -- "$value")) -- "$current")
    switch "$answer[1]"
        case words
            printf '%s\n' $answer[2..]
        case files
            printf '%s\n' $before(__tarn_files "$value")
        case 'files *'
            set -l ending (string replace 'files ' '' -- $answer[1])
            printf '%s\n' $before(__tarn_files "$value" | string match -r '.*(?:\\'$ending'|/)$')
        case folders
            printf '%s\n' $before(__tarn_files "$value" | string match '*/')
        case 'program *'
            set -l words $command $tokens $current
            set words $words[(math (string replace 'program ' '' -- $answer[1]) + 1)..]
            if test (count $words) -gt 1; or not string match -q -- '-*' "$current"
                complete -C (string join ' ' -- (string escape -- $words[1..-2]) "$words[-1]")
            end
    end
end

function __tarn_files
    complete -C"tarn-file $argv[1]" | string replace -r '\t.*' ''
end

complete -c tarn -f -a '(__tarn_complete)'
)sh";

}  // namespace

std::string completion_of(std::span<const verb> verbs, const std::vector<std::string>& words) {
  return asked_line(verbs, words).answer();
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return bash_script;
  if (shell == "zsh") return zsh_script;
  return shell == "fish" ? fish_script : "";
}

}  // namespace tarn::cli
