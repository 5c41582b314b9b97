// SPDX-License-Identifier: MIT
// json_rows: prints a JSON object with an array of any length row by row, so that memory does not grow with the
// number of rows. Prints to standard output; for one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace tarn::cli {

// The JSON text on one line. Invalid UTF-8 is replaced.
std::string json_text(const nlohmann::json& value);

// Prints `head`, a non-empty object, with one more member: `name`, an array of `count` rows, one per line. Each row
// is generated when it is printed.
void print_json_rows(const nlohmann::json& head, const std::string& name, std::size_t count,
                     const std::function<nlohmann::json(std::size_t index)>& row);

}  // namespace tarn::cli
