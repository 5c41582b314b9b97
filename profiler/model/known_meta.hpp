// SPDX-License-Identifier: MIT
// known_meta: reads the JSON text of a profile's table "meta" into an object in which every member that tarn knows
// has the type and the range that views rely on.
//
// Bounds: texts of more than 8 MiB, and nesting deeper than 16, are left out, so that a small file cannot cause
// much memory or deep recursion. Thread safety: pure functions. Failure: reported in `problem`; the result is null
// if there is no object at all.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tarn::profiler {

// The JSON text of the table `name` within those bounds.
nlohmann::json read_json_object(std::string_view text, const std::string& name, std::string& problem);

// A member of `object`, which may be any JSON value, if it has one and that is of the kind asked for.
const nlohmann::json* member_in(const nlohmann::json& object, const char* name);
double number_in(const nlohmann::json& object, const char* name, double otherwise = 0);
double positive_in(const nlohmann::json& object, const char* name, double otherwise);  // above 0
std::string text_in(const nlohmann::json& object, const char* name);
bool flag_in(const nlohmann::json& object, const char* name);

// Paths and arguments may contain any bytes; invalid UTF-8 is replaced.
inline std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// `problem`: what was left out, in a few words; unchanged if nothing was.
nlohmann::json read_meta(std::string_view text, std::string& problem);

}  // namespace tarn::profiler
