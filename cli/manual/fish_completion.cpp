// SPDX-License-Identifier: MIT
#include <fmt/core.h>

#include "cli/manual/completed_words.hpp"
#include "cli/manual/completion.hpp"
#include "cli/manual/overview.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

std::string fish_text(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "'";
}

// What follows `-l name`: whether a value is taken, and which.
std::string value_words(const completed_value& value) {
  switch (value.kind) {
    case completed_kind::words:
      return " -x -a " + fish_text(join(value.words, " "));
    case completed_kind::file:
    case completed_kind::plan:
    case completed_kind::profile:
      return " -r -F";
    case completed_kind::folder:
      return " -x -a '(__fish_complete_directories)'";
    case completed_kind::process:
      return " -x -a '(__fish_complete_pids)'";
    case completed_kind::nothing:
      break;
  }
  return " -x";
}

std::string argument_words(const completed_value& value) {
  switch (value.kind) {
    case completed_kind::profile:
      return "(__tarn_files .prof)";
    case completed_kind::plan:
      return "(__tarn_files .json)";
    case completed_kind::process:
      return "(__fish_complete_pids)";
    default:
      return "";
  }
}

// __tarn_at VERB: the command is VERB and its program, if it has one, is not yet typed. __tarn_in_program: it is.
// The number of words before the program is 1 (tarn), the verb, the options and their values, and the plan.
constexpr const char* fish_begin = R"sh(
# Prints the verb, and then the number of words before its program if that begins before the cursor.
function __tarn_place
    set -l tokens (commandline -opc)
    set -l verb
    set -l arguments 0
    set -l value no
    set -l count 0
    for token in $tokens
        set count (math $count + 1)
        if test $count -eq 1
            continue
        end
        if test $value = yes
            set value no
            continue
        end
        if test -z "$verb"
            switch $token
                case --color
                    set value yes
                case '-*'
                case '*'
                    set verb $token
            end
            continue
        end
        set -l place (__tarn_program_of $verb)
        if test "$token" = --; and test $place != nowhere
            echo $verb
            echo $count
            return
        end
        if string match -q -- '-*' $token
            if contains -- $token (__tarn_valued $verb)
                set value yes
            end
            continue
        end
        set arguments (math $arguments + 1)
        if test $place = at_once; or begin
                test $place = after_plan; and test $arguments -eq 2
            end
            echo $verb
            math $count - 1
            return
        end
    end
    echo $verb
    # The program may follow the plan at once.
    set -l token (commandline -ct)
    if test (__tarn_program_of "$verb") = after_plan; and test $arguments -eq 1; and not string match -q -- '-*' "$token"
        count $tokens
    end
end

function __tarn_at
    set -l place (__tarn_place)
    test (count $place) -eq 1; and test "$place[1]" = "$argv[1]"
end

function __tarn_no_verb
    set -l place (__tarn_place)
    test -z "$place[1]"
end

function __tarn_in_program
    test (count (__tarn_place)) -eq 2
end

# The completion of the program itself.
function __tarn_program
    set -l place (__tarn_place)
    set -l tokens (commandline -opc) (commandline -ct)
    set -l words $tokens[(math $place[2] + 1)..-1]
    complete -C (string join ' ' -- (string escape -- $words[1..-2]) $words[-1])
end

# The first word of a program.
function __tarn_command_names
    set -l token (commandline -ct)
    string match -q -- '-*' $token; or complete "--do-complete=$token"
end

# Folders, and files with the ending $argv[1].
function __tarn_files
    complete -C"tarn-file "(commandline -ct) | string replace -r '\t.*' '' | string match -r '.*(?:\\'$argv[1]'|/)$'
end

complete -c tarn -f
complete -c tarn -n __tarn_in_program -a '(__tarn_program)'
complete -c tarn -n __tarn_no_verb -s h -l help -d 'Print the commands'
complete -c tarn -n __tarn_no_verb -s V -l version -d 'Print the version'
complete -c tarn -n __tarn_no_verb -l color -x -a 'auto always never' -d 'Colour'
complete -c tarn -n __tarn_no_verb -a help -d 'show the commands, or the help of one'
)sh";

const char* fish_word_of(program_place place) {
  constexpr const char* words[] = {"nowhere", "at_once", "after_plan", "after_dashes"};
  return words[static_cast<std::size_t>(place)];
}

}  // namespace

std::string fish_completion(std::span<const verb> verbs) {
  std::string places, valued, lines;
  define_all(verbs, [&](const command& app) {
    const std::string& name = app.get_name();
    const std::string at = fmt::format("complete -c tarn -n '__tarn_at {}'", name);
    std::vector<std::string> with_value;
    lines +=
        fmt::format("\ncomplete -c tarn -n __tarn_no_verb -a {} -d {}\n", name, fish_text(phrase_of(app)));
    lines += fmt::format("complete -c tarn -n '__tarn_at help' -a {}\n", name);
    for (const CLI::Option* option : options_of(app)) {
      lines += at;
      for (const std::string& each : names_of(option)) {
        lines += each.starts_with("--") ? " -l " + each.substr(2) : " -s " + each.substr(1);
        if (takes_value(option)) with_value.push_back(each);
      }
      if (takes_value(option)) lines += value_words(value_of(app, option));
      lines += " -d " + fish_text(option->get_description()) + "\n";
    }
    const std::string words = argument_words(argument_of(app));
    if (!words.empty()) lines += at + " -a " + fish_text(words) + "\n";
    if (program_of(app) == program_place::at_once) lines += at + " -a '(__tarn_command_names)'\n";
    places += fmt::format("        case {}\n            echo {}\n", name, fish_word_of(program_of(app)));
    if (!with_value.empty())
      valued +=
          fmt::format("        case {}\n            string split ' ' -- '{}'\n", name, join(with_value, " "));
  });
  return "# SPDX-License-Identifier: MIT\n"
         "# fish completion of tarn. Made from the command's own definition of its options.\n"
         "\n# Where the program of a command stands.\nfunction __tarn_program_of\n    switch $argv[1]\n" +
         places + "        case '*'\n            echo nowhere\n    end\nend\n" +
         "\n# The options that take a value.\nfunction __tarn_valued\n    switch $argv[1]\n" + valued +
         "    end\nend\n" + fish_begin + lines;
}

}  // namespace tarn::cli
