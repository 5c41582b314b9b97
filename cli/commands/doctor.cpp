// SPDX-License-Identifier: MIT
// tarn doctor: which features of this system profiling can use, and how to enable others.
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
#include "cli/launch/facilities.hpp"
#include "cli/launch/library_search.hpp"
#include "cli/show/cli_error.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "cli/show/text_table.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

// tarn doctor --options: the library's options with their effective values. The answer comes from the
// library itself, preloaded into a child of this command, so it is what every program would get.

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
  write_message(answer.errors);
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

void print_table(const nlohmann::json& answer) {
  const bool colour = wants_colour(STDOUT_FILENO);
  text_table table({"variable", "value", "default", "set by"}, {0, 1, 2, 3});
  for (const nlohmann::json& option : answer["options"]) {
    std::vector<table_cell> cells;
    for (const char* cell : {"variable", "value", "default", "source"})
      cells.push_back({profiler::printable(option[cell].get<std::string>()),
                       option["source"] == "default" ? style::plain : style::good});
    table.add(std::move(cells));
  }
  fmt::print("{}\n", table.heading(colour));
  for (std::size_t index = 0; index < table.rows(); ++index) {
    const nlohmann::json& option = answer["options"][index];
    print_text(fmt::format("{}\n    {}\n    Accepts: {}.\n", table.row(index, colour),
                           sentence(option["meaning"]), option["accepts"].get<std::string>()));
  }
  fmt::print("\ntarn {}, {}\n", answer["version"].get<std::string>(),
             profiler::printable(answer["library"].get<std::string>()));
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

namespace {

constexpr exit_meaning doctor_exits[] = {{0, "a profile is complete; with --options: shown"},
                                         {1, "something is missing"},
                                         usage_exit,
                                         refused_exit};

constexpr command_text doctor_text = {
    .name = "doctor",
    .summary = "Show what a profile can record on this system, and tarn's options in effect.",
    .usage = "tarn doctor [--options] [--json]",
    .examples =
        "  tarn doctor                               what works here, how to get more\n"
        "  TARN_DECAY_MS=5000 tarn doctor --options  every option and its value in effect\n"
        "  TARN_DECAY_MS=5000 tarn run -- ./server   run a program with it\n",
    .notes =
        "Tries everything that `tarn profile` would use, and says what a profile would\n"
        "lack.\n"
        "\n"
        "Options of tarn's malloc are set by environment variables before the program\n"
        "starts. In a process that runs: tarn control PID\n",
    .exits = doctor_exits,
    .page = "docs/reference/profiling.md",
};

struct mark {
  const char* text;
  style how;
};
// By `standing`.
constexpr mark marks[] = {
    {"ok     ", style::good}, {"partly ", style::bold}, {"missing", style::bad}, {"       ", style::faint}};

}  // namespace

int cmd_doctor(const std::vector<std::string>& words) {
  command app(doctor_text);
  bool options = false, json = false;
  app.add_flag("--options", options, "Show tarn's options with their effective values instead");
  app.add_flag("--json", json, "Print the same as one JSON object");
  if (!parse_options(app, words)) return exit_code::success;
  if (options) return show_options(json);
  const std::vector<facility> all = look_at_facilities();
  const bool whole = std::none_of(all.begin(), all.end(), [](const facility& one) {
    return one.how == standing::missing || one.how == standing::partly;
  });
  if (json) {
    const nlohmann::json object = {
        {"facilities", as_json(all)}, {"kernel", kernel_name()}, {"complete", whole}};
    print_json_object(object);
    return whole ? exit_code::success : 1;
  }
  const bool colour = wants_colour(STDOUT_FILENO);
  std::size_t width = 0;
  for (const facility& one : all) width = std::max(width, display_width(one.name));
  for (const facility& one : all) {
    const mark& found = marks[static_cast<int>(one.how)];
    print_text(fmt::format("{}  {}  {}\n", paint(found.text, found.how, colour), pad_right(one.name, width),
                           one.state));
    if (!one.missing.empty()) print_text(fmt::format("         a profile misses: {}\n", one.missing));
    if (!one.remedy.empty()) print_text(fmt::format("         to get it: {}\n", one.remedy));
  }
  fmt::print("\n{}\n", whole ? "A profile recorded here is complete."
                             : "A profile recorded here says itself what it does not contain.");
  return whole ? exit_code::success : 1;
}

}  // namespace tarn::cli
