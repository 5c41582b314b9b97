// SPDX-License-Identifier: MIT
#include "profiler/export/live_profile.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "profiler/format/pprof_message.hpp"
#include "profiler/format/table_file.hpp"

namespace tarn::profiler {

using namespace pprof;

namespace {

// Of the messages that a profile has; their other fields are not used here.
constexpr unsigned sample_locations = 1;
constexpr unsigned sample_values = 2;
constexpr unsigned type_name = 1;
constexpr unsigned type_unit = 2;

[[noreturn]] void refuse_profile(const char* why) {
  throw profile_error(std::string("the process's heap profile cannot be sent: ") + why);
}

template <class Take>
void each_field(std::string_view text, const Take& take) {
  message_reader reader(text);
  for (message_field field; reader.next(field);) take(field);
  if (reader.is_broken()) refuse_profile("it is damaged");
}

std::vector<std::uint64_t> numbers_in(const message_field& field) {
  std::vector<std::uint64_t> numbers;
  if (!add_numbers(field, numbers)) refuse_profile("it is damaged");
  return numbers;
}

std::uint64_t number_of(std::string_view text, unsigned number) {
  std::uint64_t value = 0;
  each_field(text, [&](const message_field& field) {
    if (field.number == number) value = field.value;
  });
  return value;
}

std::vector<std::string_view> strings_in(std::string_view profile) {
  std::vector<std::string_view> strings;
  each_field(profile, [&](const message_field& field) {
    if (field.number == string_table) strings.push_back(field.bytes);
  });
  if (strings.empty() || !strings.front().empty()) refuse_profile("its texts are damaged");
  return strings;
}

// A sample with those of its values that are live memory. Empty: it has none.
std::string live_sample(std::string_view sample, const std::vector<bool>& is_live) {
  message kept;
  bool has_some = false;
  each_field(sample, [&](const message_field& field) {
    if (field.number != sample_values) {
      kept.append(field.whole);
      return;
    }
    const std::vector<std::uint64_t> all = numbers_in(field);
    if (all.size() != is_live.size()) refuse_profile("a sample has not its types' number of values");
    std::vector<std::uint64_t> values;
    for (std::size_t at = 0; at < all.size(); ++at)
      if (is_live[at]) values.push_back(all[at]);
    has_some = std::any_of(values.begin(), values.end(), [](std::uint64_t each) { return each != 0; });
    kept.numbers(sample_values, values.data(), values.size());
  });
  return has_some ? kept.take() : std::string();
}

class otlp_writer {
 public:
  explicit otlp_writer(std::string_view profile) : profile_(profile), strings_(strings_in(profile)) {}

  std::string run(const std::map<std::string, std::string>& resource, std::string_view version) {
    number_all();
    message known[tables + 1];
    // The first entry of each table is the one that stands for none.
    for (const unsigned field : {mappings, locations, functions, links, attributes, stacks})
      known[field].nested(field, message());
    for (const std::string_view each : strings_) known[strings].text(strings, each);
    known[strings].text(strings, "process.executable.build_id.gnu");
    each_field(profile_, [&](const message_field& field) {
      if (field.number == mapping)
        known[mappings].nested(mappings, mapping_of(field.bytes, known[attributes]));
      if (field.number == location) known[locations].nested(locations, location_of(field.bytes));
      if (field.number == function) known[functions].nested(functions, function_of(field.bytes));
      if (field.number == sample) known[stacks].nested(stacks, stack_of(field.bytes));
    });
    message dictionary;
    for (const message& each : known) dictionary.append(each.whole());

    message scope;
    scope.text(1, "tarn").text(2, version);
    message of_scope;
    of_scope.nested(1, scope);
    for (std::size_t at = 0; at < types_.size(); ++at) of_scope.nested(2, profile_of(at));
    message of_process;
    for (const auto& [name, value] : resource) {
      message attribute;
      attribute.text(1, name);
      attribute.nested(2, text_value(value));
      of_process.nested(1, attribute);
    }
    message of_resource;
    of_resource.nested(1, of_process);
    of_resource.nested(2, of_scope);
    message request;
    request.nested(1, of_resource);
    request.nested(2, dictionary);
    return request.take();
  }

 private:
  // Fields of the message ProfilesDictionary.
  enum table : unsigned {
    mappings = 1,
    locations = 2,
    functions = 3,
    links = 4,
    strings = 5,
    attributes = 6,
    stacks = 7
  };
  static constexpr unsigned tables = stacks;

  static message text_value(std::string_view text) {
    message value;
    value.text(1, text);
    return value;
  }

  static message type_of(std::string_view type) {
    message made;
    made.number(1, number_of(type, type_name));
    made.number(2, number_of(type, type_unit));
    return made;
  }

