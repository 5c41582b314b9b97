// SPDX-License-Identifier: MIT
// json_output: JSON as text, in which invalid UTF-8 is replaced, and what acts on a terminal is escaped. All JSON that the
// command writes comes from here. Prints to standard output; for one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace tarn::cli {

// All its texts and names printable. Requires: it is not nested deeply.
nlohmann::json printable_json(const nlohmann::json& value);

// On one line, or with this indentation.
std::string json_text(const nlohmann::json& value, int indentation = -1);

// Indented, for people as well.
void print_json_object(const nlohmann::json& value);

// Prints `head`, a non-empty object, with one more member: `name`, an array of `count` rows, one per line. Each row
// is generated when it is printed, so that memory does not grow with their number.
void print_json_rows(const nlohmann::json& head, const std::string& name, std::size_t count,
                     const std::function<nlohmann::json(std::size_t index)>& row);

}  // namespace tarn::cli
