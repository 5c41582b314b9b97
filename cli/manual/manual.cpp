// SPDX-License-Identifier: MIT
#include "cli/manual/manual.hpp"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <string_view>

#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr exit_meaning overview_exits[] = {
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

constexpr const char* overview_examples =
    "  tarn run --stats -- make\n"
    "  tarn compare -- ./my_program input.dat\n"
    "  tarn profile -o run.prof -- ./my_program input.dat\n"
    "  tarn show run.prof; tarn report run.prof --open\n"
    "  tarn advise run.prof; tarn prove run.prof\n";

}  // namespace

void define_all(std::span<const verb> verbs, const std::function<void(const command& app)>& take) {
  for (const verb& each : verbs) define_command(each.run, take);
}

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
    text += list_entry(name, phrase, 11);
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

namespace {

// One character of UTF-8 as its number; `text` begins with it.
unsigned long code_point_of(std::string_view text, std::size_t& bytes) {
  const auto first = static_cast<unsigned char>(text[0]);
  bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  unsigned long code = bytes == 1 ? first : first & (0xffU >> (bytes + 1));
  for (std::size_t index = 1; index < bytes && index < text.size(); ++index)
    code = code << 6 | (static_cast<unsigned char>(text[index]) & 0x3fU);
  return code;
}

// Text as it is to be printed: all dashes are those that can be typed.
std::string escaped(std::string_view text) {
  std::string result;
  bool line_begins = true;
  while (!text.empty()) {
    std::size_t bytes = 1;
    const unsigned long code = code_point_of(text, bytes);
    const char letter = text[0];
    if (line_begins && (letter == '.' || letter == '\'')) result += "\\&";
    if (letter == '-') {
      result += "\\-";
    } else if (letter == '\\') {
      result += "\\e";
    } else if (letter == '\'') {
      result += "\\(aq";
    } else if (letter == '`') {
      result += "\\(ga";
    } else if (letter == '^') {
      result += "\\(ha";
    } else if (letter == '~') {
      result += "\\(ti";
    } else if (code < 0x80) {
      result += letter;
    } else {
      result += fmt::format("\\[u{:04X}]", code);
    }
    line_begins = letter == '\n';
    text.remove_prefix(std::min(bytes, text.size()));
  }
  return result;
}

// Text in short lines: mandoc complains about lines of more than 80 bytes.
std::string filled(std::string_view text) {
  constexpr std::size_t columns = 60;
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return escaped(wrap(line, columns));
}

std::string sentence(std::string_view text) { return filled(text) + (text.ends_with('.') ? "\n" : ".\n"); }

// Lines exactly as they are, without the two blanks before each.
std::string literal_lines(std::string_view text) {
  std::string result = ".EX\n";
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.starts_with("  ")) line.remove_prefix(2);
    result += escaped(line) + "\n";
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return result + ".EE\n";
}

// Paragraphs, separated by empty lines; one that begins with blanks is a table, whose lines stay.
std::string paragraphs(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find("\n\n"), text.size());
    std::string_view one = text.substr(0, end);
    while (one.ends_with('\n')) one.remove_suffix(1);
    result += ".PP\n" + (one.starts_with("  ") ? literal_lines(one) : filled(one) + "\n");
    text.remove_prefix(std::min(text.size(), end + 2));
  }
  return result;
}

