// SPDX-License-Identifier: MIT
#include "profiler/model/known_meta.hpp"

#include <algorithm>
#include <cstddef>

namespace tarn::profiler {

namespace {

constexpr std::size_t most_text_bytes = std::size_t{8} << 20;
constexpr int most_depth = 16;

enum class kind : unsigned char { text, texts, number };

struct known_member {
  const char* name;
  kind type;
  double least = 0;  // range of a number
  double most = 0;
};

constexpr known_member known_members[] = {
    {"program", kind::text},
    {"command", kind::text},
    {"allocator", kind::text},
    {"mode", kind::text},
    {"tarn_version", kind::text},
    {"arguments", kind::texts},
    {"refused", kind::texts},
    {"symbol_notes", kind::texts},
    {"pid", kind::number, 0, 1U << 31},
    {"parent", kind::number, 0, 1U << 31},
    {"start", kind::number, 0, 1e11},        // seconds
    {"duration_ns", kind::number, 0, 1e18},  // 30 years
    {"processes", kind::number, 1, 1e9},
    {"page_bytes", kind::number, 512, 1 << 30},
    {"sample_bytes", kind::number, 0, 1e15},
    {"fault_period", kind::number, 0, 1e15},
    {"peak_resident_bytes", kind::number, 0, 1e15},
    {"late_peak_bytes", kind::number, 0, 1e15},
    {"peak_address_bytes", kind::number, 0, 1e20},
    {"memory_limit_bytes", kind::number, 0, 1e20},
    {"address_limit_bytes", kind::number, 0, 1e20},
    {"machine_memory_bytes", kind::number, 0, 1e18},
    {"growth_from_ns", kind::number, 0, 1e18},
};

bool fits(const nlohmann::json& value, const known_member& member) {
  switch (member.type) {
    case kind::text: return value.is_string();
    case kind::texts:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const auto& each) { return each.is_string(); });
    case kind::number: break;
  }
  return value.is_number() && value.get<double>() >= member.least && value.get<double>() <= member.most;
}

}  // namespace

nlohmann::json read_json_object(std::string_view text, const std::string& name, std::string& problem) {
  if (text.size() > most_text_bytes) {
    problem = "the table '" + name + "' is longer than one may be";
    return {};
  }
  bool deep = false;
  const auto shallow = [&deep](int depth, nlohmann::json::parse_event_t /*event*/,
                               const nlohmann::json& /*value*/) {
    deep = deep || depth > most_depth;
    return depth <= most_depth;
  };
  nlohmann::json object = nlohmann::json::parse(text, shallow, false);
  if (!object.is_object()) {
    problem = "the table '" + name + "' is no JSON object";
    return {};
  }
  if (deep) problem = "what is nested deeply in the table '" + name + "' is left out";
  return object;
}

nlohmann::json read_meta(std::string_view text, std::string& problem) {
  nlohmann::json meta = read_json_object(text, "meta", problem);
  if (!meta.is_object()) return meta;
  for (const known_member& each : known_members) {
    const auto found = meta.find(each.name);
    if (found == meta.end() || fits(*found, each)) continue;
    meta.erase(found);
    problem = std::string("the member '") + each.name + "' of the table 'meta' makes no sense";
  }
  return meta;
}

const nlohmann::json* member_in(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found != object.end() ? &*found : nullptr;
}

double number_in(const nlohmann::json& object, const char* name, double otherwise) {
  const nlohmann::json* found = member_in(object, name);
  return found != nullptr && found->is_number() ? found->get<double>() : otherwise;
}

double positive_in(const nlohmann::json& object, const char* name, double otherwise) {
  const double found = number_in(object, name);
  return found > 0 ? found : otherwise;
}

std::string text_in(const nlohmann::json& object, const char* name) {
  const nlohmann::json* found = member_in(object, name);
  return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
}

bool flag_in(const nlohmann::json& object, const char* name) {
  const nlohmann::json* found = member_in(object, name);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

}  // namespace tarn::profiler
