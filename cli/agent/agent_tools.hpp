// SPDX-License-Identifier: MIT
// agent_tools: what an agent can ask for. Each tool is a verb of the command, with those of its options that an agent needs; what
// it answers is the verb's own JSON, within the budget of an answer. Pure functions; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace tarn::cli {

enum class value_kind { text, path, words, paths, whole, number, choice };

struct tool_parameter {
  const char* name;
  value_kind kind;
  // "--rows": the verb's option; "": its positional argument; "--": what follows "--"; null: not for the verb, see tool_call.
  const char* option;
  const char* help;
  bool is_required = false;
  std::vector<std::string> choices = {};
};

struct agent_tool {
  const char* verb;  // and the tool's name
  const char* description;
  bool runs_programs;
  double limit_seconds;  // of the verb, where none is asked for
  std::vector<tool_parameter> parameters;
  std::vector<const char*>
      omitted;       // JSON pointers into the verb's answer: what another tool gives, or no agent needs
  const char* rows;  // the member that the parameter skip counts in; "": none
};

std::span<const agent_tool> agent_tools();
const agent_tool* find_tool(const std::string& name);  // null: there is none
nlohmann::json as_json(const agent_tool& tool);        // as tools/list has it

// What the client gives for a tool is not what the tool takes; says so for the client to read.
struct argument_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct tool_call {
  const agent_tool* tool = nullptr;
  std::vector<std::string> words;  // the verb and what follows it
  std::string folder;              // to run in; "": this one
  std::string input;               // standard input; "": empty
  double limit_seconds = 0;
  std::size_t skip = 0;
};

// Throws argument_error.
tool_call call_of(const agent_tool& tool, const nlohmann::json& arguments);

struct verb_outcome {
  std::string output;
  std::string errors;          // the end of what was written to stderr
  std::string program_errors;  // the same of the recorded program, and of what it has started
  int wait_status = 0;
  std::string cut_short;  // why the verb was ended; "": it was not
};

struct tool_answer {
  std::string text;
  bool is_error = false;
};
tool_answer answer_of(const tool_call& call, const verb_outcome& outcome);

}  // namespace tarn::cli
