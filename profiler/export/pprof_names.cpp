// SPDX-License-Identifier: MIT
#include "profiler/export/pprof_names.hpp"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "profiler/analyze/symbols.hpp"
#include "profiler/format/pprof_message.hpp"
#include "profiler/format/printable.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

using namespace pprof;

namespace {

// Of what a process may have: 65,530 mappings by Linux's default, and 8,192 call paths in tarn's heap profile.
constexpr std::size_t most_mappings = std::size_t{1} << 16;
constexpr std::size_t most_addresses = std::size_t{1} << 18;
constexpr std::size_t longest_path = 4096;
constexpr std::size_t most_growth = std::size_t{64} << 20;

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

// What is kept of a profile. It may be any bytes, so this is bounded, whatever the profile's length.
struct outline {
  std::vector<mapped> mappings;
  std::vector<module_info> modules;  // of the mappings
  std::vector<std::uint64_t> addresses;
  std::uint64_t strings = 0;
  bool has_functions = false;
  bool has_too_much = false;  // then no names are added

  // Throws profile_error: it is no profile.
  void read(std::string_view profile);

 private:
  void take(const message_field& field);
  void find_modules(std::string_view profile);
};

[[noreturn]] void refuse_profile() {
  throw profile_error("the process has sent no profile; its tarn may be of another version");
}

void outline::take(const message_field& field) {
  if (field.number == string_table) ++strings;
  if (field.number == function) has_functions = true;
  if (field.number == mapping) {
    const auto found = read_mapping(field.bytes);
    if (!found) refuse_profile();
    has_too_much |= mappings.size() >= most_mappings;
    if (!has_too_much) mappings.push_back(*found);
  }
  if (field.number == location) {
    const auto found = read_location(field.bytes);
    if (!found) refuse_profile();
    if (found->address == 0 || found->has_lines) return;
    has_too_much |= addresses.size() >= most_addresses;
    if (!has_too_much) addresses.push_back(found->address);
  }
}

// The few strings that are needed here, by a second look.
void outline::find_modules(std::string_view profile) {
  std::map<std::uint64_t, std::string> texts;
  for (const mapped& each : mappings) {
    texts[each.path];
    texts[each.build_id];
  }
  std::uint64_t number = 0;
  message_reader reader(profile);
  for (message_field field; reader.next(field);) {
    if (field.number != string_table) continue;
    const auto wanted = texts.find(number++);
    if (wanted != texts.end() && field.bytes.size() <= longest_path) wanted->second = field.bytes;
  }
  for (const mapped& each : mappings)
    modules.push_back({texts[each.path], texts[each.build_id], each.start, each.end, each.file_offset});
}

void outline::read(std::string_view profile) {
  message_reader reader(profile);
  for (message_field field; reader.next(field);) take(field);
  if (reader.is_broken()) refuse_profile();
  if (!has_too_much) find_modules(profile);
}

// Writes a profile anew, with names: what is known of the old one, and behind it the functions and their names. All
// texts are printable.
class naming_writer {
 public:
  naming_writer(std::string_view from, std::uint64_t strings,
                const std::map<std::uint64_t, std::vector<source_frame>>* symbols)
      : from_(from), symbols_(symbols), string_count_(strings) {
    if (symbols_ != nullptr) find_partly_named();
  }

  std::string run() {
    message_reader reader(from_);
    for (message_field field; reader.next(field);) {
      if (field.number == string_table) {
        out_.text(string_table, printable(field.bytes));
      } else if (field.number == location && symbols_ != nullptr) {
        add_location(field.bytes);
      } else if (field.number == mapping && symbols_ != nullptr) {
        add_mapping(field.bytes);
      } else if (field.number >= 1 && field.number <= default_sample_type) {
        out_.append(field.whole);
      }
      // Escapes take up to eight times as much.
      if (out_.whole().size() > from_.size() + most_growth)
        throw profile_error("the process has sent texts that cannot be shown");
    }
    out_.append(functions_.whole());
    out_.append(strings_.whole());
    return out_.take();
  }

 private:
  void find_partly_named() {
    message_reader reader(from_);
    for (message_field field; reader.next(field);) {
      if (field.number != location) continue;
      const auto place = read_location(field.bytes);
      if (place && !place->has_lines && names_of(*place) == nullptr) partly_named_.insert(place->mapping);
    }
  }

  // Null: there is none.
  const std::vector<source_frame>* names_of(const located& place) const {
    const auto found = symbols_->find(place.address);
    return found != symbols_->end() && !found->second.empty() ? &found->second : nullptr;
  }

  void add_location(std::string_view text) {
    message named(text);
    const located place = read_location(text).value_or(located());
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
  void add_mapping(std::string_view text) {
    message module(text);
    if (!partly_named_.contains(read_mapping(text).value_or(mapped()).id))
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
    if (is_new) strings_.text(string_table, printable(text));
    return at->second;
  }

  std::string_view from_;
  const std::map<std::uint64_t, std::vector<source_frame>>* symbols_;  // null: no names are added
  std::uint64_t string_count_;
  std::set<std::uint64_t> partly_named_;  // ids of mappings
  message out_;
  message functions_;
  message strings_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> known_;
  std::map<std::string, std::uint64_t> new_strings_;
};

// A file of the process, as seen from here. The process says the path, so a pipe or device is left alone.
bool is_plain_file(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && S_ISREG(found.st_mode);
}

}  // namespace

pprof_names::pprof_names(std::uint32_t process, symbol_settings settings)
    : process_(process), settings_(std::move(settings)) {}

void pprof_names::look_up(std::vector<module_info> modules, const std::vector<std::uint64_t>& addresses) {
  for (module_info& each : modules) {
    const std::string seen = fmt::format("/proc/{}/root{}", process_, each.path);
    if (each.path.starts_with('/') && is_plain_file(seen)) each.path = seen;
  }
  const auto is_same = [](const module_info& a, const module_info& b) {
    return a.path == b.path && a.build_id == b.build_id && a.start == b.start && a.end == b.end &&
           a.file_offset == b.file_offset;
  };
  if (!std::equal(modules.begin(), modules.end(), modules_.begin(), modules_.end(), is_same)) {
    symbols_.clear();
    modules_ = std::move(modules);
  }
  if (symbols_.size() + addresses.size() > 2 * most_addresses) symbols_.clear();
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
  outline from;
  from.read(profile);
  const bool adds = !from.has_functions && !from.has_too_much;
  if (adds) look_up(std::move(from.modules), from.addresses);
  return naming_writer(profile, from.strings, adds ? &symbols_ : nullptr).run();
}

}  // namespace tarn::profiler
