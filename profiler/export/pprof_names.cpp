// SPDX-License-Identifier: MIT
#include "profiler/export/pprof_names.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "profiler/analyze/symbols.hpp"
#include "profiler/export/pprof_message.hpp"

namespace tarn::profiler {

using namespace pprof;

namespace {

struct located {
  std::uint64_t mapping = 0;
  std::uint64_t address = 0;
  bool has_lines = false;
};

std::optional<located> read_location(std::string_view text) {
  located out;
  message_reader fields(text);
  for (message_field field; fields.next(field);) {
    if (field.number == 2) out.mapping = field.value;
    if (field.number == 3) out.address = field.value;
    if (field.number == 4) out.has_lines = true;
  }
  return fields.is_broken() ? std::nullopt : std::optional(out);
}

struct mapped {
  std::uint64_t id = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint64_t file_offset = 0;
  std::uint64_t path = 0;  // numbers in the table of strings
  std::uint64_t build_id = 0;
};

std::optional<mapped> read_mapping(std::string_view text) {
  mapped out;
  std::uint64_t* const numbers[] = {&out.id,          &out.start, &out.end,
                                    &out.file_offset, &out.path,  &out.build_id};
  message_reader fields(text);
  for (message_field field; fields.next(field);)
    if (field.number >= 1 && field.number <= std::size(numbers)) *numbers[field.number - 1] = field.value;
  return fields.is_broken() ? std::nullopt : std::optional(out);
}

// A profile taken apart.
struct parsed_pprof {
  std::vector<message_field> fields;
  std::vector<std::string_view> strings;
  std::vector<mapped> mappings;
  std::vector<located> locations;
  bool has_functions = false;

  // False: it is not a profile.
  bool read(std::string_view profile);
  [[nodiscard]] std::vector<module_info> modules() const;
};

bool parsed_pprof::read(std::string_view profile) {
  message_reader reader(profile);
  for (message_field field; reader.next(field);) {
    fields.push_back(field);
    if (field.number == string_table) strings.push_back(field.bytes);
    if (field.number == function) has_functions = true;
    if (field.number == mapping) {
      const auto found = read_mapping(field.bytes);
      if (!found) return false;
      mappings.push_back(*found);
    }
    if (field.number == location) {
      const auto found = read_location(field.bytes);
      if (!found) return false;
      locations.push_back(*found);
    }
  }
  return !reader.is_broken();
}

std::vector<module_info> parsed_pprof::modules() const {
  const auto text = [this](std::uint64_t number) {
    return number < strings.size() ? std::string(strings[number]) : std::string();
  };
  std::vector<module_info> out;
  for (const mapped& each : mappings)
    out.push_back({text(each.path), text(each.build_id), each.start, each.end, each.file_offset});
  return out;
}

// Writes a profile with names: the old one, and behind it the functions and their names.
class naming_writer {
 public:
  naming_writer(const parsed_pprof& from, const std::map<std::uint64_t, std::vector<source_frame>>& symbols)
      : from_(from), symbols_(symbols), string_count_(from.strings.size()) {
    for (const located& each : from.locations)
      if (!has_names(each)) partly_named_.insert(each.mapping);
  }

  std::string run() {
    auto place = from_.locations.begin();
    auto module = from_.mappings.begin();
    for (const message_field& field : from_.fields) {
      if (field.number == location) {
        add_location(field.bytes, *place++);
      } else if (field.number == mapping) {
        add_mapping(field.bytes, (module++)->id);
      } else {
        out_.append(field.whole);
      }
    }
    out_.append(functions_.text());
    out_.append(strings_.text());
    return out_.text();
  }

 private:
  // Null: there is none.
  const std::vector<source_frame>* names_of(const located& place) const {
    const auto found = symbols_.find(place.address);
    return found != symbols_.end() && !found->second.empty() ? &found->second : nullptr;
  }
  bool has_names(const located& place) const { return place.has_lines || names_of(place) != nullptr; }

  void add_location(std::string_view text, const located& place) {
    message named(text);
    if (const auto* const frames = names_of(place); frames != nullptr && !place.has_lines) {
      for (const source_frame& frame : *frames) {
        message line;
        line.number(1, function_id(frame));
        line.number(2, frame.line);
        named.nested(4, line);
      }
    }
    out_.nested(location, named);
  }

  // pprof looks for names in a mapping until it is told that all are there.
  void add_mapping(std::string_view text, std::uint64_t id) {
    message module(text);
    if (partly_named_.find(id) == partly_named_.end())
      for (const unsigned field : mapping_has) module.number(field, 1);
    out_.nested(mapping, module);
  }

  std::uint64_t function_id(const source_frame& frame) {
    const auto [at, is_new] = known_.try_emplace({frame.function, frame.file}, known_.size() + 1);
    if (is_new) {
      message made;
      made.number(1, at->second);
      made.number(2, string_id(frame.function));
      made.number(3, string_id(frame.function));
      made.number(4, string_id(frame.file));
      functions_.nested(function, made);
    }
    return at->second;
  }

  // Files are the same for many functions, the rest differs.
  std::uint64_t string_id(const std::string& text) {
    if (text.empty()) return 0;
    const auto [at, is_new] = new_strings_.try_emplace(text, string_count_ + new_strings_.size());
    if (is_new) strings_.bytes(string_table, text);
    return at->second;
  }

  const parsed_pprof& from_;
  const std::map<std::uint64_t, std::vector<source_frame>>& symbols_;
  std::uint64_t string_count_;
  std::set<std::uint64_t> partly_named_;  // ids of mappings
  message out_;
  message functions_;
  message strings_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> known_;
  std::map<std::string, std::uint64_t> new_strings_;
};

}  // namespace

pprof_names::pprof_names(std::uint32_t process, symbol_settings settings)
    : process_(process), settings_(std::move(settings)) {}

void pprof_names::look_up(std::vector<module_info> modules, const std::vector<std::uint64_t>& addresses) {
  for (module_info& each : modules) {
    const std::string seen = fmt::format("/proc/{}/root{}", process_, each.path);
    if (each.path.starts_with('/') && access(seen.c_str(), R_OK) == 0) each.path = seen;
  }
  const auto is_same = [](const module_info& a, const module_info& b) {
    return a.path == b.path && a.build_id == b.build_id && a.start == b.start && a.end == b.end &&
           a.file_offset == b.file_offset;
  };
  if (!std::equal(modules.begin(), modules.end(), modules_.begin(), modules_.end(), is_same)) {
    symbols_.clear();
    modules_ = std::move(modules);
  }
  // The profile has the addresses of calls, symbols are those of return addresses.
  profile unknown;
  unknown.modules = modules_;
  unknown.stacks.emplace_back();
  for (const std::uint64_t each : addresses)
    if (symbols_.try_emplace(each).second) unknown.stacks.push_back({0, each + 1});
  if (unknown.stacks.size() == 1) return;
  add_symbols(unknown, settings_);
  for (auto& [address, frames] : unknown.symbols) {
    const bool has_all = std::none_of(frames.begin(), frames.end(),
                                      [](const source_frame& each) { return each.function.empty(); });
    if (has_all) symbols_[address - 1] = std::move(frames);
  }
}

std::string pprof_names::add(std::string_view profile) {
  parsed_pprof from;
  if (!from.read(profile) || from.has_functions) return std::string(profile);
  std::vector<std::uint64_t> addresses;
  for (const located& each : from.locations) addresses.push_back(each.address);
  look_up(from.modules(), addresses);
  return naming_writer(from, symbols_).run();
}

}  // namespace tarn::profiler
