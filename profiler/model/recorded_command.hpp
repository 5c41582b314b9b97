// SPDX-License-Identifier: MIT
// recorded_command: how the program of a profile was started, so that it can be started again. Stored in the table
// "command" of the program's own file; files of its child processes have none. Views do not show it.
//
// Values of environment variables may be secrets. Variables that affect memory allocation and loading are kept; of
// all others only the name and a 16-bit digest of the value, which shows that a value has changed, but not what it
// was. Pure functions and plain data; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

// Identifies the content of a file, to detect that it has changed.
struct file_identity {
  std::string build_id;  // of an ELF file that has one; then the other members are ignored
  std::uint64_t size = 0;
  std::uint64_t changed_ns = 0;  // since 1970

  bool operator==(const file_identity& other) const {
    if (!build_id.empty() || !other.build_id.empty()) return build_id == other.build_id;
    return size == other.size && changed_ns == other.changed_ns;
  }
};

enum class input_kind : std::uint8_t {
  nothing,
  file,
  terminal,
  pipe,
  device
};  // nothing: /dev/null, or closed

struct recorded_command {
  std::string path;  // the executed file
  file_identity identity = {};
  std::vector<std::string> words;  // argv, the program's name first
  std::string directory;
  input_kind input = input_kind::nothing;
  std::string input_path = {};
  file_identity input_identity = {};
  std::uint64_t input_offset = 0;
  bool output_to_nothing = false;                                   // standard output was /dev/null
  std::vector<std::pair<std::string, std::string>> variables = {};  // variables kept with their values
  std::map<std::string, std::uint16_t> digests = {};                // of the other variables' values
  std::string seal = {};  // by which its user knows it again (cli/compare/own_command.hpp); "": none
};

// Why runs of a profile's program cannot be compared with the recorded one, by how that ended; empty `problem`: they can.
struct repeat_refusal {
  std::string problem;
  bool is_server = false;  // they can under a load
};
repeat_refusal repeat_refusal_of(const nlohmann::json& meta);
// Whether a user or a service manager ends a program by this signal.
bool is_request_to_end(int signal);

bool is_kept_variable(std::string_view name);
std::uint16_t digest_of(std::string_view value);

table command_table(const recorded_command& command);
// Empty if the file has no such table. Throws profile_error as read_tables() does.
std::optional<recorded_command> load_command(const std::string& profile_path);

}  // namespace tarn::profiler
