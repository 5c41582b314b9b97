// SPDX-License-Identifier: MIT
#include "cli/launch/command_line.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/show/cli_error.hpp"
#include "cli/show/text.hpp"

namespace tarn::cli {

namespace {

constexpr const char* common_group = "Common options";
constexpr std::size_t help_columns = 80;

class help_formatter : public CLI::Formatter {
 public:
  help_formatter() {
    column_width(28);
    label("Positionals", "Arguments");
  }

  std::string make_help(const CLI::App* app, std::string /*name*/,
                        CLI::AppFormatMode /*mode*/) const override {
    const command_text& text = dynamic_cast<const command&>(*app).text();
    std::string help = wrap(text.summary, help_columns) + "\nUsage: " + begin_lines(text.usage, "       ") +
                       "\n" + make_positionals(app);
    for (const char* group : {"Options", common_group}) {
      const auto options = app->get_options([group](const CLI::Option* option) {
        return option->get_group() == group && option->nonpositional();
      });
      if (!options.empty()) help += make_group(group, false, options);
    }
    help += "\n" + render_exits(text.exits);
    if (*text.examples != '\0') help += std::string("\nExamples:\n") + text.examples;
    if (*text.notes != '\0') help += std::string("\n") + text.notes;
    return help + fmt::format("\nMore: man tarn-{}, {}\n", text.name, text.page);
  }
  std::string make_option_name(const CLI::Option* option, bool is_positional) const override {
    return is_positional ? option->get_option_text() : option->get_name(false, true);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_option_text().empty() || option->get_positional() ? ""
                                                                         : " " + option->get_option_text();
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrap(option->get_description(), help_columns - get_column_width());
  }
};

// Set while a command is asked for its definition.
const std::function<void(const command& app)>* definition_taker = nullptr;

const CLI::Option* option_named(const command& app, const std::string& name) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string> names = names_of(option);
    if (std::find(names.begin(), names.end(), name) != names.end()) return option;
  }
  return nullptr;
}

std::string see_help(const command& app) { return fmt::format("See: tarn {} --help", app.get_name()); }

std::string first_usage(const command& app) {
  const std::string usage = app.text().usage;
  return "Usage: " + usage.substr(0, usage.find('\n'));
}

[[noreturn]] void refuse(const std::string& problem, const std::string& advice) {
  throw cli_error(exit_code::usage, problem, advice);
}

[[noreturn]] void refuse_unknown(const command& app, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) {
    for (std::string& name : names_of(option)) known.push_back(std::move(name));
  }
  const std::string name = word.substr(0, word.find('='));
  const std::string near = name.size() < 3 ? "" : nearest_word(name, known);
  refuse(fmt::format("unknown option '{}'", name),
         (near.empty() ? "" : fmt::format("Did you mean '{}'? ", near)) +
             fmt::format("All options: tarn {} --help", app.get_name()));
}

[[noreturn]] void refuse_without_value(const CLI::Option* option, const std::string& name) {
  refuse(fmt::format("{} needs a value", name),
         fmt::format("{} {}: {}", name, option->get_option_text(), option->get_description()));
}

// Refuses unknown options, and missing and empty values, of which CLI11's own messages say less.
void check_words(const command& app, const std::vector<std::string>& words) {
  for (std::size_t index = 0; index < words.size() && words[index] != "--"; ++index) {
    const std::string& word = words[index];
    if (word.size() < 2 || word.front() != '-') continue;
    const auto require_next = [&](const CLI::Option* option, const std::string& name) {
      if (index + 1 == words.size() || words[index + 1] == "--" || words[index + 1].empty())
        refuse_without_value(option, name);
      ++index;
    };
    if (word[1] == '-') {
      const std::size_t equals = word.find('=');
      const std::string name = word.substr(0, equals);
      const CLI::Option* const option = option_named(app, name);
      if (option == nullptr) refuse_unknown(app, word);
      if (!takes_value(option) && equals != std::string::npos)
        refuse(fmt::format("{} takes no value", name), see_help(app));
      if (takes_value(option) && equals == word.size() - 1) refuse_without_value(option, name);
      if (takes_value(option) && equals == std::string::npos) require_next(option, name);
      continue;
    }
    for (std::size_t letter = 1; letter < word.size(); ++letter) {
      const std::string name = {'-', word[letter]};
      const CLI::Option* const option = option_named(app, name);
      if (option == nullptr) refuse_unknown(app, word);
      if (!takes_value(option)) continue;
      if (letter + 1 == word.size()) require_next(option, name);
      break;
    }
  }
}

std::string shown_name(const CLI::Option* option) {
  return option->get_positional() ? option->get_option_text() : option->get_name();
}

