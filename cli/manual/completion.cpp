// SPDX-License-Identifier: MIT
#include "cli/manual/manual.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>

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
      if (valued == nullptr) return "\n";
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

}  // namespace

std::string completion_of(std::span<const verb> verbs, const std::vector<std::string>& words) {
  return asked_line(verbs, words).answer();
}

}  // namespace tarn::cli
