// SPDX-License-Identifier: MIT
#include "cli/show/json_output.hpp"

#include <fmt/core.h>

namespace tarn::cli {

std::string json_text(const nlohmann::json& value, int indentation) {
  return value.dump(indentation, ' ', false, nlohmann::json::error_handler_t::replace);
}

void print_json_object(const nlohmann::json& value) { fmt::print("{}\n", json_text(value, 2)); }

void print_json_rows(const nlohmann::json& head, const std::string& name, std::size_t count,
                     const std::function<nlohmann::json(std::size_t index)>& row) {
  std::string text = json_text(head, 2);
  text.resize(text.size() - 2);  // removes the object's closing brace and its line end
  fmt::print("{},\n  {}: [", text, json_text(name));
  for (std::size_t index = 0; index < count; ++index)
    fmt::print("{}\n    {}", index == 0 ? "" : ",", json_text(row(index)));
  fmt::print("{}]\n}}\n", count == 0 ? "" : "\n  ");
}

}  // namespace tarn::cli