// The message for an error of CLI11 that follows from which options are given together.
void refuse_combination(const command& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) {
      if (option->get_required()) {
        refuse(fmt::format("{} is missing", option->get_positional()
                                                ? shown_name(option)
                                                : option->get_name() + " " + option->get_option_text()),
               first_usage(app));
      }
      continue;
    }
    for (const CLI::Option* other : option->get_needs()) {
      if (other->count() == 0)
        refuse(fmt::format("{} requires {}", shown_name(option), shown_name(other)), see_help(app));
    }
    for (const CLI::Option* other : option->get_excludes()) {
      if (other->count() != 0)
        refuse(fmt::format("{} and {} cannot be used together", shown_name(option), shown_name(other)),
               "Omit one of them.");
    }
  }
}

[[noreturn]] void refuse_parsed(const command& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ValidationError*>(&error) != nullptr) {
    const std::size_t advice = text.rfind("\nDid you mean ");
    refuse(text.substr(0, advice),
           (advice == std::string::npos ? "" : text.substr(advice + 1) + " ") + see_help(app));
  }
  refuse_combination(app);
  const std::vector<std::string> extra = app.remaining();
  if (!extra.empty()) {
    refuse(fmt::format("unexpected word '{}'", extra.front()), first_usage(app));
  }
  refuse(text.substr(0, text.find('\n')), see_help(app));
}

}  // namespace

std::vector<std::string> names_of(const CLI::Option* option) {
  std::vector<std::string> names;
  for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  return names;
}

bool takes_value(const CLI::Option* option) { return option->get_items_expected_max() != 0; }

std::string list_entry(const std::string& name, std::string_view text, std::size_t column) {
  return "  " + pad_right(name, column - 2) +
         begin_lines(wrap(text, help_columns - column), std::string(column, ' ')) + "\n";
}

std::string render_exits(std::span<const exit_meaning> exits) {
  std::string text = "Exit codes:\n";
  for (const exit_meaning& each : exits) text += list_entry(each.code_text(), each.meaning, 9);
  return text;
}

void require_fitting(const std::vector<limited_option>& options, std::string_view use,
                     std::string_view verb) {
  for (const limited_option& each : options) {
    const auto& uses = each.uses;
    if (each.option->count() == 0 || std::find(uses.begin(), uses.end(), use) != uses.end()) continue;
    const std::string name =
        each.option->get_positional() ? each.option->get_option_text() : names_of(each.option).front();
    const bool is_usual = std::find(uses.begin(), uses.end(), "") != uses.end();
    const std::vector<std::string> needed(uses.begin(), uses.end());
    throw cli_error(exit_code::usage,
                    is_usual ? fmt::format("{} and {} cannot be used together", use, name)
                             : fmt::format("{} requires {}", name, join(needed, " or ")),
                    fmt::format("See: tarn {} --help", verb));
  }
}

command::command(const command_text& text) : CLI::App(text.summary, text.name), text_(text) {
  formatter(std::make_shared<help_formatter>());
  get_help_ptr()->description("Print this help and exit")->group(common_group);
  option("--color WHEN", colour_,
         "Colour: auto (the default: on a terminal, unless NO_COLOR is set), always or never",
         one_of({"auto", "always", "never"}))
      ->group(common_group);
  set_version_flag("-V,--version", std::string("tarn ") + TARN_CLI_VERSION, "Print the version and exit")
      ->group(common_group);
}

std::vector<std::string> command::words_of(const CLI::Option* option) const {
  const auto known = words_.find(option);
  return known == words_.end() ? std::vector<std::string>{} : known->second;
}

void define_command(int (*run)(const std::vector<std::string>& words),
                    const std::function<void(const command& app)>& take) {
  definition_taker = &take;
  run({});
  definition_taker = nullptr;
}

command_line split_command_line(const std::vector<std::string>& words, const command& app) {
  command_line line;
  std::size_t index = 0;
  while (index < words.size()) {
    const std::string& word = words[index];
    if (word == "--") {
      ++index;
      break;
    }
    if (word.size() < 2 || word.front() != '-') break;
    line.options.push_back(word);
    ++index;
    const CLI::Option* const option = option_named(app, word);
    if (option != nullptr && takes_value(option) && index < words.size() && words[index] != "--")
      line.options.push_back(words[index++]);
  }
  line.program.assign(words.begin() + static_cast<std::ptrdiff_t>(index), words.end());
  return line;
}

bool parse_options(command& app, const std::vector<std::string>& options) {
  if (definition_taker != nullptr) {
    (*definition_taker)(app);
    return false;
  }
  check_words(app, options);
  // CLI11 expects the words in reverse order.
  std::vector<std::string> words(options.rbegin(), options.rend());
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return false;
  } catch (const CLI::ParseError& error) {
    refuse_parsed(app, error);
  }
  choose_colour(app.colour());
  return true;
}

std::optional<pid_t> process_id(const std::string& word) {
  pid_t process = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), process);
  if (error != std::errc() || end != word.data() + word.size() || process <= 0) return std::nullopt;
  return process;
}

void require_program(const command_line& line, std::string_view command) {
  if (line.program.empty()) refuse("no program given", fmt::format("For example: tarn {} -- ls -l", command));
}

}  // namespace tarn::cli
