// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "profiler/export/exports.hpp"
#include "profiler/export/packer.hpp"
#include "profiler/format/pprof_message.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::profiler {

namespace {

using namespace pprof;

const char* pprof_unit(base_unit unit) {
  switch (unit) {
    case base_unit::count: return "count";
    case base_unit::bytes: return "bytes";
    case base_unit::ns: break;
  }
  return "nanoseconds";
}

class pprof_writer {
 public:
  pprof_writer(const profile& p, std::span<const metric> shown) : p_(p), shown_(shown) { string_id(""); }

  std::string run() {
    for (const metric& each : shown_) add_sample_type(each);
    for (std::size_t index = 0; index < p_.modules.size(); ++index) add_mapping(index);
    for (const metric_row& row : metric_rows(p_)) add_sample(row);
    const double start = number_in_meta("start");
    const double duration = number_in_meta("duration_ns");
    out_.number(profile_field::time_nanos, static_cast<std::uint64_t>(std::min(start, 9e9) * 1e9));
    out_.number(profile_field::duration_nanos, static_cast<std::uint64_t>(duration));
    message period;
    period.number(1, string_id("bytes"));
    period.number(2, string_id("bytes"));
    out_.nested(profile_field::period_type, period);
    out_.number(profile_field::period,
                static_cast<std::uint64_t>(std::max(1.0, number_in_meta("sample_bytes"))));
    if (!p_.damage.empty()) out_.number(profile_field::comment, string_id("damaged: " + p_.damage));
    out_.number(profile_field::default_sample_type, string_id(shown_.front().name));
    for (const std::string& text : strings_in_order_) out_.text(profile_field::string_table, text);
    return gzipped(out_.whole());
  }

 private:
  double number_in_meta(const char* name) const {
    const double value = number_in(p_.meta, name);
    return value >= 0 && value < 9e18 ? value : 0;
  }

  std::uint64_t string_id(std::string_view text) {
    const auto [at, is_new] = strings_.try_emplace(std::string(text), strings_.size());
    if (is_new) strings_in_order_.emplace_back(text);
    return at->second;
  }

  void add_sample_type(const metric& each) {
    message type;
    type.number(1, string_id(each.name));
    type.number(2, string_id(pprof_unit(each.unit)));
    out_.nested(profile_field::sample_type, type);
  }

  void add_mapping(std::size_t index) {
    const module_info& module = p_.modules[index];
    message mapping;
    mapping.number(1, index + 1);
    mapping.number(2, module.start);
    mapping.number(3, module.end);
    mapping.number(4, module.file_offset);
    mapping.number(5, string_id(module.path));
    mapping.number(6, string_id(module.build_id));
    // Declares symbols as complete, so that pprof does not look for them.
    for (const unsigned field : {7U, 8U, 9U, 10U}) mapping.number(field, 1);
    out_.nested(profile_field::mapping, mapping);
  }

  std::uint64_t function_id(const source_frame& frame) {
    const auto [at, is_new] = functions_.try_emplace({frame.function, frame.file}, functions_.size() + 1);
    if (is_new) {
      message function;
      function.number(1, at->second);
      function.number(2, string_id(frame.function));
      function.number(3, string_id(frame.function));
      function.number(4, string_id(frame.file));
      out_.nested(profile_field::function, function);
    }
    return at->second;
  }

  std::uint64_t mapping_of(std::uint64_t address) const {
    const module_info* const module = address == 0 ? nullptr : module_at(p_, address - 1);
    return module == nullptr ? 0 : static_cast<std::uint64_t>(module - p_.modules.data()) + 1;
  }

  // A location is an address, with the functions inlined there; or a name without one.
  std::uint64_t add_location(std::uint64_t address, const std::vector<source_frame>& frames) {
    const std::uint64_t id = ++last_location_;
    message location;
    location.number(1, id);
    location.number(2, mapping_of(address));
    location.number(3, address);
    for (const source_frame& frame : frames) {
      message line;
      line.number(1, function_id(frame));
      line.number(2, frame.line);
      location.nested(4, line);
    }
    out_.nested(profile_field::location, location);
    return id;
  }

  std::uint64_t location_of(std::uint64_t address) {
    const auto [at, is_new] = locations_.try_emplace(address, 0);
    if (!is_new) return at->second;
    const auto found = p_.symbols.find(address);
    const std::uint64_t id = found != p_.symbols.end() && !found->second.empty()
                                 ? add_location(address, found->second)
                                 : add_location(address, {{unknown_function(p_, address), {}, 0, false}});
    return locations_[address] = id;
  }

  void add_sample(const metric_row& row) {
    std::vector<std::uint64_t> path;
    if (row.who != nullptr) {
      for (std::uint32_t node = row.who->stack; node != 0; node = p_.stacks[node].parent) {
        path.push_back(location_of(p_.stacks[node].address));
      }
    }
    if (path.empty()) path.push_back(add_location(0, row.frames(p_)));
    std::vector<std::uint64_t> values;
    for (const metric& each : shown_) {
      values.push_back(
          static_cast<std::uint64_t>(std::llround(std::min(9e18, each.of(p_, row.figures(p_))))));
    }
    message sample;
    sample.numbers(1, path.data(), path.size());
    sample.numbers(2, values.data(), values.size());
    if (row.who != nullptr && !row.who->type.empty()) {
      message label;
      label.number(1, string_id("type"));
      label.number(2, string_id(row.who->type));
      sample.nested(3, label);
    }
    out_.nested(profile_field::sample, sample);
  }

  const profile& p_;
  std::span<const metric> shown_;
  message out_;
  std::map<std::string, std::uint64_t, std::less<>> strings_;
  std::vector<std::string> strings_in_order_;
  std::map<std::pair<std::string, std::string>, std::uint64_t> functions_;
  std::map<std::uint64_t, std::uint64_t> locations_;
  std::uint64_t last_location_ = 0;
};

}  // namespace

std::string export_pprof(const profile& p, std::span<const metric> shown) {
  return pprof_writer(p, shown).run();
}

}  // namespace tarn::profiler
