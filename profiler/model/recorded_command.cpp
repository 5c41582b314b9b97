// SPDX-License-Identifier: MIT
#include "profiler/model/recorded_command.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iterator>

#include "base/fnv.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

constexpr std::string_view input_names[] = {"nothing", "file", "terminal", "pipe", "device"};

// Prefixes of variables that allocators and the dynamic loader read. None of these usually holds a secret.
constexpr std::string_view kept_prefixes[] = {
    "LD_",       "GLIBC_TUNABLES", "MALLOC_",    "TARN_", "PYTHONMALLOC",
    "MIMALLOC_", "TCMALLOC_",      "JE_MALLOC_", "LC_",   "LANG"};
// Variables that are valid for one start only.
constexpr std::string_view dropped_names[] = {"TARN_RECORD", "TARN_LIBRARY", "TARN_RECORDER"};

std::uint64_t number_of(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

class rows_writer {
 public:
  void add(std::string key, std::string value) {
    keys_.push_back(std::move(key));
    values_.push_back(std::move(value));
  }
  void add(const std::string& prefix, const file_identity& identity) {
    add(prefix + "build_id", identity.build_id);
    add(prefix + "size", std::to_string(identity.size));
    add(prefix + "changed_ns", std::to_string(identity.changed_ns));
  }
  table finish() {
    table rows{.name = "command", .rows = keys_.size(), .replaces = true};
    rows.columns.push_back({"key", std::move(keys_)});
    rows.columns.push_back({"value", std::move(values_)});
    return rows;
  }

 private:
  texts keys_;
  texts values_;
};

bool take_identity(file_identity& identity, std::string_view key, std::string_view prefix,
                   const std::string& value) {
  if (!key.starts_with(prefix)) return false;
  key.remove_prefix(prefix.size());
  if (key == "build_id") identity.build_id = value;
  if (key == "size") identity.size = number_of(value);
  if (key == "changed_ns") identity.changed_ns = number_of(value);
  return true;
}

std::pair<std::string, std::string> split_at_equals(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  return {text.substr(0, equals), equals < text.size() ? text.substr(equals + 1) : std::string()};
}

void take_input(recorded_command& command, const std::string& value) {
  const auto* found = std::find(std::begin(input_names), std::end(input_names), value);
  // A kind that this version does not know cannot be repeated.
  command.input = found != std::end(input_names) ? static_cast<input_kind>(found - std::begin(input_names))
                                                 : input_kind::device;
}

void take_row(recorded_command& command, const std::string& key, const std::string& value) {
  if (key == "path") command.path = value;
  if (key == "word") command.words.push_back(value);
  if (key == "directory") command.directory = value;
  if (key == "input") take_input(command, value);
  if (key == "input_path") command.input_path = value;
  if (key == "input_offset") command.input_offset = number_of(value);
  if (key == "output") command.output_to_nothing = value == "nothing";
  if (key == "variable") command.variables.push_back(split_at_equals(value));
  if (key == "seal") command.seal = value;
  if (key == "digest") {
    const auto [name, digest] = split_at_equals(value);
    command.digests[name] = static_cast<std::uint16_t>(number_of(digest));
  }
  if (take_identity(command.input_identity, key, "input_file_", value)) return;
  take_identity(command.identity, key, "program_", value);
}

}  // namespace

bool is_kept_variable(std::string_view name) {
  if (std::find(std::begin(dropped_names), std::end(dropped_names), name) != std::end(dropped_names))
    return false;
  return std::any_of(std::begin(kept_prefixes), std::end(kept_prefixes),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

std::uint16_t digest_of(std::string_view value) {
  const std::uint64_t hash = fnv().add(value).sum;
  return static_cast<std::uint16_t>(hash ^ (hash >> 16) ^ (hash >> 32) ^ (hash >> 48));
}

table command_table(const recorded_command& command) {
  rows_writer rows;
  rows.add("path", command.path);
  rows.add("program_", command.identity);
  for (const std::string& word : command.words) rows.add("word", word);
  rows.add("directory", command.directory);
  rows.add("input", std::string(input_names[static_cast<std::size_t>(command.input)]));
  if (command.input == input_kind::file) {
    rows.add("input_path", command.input_path);
    rows.add("input_file_", command.input_identity);
    rows.add("input_offset", std::to_string(command.input_offset));
  }
  rows.add("output", command.output_to_nothing ? "nothing" : "other");
  for (const auto& [name, value] : command.variables) rows.add("variable", name + "=" + value);
  for (const auto& [name, digest] : command.digests) rows.add("digest", name + "=" + std::to_string(digest));
  if (!command.seal.empty()) rows.add("seal", command.seal);
  return rows.finish();
}

std::optional<recorded_command> load_command(const std::string& profile_path) {
  std::optional<recorded_command> command;
  read_tables(
      profile_path,
      [&command](table&& rows) {
        const texts& keys = rows.text("key");
        const texts& values = rows.text("value");
        command.emplace();
        for (std::size_t row = 0; row < rows.rows; ++row) take_row(*command, keys[row], values[row]);
      },
      [](std::string_view name) { return name == "command"; });
  if (command && (command->path.empty() || command->words.empty() || command->directory.empty()))
    command.reset();
  return command;
}

bool is_request_to_end(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT || signal == SIGPIPE;
}

repeat_refusal repeat_refusal_of(const nlohmann::json& meta) {
  if (flag_in(meta, "load")) return {"the program is a server, which was recorded under a load", true};
  if (flag_in(meta, "attached")) return {"the program ran already when its recording began"};
  const nlohmann::json* const end = member_in(meta, "exit");
  if (end == nullptr || !end->is_object()) {
    return {
        "the profile does not say how the program ended: the program is still running, or the recording was stopped "
        "early"};
  }
  if (member_in(*end, "signal") != nullptr) {
    const int signal = static_cast<int>(number_in(*end, "signal"));
    return {"the program was ended by signal " + std::to_string(signal) + " when it was recorded",
            signal == SIGTERM || signal == SIGINT};
  }
  const double status = number_in(*end, "status", -1);
  if (status == 0) return {};
  const std::string said = status > 0 ? std::to_string(static_cast<int>(status)) : "?";
  return {"the program ended with status " + said + " when it was recorded"};
}

}  // namespace tarn::profiler
