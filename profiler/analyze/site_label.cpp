// SPDX-License-Identifier: MIT
#include "profiler/analyze/site_label.hpp"

#include <string_view>

#include "profiler/analyze/function_name.hpp"

namespace tarn::profiler {

namespace {

// Of namespace std and the library's own; templates' names may stand behind what they return.
bool is_library(std::string_view function) {
  if (is_plain_allocation(function)) return true;
  const std::size_t end = function.find_first_of("(<");
  const std::string_view front = function.substr(0, end);
  const std::size_t blank = front.rfind(' ');
  const std::string_view name = blank == std::string_view::npos ? front : front.substr(blank + 1);
  return name.starts_with("std::") || name.starts_with("__gnu_cxx::") || name.starts_with("__gnu_debug::");
}

}  // namespace

std::size_t own_frame(const std::vector<source_frame>& frames) {
  for (std::size_t index = 0; index < frames.size(); ++index) {
    const bool unknown = frames[index].function.starts_with("??");
    if (!is_library(frames[index].function) && !unknown) return index;
  }
  return 0;
}

source_frame site_label(const profile& p, const site& one) {
  const std::vector<source_frame> frames = frames_of(p, one.stack);
  if (frames.empty()) return {"[no call path]", {}, 0, false};
  return frames[own_frame(frames)];
}

}  // namespace tarn::profiler
