// SPDX-License-Identifier: MIT
#include "cli/agent/agent_tools.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/agent/answer_budget.hpp"
#include "cli/agent/rpc_message.hpp"
#include "cli/compare/own_command.hpp"
#include "cli/show/json_output.hpp"
#include "cli/show/text.hpp"
#include "profiler/format/printable.hpp"

namespace tarn::cli {

namespace {

using profiler::printable;

constexpr double quick_limit_seconds = 120;  // for what reads files
constexpr double most_limit_seconds = 24.0 * 3600;
constexpr std::size_t most_messages_bytes = 1500;
constexpr std::size_t most_words = 10000;

const tool_parameter profile_parameter = {
    "profile", value_kind::path, "", "Path of a profile: \"files\" in the answer of the tool profile", true};
const tool_parameter metric_parameter = {
    "metric",   value_kind::choice,
    "--metric", "What to sort by (cost: time of malloc, free and the kernel for them)",
    false,      {"cost", "malloc", "hidden", "faults", "allocations", "bytes", "live", "live_bytes", "peak"}};
const tool_parameter rows_parameter = {"rows", value_kind::whole, "--rows", "At most so many places (20)"};
const tool_parameter skip_parameter = {"skip", value_kind::whole, nullptr,
                                       "Leave out so many rows, which an earlier answer had"};

const std::vector<agent_tool>& table() {
  static const std::vector<agent_tool> tools = {
      {"profile",
       "Step 1, find. Runs a program under tarn's recorder and writes a profile of its memory allocation: who allocates, "
       "what it costs, what stays. The program's output is discarded. Build it with -g. Answers with the profile's path, how "
       "the program ended, and the costliest places. At the limit of time the program gets SIGTERM, 5 s later "
       "SIGKILL, and what was recorded until then is written.",
       true,
       quick_limit_seconds,
       {{"command", value_kind::words, "--", "The program and its arguments, without a shell", true},
        {"mode",
         value_kind::choice,
         "--mode",
         "sample (the default; 5 % slower), full (every call: exact counts, peak, leaks and sizes; 1.1 to 4 times the time; "
         "best for runs under a minute), faults (page faults only)",
         false,
         {"sample", "full", "faults"}},
        {"directory", value_kind::path, nullptr, "Where to run it, and where relative paths begin"},
        {"stdin", value_kind::path, nullptr, "File for its standard input (/dev/null)"},
        {"output", value_kind::text, "--output", "Path of the profile (tarn-PROGRAM-PID.prof)"},
        {"seconds", value_kind::number, nullptr, "Limit of time (120)"}},
       {"/program/advice"},
       ""},
      {"show",
       "Step 1, find. Lists the places of a profile. sites: who allocates, with all figures; tree: cost by call path; rss: what the "
       "resident memory consists of; leaks: blocks that nothing points to any more (mode full, program ended by exit); pinned: "
       "few live blocks that keep much free memory.",
       false,
       quick_limit_seconds,
       {profile_parameter,
        {"by",
         value_kind::choice,
         "--by",
         "The view (sites)",
         false,
         {"sites", "tree", "rss", "leaks", "pinned"}},
        metric_parameter,
        rows_parameter,
        {"filter", value_kind::text, "--filter",
         "sites, pinned: only with this text in a function, file or type"},
        {"min_percent", value_kind::number, "--min", "tree: leave out branches below this share (1)"},
        {"depth", value_kind::whole, "--depth", "tree: at most so many levels"},
        skip_parameter},
       {},
       "sites"},
      {"advise",
       "Step 2, advise. What to change in the recorded program to make its memory allocation cheaper: place, reason, the "
       "lines to write, what the places cost now. Nothing is predicted; prove measures. Leaks and memory that only grows are "
       "not costs: see show by leaks, and metric live_bytes.",
       false,
       quick_limit_seconds,
       {profile_parameter,
        {"min_percent", value_kind::number, "--min",
         "Leave places alone that cost less than this share of CPU time (2)"},
        skip_parameter},
       {},
       "advice"},
      {"prove",
       "Step 3, after the edit. Runs the recorded program again and again, in random order with a changed one, and says what the "
       "change saves in CPU time, wall time, peak memory and page faults, with bounds that hold with 95 %. With build: the edited "
       "program, built to another path than the recorded one. Without: every malloc and setting that needs no edit.",
       true,
       600,
       {profile_parameter,
        {"build", value_kind::text, "--with-build",
         "The edited program: its path, or a command line of a shell"},
        {"seconds", value_kind::number, "--for", "Limit of time (12 times the program's, at least 4)"},
        {"only", value_kind::text, "--only",
         "Only these ways: tarn,jemalloc,keep-memory,huge-pages,pool-1,..."},
        {"load", value_kind::text, "--load",
         "The program is a server; this shell command is its load, a fixed amount of work"},
        {"ready_port", value_kind::whole, "--ready-port", "With load: ready when this TCP port answers"}},
       {"/runs", "/advice"},
       ""},
      {"diff",
       "Step 3, after the edit. What changed between recordings of the program before and after: calls, bytes, peak, "
       "what stays live, cost. Counts of mode full are exact with one recording each; times need several (profile again).",
       false,
       quick_limit_seconds,
       {{"before", value_kind::paths, "", "Profiles of the program before the change", true},
        {"after", value_kind::paths, "--", "Profiles of the program after it", true},
        metric_parameter,
        rows_parameter,
        skip_parameter},
       {},
       "sites"}};
  return tools;
}

nlohmann::json schema_of(const tool_parameter& parameter) {
  nlohmann::json schema = {{"description", parameter.help}};
  switch (parameter.kind) {
    case value_kind::words:
    case value_kind::paths:
      schema.update({{"type", "array"}, {"items", {{"type", "string"}}}, {"minItems", 1}});
      break;
    case value_kind::whole: schema.update({{"type", "integer"}, {"minimum", 0}}); break;
    case value_kind::number: schema.update({{"type", "number"}, {"minimum", 0}}); break;
    default: schema["type"] = "string";
  }
  if (!parameter.choices.empty()) schema["enum"] = parameter.choices;
  return schema;
}

[[noreturn]] void refuse(const tool_parameter& parameter, const std::string& what) {
  throw argument_error(fmt::format("the argument {} must be {}", parameter.name, what));
}

std::string text_of(const tool_parameter& parameter, const nlohmann::json& value, const char* what) {
  if (!value.is_string()) refuse(parameter, what);
  std::string text = value.get<std::string>();
  if (text.find('\0') != std::string::npos) refuse(parameter, "without zero bytes");
  return text;
}

// A path begins with "/", so that it is taken for no option.
std::string path_of(const std::string& text) {
  return text.empty() ? text : std::filesystem::absolute(text).string();
}

std::vector<std::string> words_of(const tool_parameter& parameter, const nlohmann::json& value) {
  constexpr const char* what = "an array of texts that are not all empty";
  if (!value.is_array() || value.empty() || value.size() > most_words) refuse(parameter, what);
  std::vector<std::string> words;
  for (const nlohmann::json& each : value) {
    words.push_back(text_of(parameter, each, what));
    if (parameter.kind == value_kind::paths) words.back() = path_of(words.back());
  }
  if (words.front().empty()) refuse(parameter, what);
  return words;
}

// What the verb's own check of the option then sees.
std::string word_of(const tool_parameter& parameter, const nlohmann::json& value) {
  switch (parameter.kind) {
    case value_kind::whole:
      if (!value.is_number_unsigned()) refuse(parameter, "a whole number, 0 or more");
      return std::to_string(value.get<std::uint64_t>());
    case value_kind::number:
      if (!value.is_number() || !(value.get<double>() >= 0)) refuse(parameter, "a number, 0 or more");
      if (std::string_view(parameter.name) == "seconds" && value.get<double>() == 0)
        refuse(parameter, "a number above 0");
      return fmt::format("{}", value.get<double>());
    case value_kind::choice: {
      std::string word = text_of(parameter, value, "a text");
      if (std::find(parameter.choices.begin(), parameter.choices.end(), word) == parameter.choices.end())
        refuse(parameter, "one of " + join(parameter.choices, ", "));
      return word;
    }
    case value_kind::path: {
      const std::string path = text_of(parameter, value, "a path");
      if (path.empty()) refuse(parameter, "a path that is not empty");
      return path_of(path);
    }
    default: return text_of(parameter, value, "a text");
  }
}

void require_known(const agent_tool& tool, const nlohmann::json& arguments) {
  for (const auto& [name, value] : arguments.items()) {
    const bool is_known = std::any_of(tool.parameters.begin(), tool.parameters.end(),
                                      [&name](const tool_parameter& each) { return each.name == name; });
    if (is_known) continue;
    std::vector<std::string> names;
    for (const tool_parameter& each : tool.parameters) names.emplace_back(each.name);
    throw argument_error(fmt::format("{} has no argument {}; it has {}", tool.verb,
                                     cut_to_width(printable(name), 60), join(names, ", ")));
  }
}

// What this process does itself with an argument.
void set_own(tool_call& call, const std::string& name, const std::string& word) {
  if (name == "directory") call.folder = word;
  if (name == "stdin") call.input = word;
  if (name == "skip") call.skip = std::stoull(word);
  if (name == "seconds") call.limit_seconds = std::clamp(std::stod(word), 0.1, most_limit_seconds);
}

// As a person would give it to a shell.
std::string shell_line(const std::vector<std::string>& words) {
  std::string line = "tarn";
  for (const std::string& word : words)
    line += " " + (word.find_first_of(" \t\n'\"\\$`!*?[]{}()<>|&;#~") == std::string::npos ? printable(word)
                                                                                           : quoted(word));
  return line;
}

std::string how_to_see_all(const tool_call& call) {
  if (call.tool->runs_programs) return "the profile has it: ask show and advise about the file";
  const std::string next = *call.tool->rows != '\0' ? "the next rows: skip; fewer: " : "less at once: ";
  return next + "rows, filter, min_percent or depth where the tool has them; all: " + shell_line(call.words);
}

bool is_recording(const tool_call& call) { return std::string_view(call.tool->verb) == "profile"; }

std::string end_of(std::string text, std::size_t bytes) {
  if (text.size() > bytes) text = "…" + text.substr(text.size() - bytes);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return printable(text);
}

// The last line that is a JSON object; null: there is none.
nlohmann::json last_object(const std::string& text) {
  for (std::size_t end = text.size(); end > 0;) {
    const std::size_t begin = text.rfind('\n', end - 1);
    const std::size_t first = begin == std::string::npos ? 0 : begin + 1;
    std::optional<nlohmann::json> found = parse_shallow(std::string_view(text).substr(first, end - first));
    if (found && found->is_object()) return std::move(*found);
    if (first == 0) break;
    end = first - 1;
  }
  return nullptr;
}

// The verb's JSON; null: it gave none.
nlohmann::json object_of(const tool_call& call, const verb_outcome& outcome) {
  nlohmann::json found = is_recording(call) ? last_object(outcome.errors)
                                            : nlohmann::json::parse(outcome.output, nullptr, false);
  return found.is_object() && (!is_recording(call) || found.contains("files")) ? std::move(found) : nullptr;
}

void skip_rows(nlohmann::json& object, const tool_call& call) {
  if (call.skip == 0 || !object.contains(call.tool->rows)) return;
  nlohmann::json& rows = object[call.tool->rows];
  const auto count = static_cast<nlohmann::json::difference_type>(std::min(call.skip, rows.size()));
  rows.erase(rows.begin(), rows.begin() + count);
  object["skipped"] = count;
}

// Relative ones are relative to where the program ran.
void make_paths_absolute(nlohmann::json& object, const std::string& folder) {
  for (nlohmann::json& file : object["files"]) {
    if (!file.contains("path") || !file["path"].is_string()) continue;
    file["path"] = std::filesystem::absolute(std::filesystem::path(folder) / file["path"].get<std::string>());
  }
}

tool_answer failure_of(const tool_call& call, const verb_outcome& outcome) {
  nlohmann::json object = last_object(outcome.errors);
  if (outcome.errors.empty()) {
    object = {
        {"error",
         {{"problem", fmt::format("tarn {} ended without an answer", call.tool->verb)},
          {"advice",
           "See whether the program ends other processes, as by kill or pkill, or memory ran out (dmesg); "
           "then call again."}}}};
  } else if (!object.is_object() || !object.contains("error")) {
    object = {{"error", end_of(outcome.errors, most_messages_bytes)}};
  }
  if (!outcome.cut_short.empty()) object["error"] = outcome.cut_short;
  object["ended"] = format_exit(outcome.wait_status);
  if (!outcome.program_errors.empty()) object["stderr"] = end_of(outcome.program_errors, most_messages_bytes);
  return {fitting_text(std::move(object), shell_line(call.words)), true};
}

}  // namespace

std::span<const agent_tool> agent_tools() { return table(); }

const agent_tool* find_tool(const std::string& name) {
  const auto found = std::find_if(table().begin(), table().end(),
                                  [&name](const agent_tool& each) { return each.verb == name; });
  return found == table().end() ? nullptr : &*found;
}

nlohmann::json as_json(const agent_tool& tool) {
  nlohmann::json properties = nlohmann::json::object();
  nlohmann::json required = nlohmann::json::array();
  for (const tool_parameter& each : tool.parameters) {
    properties[each.name] = schema_of(each);
    if (each.is_required) required.push_back(each.name);
  }
  return {{"name", tool.verb},
          {"description", tool.description},
          {"inputSchema",
           {{"type", "object"},
            {"properties", properties},
            {"required", required},
            {"additionalProperties", false}}},
          {"annotations", {{"readOnlyHint", !tool.runs_programs}, {"openWorldHint", tool.runs_programs}}}};
}

tool_call call_of(const agent_tool& tool, const nlohmann::json& arguments) {
  if (!arguments.is_object()) throw argument_error("the arguments must be an object");
  require_known(tool, arguments);
  tool_call call{&tool, {tool.verb, "--json"}, "", "", tool.limit_seconds, 0};
  std::vector<std::string> positional, after;
  for (const tool_parameter& each : tool.parameters) {
    const auto given = arguments.find(each.name);
    if (given == arguments.end()) {
      if (each.is_required) throw argument_error(fmt::format("the argument {} is missing", each.name));
      continue;
    }
    const bool is_list = each.kind == value_kind::words || each.kind == value_kind::paths;
    const std::vector<std::string> words =
        is_list ? words_of(each, *given) : std::vector{word_of(each, *given)};
    const std::string_view option = each.option != nullptr ? each.option : "";
    if (each.option == nullptr) {
      set_own(call, each.name, words.front());
    } else if (option == "--") {
      after = words;
    } else if (option.empty()) {
      positional.insert(positional.end(), words.begin(), words.end());
    } else {
      call.words.push_back(fmt::format("{}={}", option, words.front()));
      // The verb's own limit is for its measuring; it also starts, reads and writes.
      if (option == "--for")
        call.limit_seconds =
            std::clamp(2 * std::stod(words.front()) + 60, call.limit_seconds, most_limit_seconds);
    }
  }
  call.words.insert(call.words.end(), positional.begin(), positional.end());
  if (!after.empty()) call.words.emplace_back("--");
  call.words.insert(call.words.end(), after.begin(), after.end());
  return call;
}

tool_answer answer_of(const tool_call& call, const verb_outcome& outcome) {
  nlohmann::json object = object_of(call, outcome);
  if (object.is_null()) return failure_of(call, outcome);
  for (const char* place : call.tool->omitted) {
    const nlohmann::json::json_pointer at(place);
    if (object.contains(at)) object[at.parent_pointer()].erase(at.back());
  }
  skip_rows(object, call);
  if (is_recording(call)) make_paths_absolute(object, call.folder);
  if (!is_recording(call) && !outcome.errors.empty())
    object["messages"] = end_of(outcome.errors, most_messages_bytes);
  // What a program writes matters only if it failed.
  if (outcome.wait_status != 0 && !outcome.program_errors.empty())
    object["stderr"] = end_of(outcome.program_errors, most_messages_bytes);
  if (!outcome.cut_short.empty()) object["cut_short"] = outcome.cut_short;
  return {fitting_text(std::move(object), how_to_see_all(call)), false};
}

}  // namespace tarn::cli