std::string page_date() {
  std::time_t now = std::time(nullptr);
  if (const char* const epoch = std::getenv("SOURCE_DATE_EPOCH")) now = std::strtoll(epoch, nullptr, 10);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

std::string heading(const std::string& name, const std::string& phrase) {
  std::string capitals = name;
  for (char& letter : capitals) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  return fmt::format(
      ".\\\" Made from the command's own definition of its options.\n"
      ".TH {} 1 {} \"tarn {}\" \"User Commands\"\n"
      ".SH NAME\n{} \\- {}\n",
      escaped(capitals), page_date(), TARN_CLI_VERSION, escaped(name), filled(phrase));
}

std::string synopsis(std::string_view usage) {
  std::string text = ".SH SYNOPSIS\n";
  bool first = true;
  while (!usage.empty()) {
    const std::size_t end = std::min(usage.find('\n'), usage.size());
    std::string_view line = usage.substr(0, end);
    text += first ? "" : ".br\n";
    text += ".B " + escaped(line.substr(0, line.find(' ', line.find(' ') + 1))) + "\n";
    const std::size_t rest = line.find(' ', line.find(' ') + 1);
    if (rest != std::string_view::npos) text += escaped(line.substr(rest + 1)) + "\n";
    usage.remove_prefix(std::min(usage.size(), end + 1));
    first = false;
  }
  return text;
}

std::string option_entry(const CLI::Option* option) {
  std::string names;
  for (const std::string& name : names_of(option))
    names += (names.empty() ? "\\fB" : ", \\fB") + escaped(name) + "\\fR";
  const std::string value = "\\fI" + escaped(option->get_option_text()) + "\\fR";
  if (option->get_positional())
    names = value;
  else if (takes_value(option))
    names += " " + value;
  return ".TP\n" + names + "\n" + sentence(option->get_description());
}

std::string option_list(const command& app) {
  std::string arguments, own, common;
  for (const CLI::Option* option : app.get_options()) {
    std::string& list = option->get_positional()           ? arguments
                        : option->get_group() == "Options" ? own
                                                           : common;
    list += option_entry(option);
  }
  return (arguments.empty() ? "" : ".SH ARGUMENTS\n" + arguments) + ".SH OPTIONS\n" + own +
         (own.empty() ? "" : ".SS Common options\n") + common;
}

std::string exit_list(std::span<const exit_meaning> exits) {
  std::string text = ".SH EXIT STATUS\n";
  for (const exit_meaning& each : exits) {
    const std::string code =
        each.code == exit_meaning::of_program ? "\\fIother\\fR" : fmt::format("\\fB{}\\fR", each.code);
    text += ".TP\n" + code + "\n" + sentence(each.meaning);
  }
  return text;
}

}  // namespace

std::string man_page(const command& app) {
  const command_text& text = app.text();
  std::string page = heading(std::string("tarn-") + text.name, phrase_of(app)) + synopsis(text.usage);
  page += ".SH DESCRIPTION\n" + sentence(text.summary) + paragraphs(text.notes);
  page += option_list(app) + exit_list(text.exits);
  if (*text.examples != '\0') page += ".SH EXAMPLES\n" + literal_lines(text.examples);
  page += ".SH SEE ALSO\n.BR tarn (1)\n.PP\n" + escaped(text.page) + "\n";
  return page;
}

std::string overview_man_page(std::span<const verb> verbs) {
  std::string page =
      heading("tarn", "a memory toolkit for C and C++ programs") + synopsis("tarn COMMAND ...");
  page +=
      ".SH DESCRIPTION\n"
      "Starts programs on tarn\\(aqs malloc, measures them under several mallocs,\n"
      "and shows what memory allocation costs them and where.\n"
      "Words after \\fB\\-\\-\\fR belong to the program.\n"
      ".SH COMMANDS\n";
  std::string pages;
  define_all(verbs, [&](const command& app) {
    page += ".TP\n\\fB" + escaped(app.get_name()) + "\\fR\n" + sentence(app.text().summary);
    pages += (pages.empty() ? ".BR tarn\\-" : ",\n.BR tarn\\-") + escaped(app.get_name()) + " (1)";
  });
  page += ".TP\n\\fBhelp\\fR\nShow the commands, or the help of one: \\fBtarn help\\fR \\fICOMMAND\\fR.\n";
  page +=
      ".SH ENVIRONMENT\n"
      ".TP\n\\fBTARN_LIBRARY\\fR\nThe libtarn to preload, in place of the one beside the command.\n"
      ".TP\n\\fBTARN_RECORDER\\fR\nThe recorder to preload, in place of the one beside the command.\n"
      ".TP\n\\fBNO_COLOR\\fR\nIf it is not empty, no colour is used without \\fB\\-\\-color always\\fR.\n"
      ".TP\n\\fBBROWSER\\fR\nThe program that \\fBtarn report \\-\\-open\\fR starts.\n"
      ".TP\n\\fBDEBUGINFOD_URLS\\fR\nServers that are asked for debugging information by build\\-id.\n"
      ".PP\n"
      "Options of the library are variables, too:\n\\fBtarn doctor --options\\fR lists them.\n";
  page += exit_list(overview_exits);
  page += ".SH EXAMPLES\n" + literal_lines(overview_examples);
  return page + ".SH SEE ALSO\n" + pages + "\n";
}

}  // namespace tarn::cli
