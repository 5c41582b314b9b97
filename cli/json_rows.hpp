// SPDX-License-Identifier: MIT
// json_rows: a JSON object with an array of any length, printed row by row: memory does not grow with their number.
// Prints to standard output; for one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

namespace tarn::cli {

// On one line. Bytes that are no UTF-8 are replaced.
std::string json_text(const nlohmann::json& value);

// Prints `head`, an object that is not empty, with one member more: `name`, an array of `count` rows, a line each. A row is
// made when it is printed.
void print_json_rows(const nlohmann::json& head, const std::string& name, std::size_t count,
                     const std::function<nlohmann::json(std::size_t index)>& row);

}  // namespace tarn::cli