  // pprof numbers its mappings, locations and functions as it likes, and has samples first.
  void number_all() {
    each_field(profile_, [&](const message_field& field) {
      if (field.number == mapping)
        mapping_ids_.try_emplace(number_of(field.bytes, 1), mapping_ids_.size() + 1);
      if (field.number == location)
        location_ids_.try_emplace(number_of(field.bytes, 1), location_ids_.size() + 1);
      if (field.number == function)
        function_ids_.try_emplace(number_of(field.bytes, 1), function_ids_.size() + 1);
      if (field.number == sample_type) types_.push_back(type_of(field.bytes));
    });
  }

  static std::uint64_t place_of(std::uint64_t id, const std::map<std::uint64_t, std::uint64_t>& ids) {
    const auto found = ids.find(id);
    return found != ids.end() ? found->second : 0;
  }

  message mapping_of(std::string_view text, message& attribute_table) {
    message made;
    each_field(text, [&](const message_field& field) {
      if (field.number >= 2 && field.number <= 5) made.number(field.number - 1, field.value);
      if (field.number != 6 || field.value == 0 || field.value >= strings_.size()) return;
      message attribute;
      attribute.number(1, strings_.size());
      attribute.nested(2, text_value(strings_[field.value]));
      attribute_table.nested(attributes, attribute);
      const std::uint64_t index = ++attribute_count_;
      made.numbers(5, &index, 1);
    });
    return made;
  }

  message location_of(std::string_view text) const {
    message made;
    each_field(text, [&](const message_field& field) {
      if (field.number == 2) made.number(1, place_of(field.value, mapping_ids_));
      if (field.number == 3) made.number(2, field.value);
      if (field.number != 4) return;
      message line;
      line.number(1, place_of(number_of(field.bytes, 1), function_ids_));
      line.number(2, number_of(field.bytes, 2));
      made.nested(3, line);
    });
    return made;
  }

  static message function_of(std::string_view text) {
    message made;
    each_field(text, [&](const message_field& field) {
      if (field.number >= 2 && field.number <= 5) made.number(field.number - 1, field.value);
    });
    return made;
  }

  message stack_of(std::string_view text) const {
    std::vector<std::uint64_t> path;
    each_field(text, [&](const message_field& field) {
      if (field.number != sample_locations) return;
      for (const std::uint64_t each : numbers_in(field)) path.push_back(place_of(each, location_ids_));
    });
    message made;
    made.numbers(1, path.data(), path.size());
    return made;
  }

  // The figures of one sample type.
  message profile_of(std::size_t type) const {
    message made;
    made.nested(1, types_[type]);
    std::uint64_t stack = 0;
    each_field(profile_, [&](const message_field& field) {
      if (field.number == time_nanos) made.fixed(3, field.value);
      if (field.number == period_type) made.nested(5, type_of(field.bytes));
      if (field.number == period) made.number(6, field.value);
      if (field.number != sample) return;
      ++stack;
      std::vector<std::uint64_t> values;
      each_field(field.bytes, [&](const message_field& part) {
        if (part.number == sample_values) values = numbers_in(part);
      });
      if (type >= values.size() || values[type] == 0) return;
      message one;
      one.number(1, stack);
      one.numbers(4, &values[type], 1);
      made.nested(2, one);
    });
    return made;
  }

  std::string_view profile_;
  std::vector<std::string_view> strings_;
  std::vector<message> types_;
  std::map<std::uint64_t, std::uint64_t> mapping_ids_;
  std::map<std::uint64_t, std::uint64_t> location_ids_;
  std::map<std::uint64_t, std::uint64_t> function_ids_;
  std::uint64_t attribute_count_ = 0;
};

}  // namespace

std::string live_profile(std::string_view profile) {
  const std::vector<std::string_view> strings = strings_in(profile);
  std::vector<bool> is_live;
  each_field(profile, [&](const message_field& field) {
    if (field.number != sample_type) return;
    const std::uint64_t name = number_of(field.bytes, type_name);
    is_live.push_back(name < strings.size() && strings[name].starts_with("inuse_"));
  });
  if (std::find(is_live.begin(), is_live.end(), true) == is_live.end())
    refuse_profile("it has no figures of live memory; its tarn may be of another version");
  message out;
  std::size_t type = 0;
  each_field(profile, [&](const message_field& field) {
    if (field.number == sample_type && !is_live[type++]) return;
    if (field.number != sample) {
      out.append(field.whole);
    } else if (const std::string kept = live_sample(field.bytes, is_live); !kept.empty()) {
      out.text(sample, kept);
    }
  });
  return out.take();
}

std::string otlp_profiles(std::string_view profile, const std::map<std::string, std::string>& resource,
                          std::string_view version) {
  return otlp_writer(profile).run(resource, version);
}

}  // namespace tarn::profiler
