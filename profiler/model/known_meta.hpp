// SPDX-License-Identifier: MIT
// read_meta: the JSON text of a profile's table "meta" as an object in which every member that tarn knows has the type and
// the range that views rely on.
//
// Bounds: texts of more than 8 MiB, and what is nested deeper than 16, are left out, so that a small file cannot take much
// memory, nor deep recursion.
// Thread safety: none needed, plain functions. Failure: told in `problem`; null where there is no object at all.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tarn::profiler {

// The JSON text of the table `name` within those bounds.
nlohmann::json read_json_object(std::string_view text, const std::string& name, std::string& problem);

// `problem`: what had to be left out, in a few words; unchanged where nothing had to.
nlohmann::json read_meta(std::string_view text, std::string& problem);

}  // namespace tarn::profiler
