// SPDX-License-Identifier: MIT
#include <string>

#include "profiler/format/printable.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::profiler {

namespace {

nlohmann::json printable_json(const nlohmann::json& value) {
  if (value.is_string()) return printable(value.get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  nlohmann::json shown = value.is_object() ? nlohmann::json::object() : nlohmann::json::array();
  for (const auto& [key, member] : value.items()) {
    if (value.is_object()) {
      shown[printable(key)] = printable_json(member);
    } else {
      shown.push_back(printable_json(member));
    }
  }
  return shown;
}

}  // namespace

void make_printable(profile& p) {
  p.meta = printable_json(p.meta);
  for (process_part& each : p.processes) each.meta = printable_json(each.meta);
  for (module_info& each : p.modules) {
    each.path = printable(each.path);
    each.build_id = printable(each.build_id);
  }
  for (auto& [address, frames] : p.symbols) {
    for (source_frame& frame : frames) {
      frame.function = printable(frame.function);
      frame.file = printable(frame.file);
    }
  }
  for (thread_info& each : p.threads) each.name = printable(each.name);
  for (site& each : p.sites) each.type = printable(each.type);
  for (memory_part& each : p.memory.parts) {
    each.kind = printable(each.kind);
    each.name = printable(each.name);
  }
  p.damage = printable(p.damage);
}

}  // namespace tarn::profiler
