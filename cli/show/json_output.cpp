// SPDX-License-Identifier: MIT
#include "cli/show/json_output.hpp"

#include <fmt/core.h>

#include "profiler/format/printable.hpp"

namespace tarn::cli {

nlohmann::json printable_json(const nlohmann::json& value) {
  if (value.is_string()) return profiler::printable(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  nlohmann::json out = value.is_array() ? nlohmann::json::array() : nlohmann::json::object();
  if (value.is_array()) {
    for (const nlohmann::json& each : value) out.push_back(printable_json(each));
  } else {
    for (const auto& [name, each] : value.items()) out[profiler::printable(name)] = printable_json(each);
  }
  return out;
}

std::string json_text(const nlohmann::json& value, int indentation) {
  return profiler::escape_json(value.dump(indentation, ' ', false, nlohmann::json::error_handler_t::replace));
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
