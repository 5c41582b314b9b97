// SPDX-License-Identifier: MIT
#include "cli/show/profile_view.hpp"

#include <fmt/core.h>

#include <string_view>
#include <unordered_map>
#include <vector>

#include "cli/show/cli_error.hpp"
#include "cli/show/output_file.hpp"
#include "cli/show/text.hpp"
#include "profiler/analyze/function_name.hpp"
#include "profiler/analyze/site_label.hpp"
#include "profiler/analyze/symbols.hpp"
#include "profiler/format/quantity.hpp"
#include "profiler/format/table_file.hpp"
#include "profiler/model/known_meta.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_callers = 3;

bool is_damage_told = false;

std::string show_function(const profiler::source_frame& frame, name_form form) {
  const bool is_plain = frame.function.starts_with('[') || frame.function.starts_with("??") ||
                        frame.kind == profiler::frame_kind::script;
  return is_plain || form == name_form::whole ? frame.function : profiler::short_name(frame.function);
}

// For each text, whether it occurs more than once.
std::vector<bool> find_alike(const std::vector<std::string>& texts) {
  std::unordered_map<std::string_view, std::size_t> counts;
  for (const std::string& text : texts) ++counts[text];
  std::vector<bool> alike;
  for (const std::string& text : texts) alike.push_back(counts[text] > 1);
  return alike;
}

// The frame `steps` further out, not counting the interpreter's frames between Python functions.
std::size_t caller_of(const std::vector<profiler::source_frame>& path, std::size_t frame, std::size_t steps) {
  while (steps > 0 && frame < path.size()) {
    ++frame;
    if (frame == path.size() || path[frame].kind != profiler::frame_kind::interpreter) --steps;
  }
  return frame;
}

}  // namespace

void tell_damage(const std::string& path, const std::string& damage) {
  if (damage.empty()) return;
  print_note(fmt::format("{} is damaged: {}", path, damage));
  is_damage_told = true;
}

bool damage_was_told() { return is_damage_told; }

profiler::profile load_parts_for_command(const std::string& path, profiler::profile_detail detail) {
  note_input(path);
  try {
    profiler::profile p = profiler::load_parts(path, detail);
    tell_damage(path, p.damage);
    if (profiler::flag_in(p.meta, "unfinished")) {
      print_note(
          fmt::format("{} ends {} after the start of the program: its recording goes on, or was killed", path,
                      profiler::say_time(profiler::number_in(p.meta, "duration_ns"))));
    }
    if (!profiler::has_native_symbols(p) && p.stacks.size() > 1) {
      for (const std::string& sentence : profiler::add_symbols(p)) print_note(sentence);
    }
    return p;
  } catch (const profiler::profile_error& error) {
    throw as_cli_error(error);
  }
}

std::vector<std::string> metric_words() {
  std::vector<std::string> names;
  for (const profiler::metric& each : profiler::metrics()) names.emplace_back(each.name);
  return names;
}

std::string show_frame(const profiler::source_frame& frame, std::size_t width, name_form form) {
  std::string place;
  if (!frame.file.empty()) {
    place = frame.file.substr(frame.file.rfind('/') + 1);
    if (frame.line != 0) place += fmt::format(":{}", frame.line);
  }
  const std::string function = show_function(frame, form);
  if (place.empty()) return cut_in_middle(function, width);
  const std::size_t left = width > place.size() + 12 ? width - place.size() - 2 : 0;
  return cut_in_middle(function, width == 0 ? 0 : std::max<std::size_t>(left, 10)) + "  " + place;
}

std::vector<std::string> show_paths(std::size_t count, const path_source& path, std::size_t width,
                                    name_form form) {
  std::vector<std::string> shown;
  for (std::size_t index = 0; index < count; ++index) {
    const auto frames = path(index);
    shown.push_back(show_frame(frames[profiler::own_frame(frames)], 0, form));
  }
  std::vector<bool> has_callers(count);
  for (std::size_t callers = 1; callers <= most_callers; ++callers) {
    const std::vector<bool> is_alike = find_alike(shown);
    for (std::size_t index = 0; index < count; ++index) {
      if (!is_alike[index]) continue;
      const auto frames = path(index);
      const std::size_t caller = caller_of(frames, profiler::own_frame(frames), callers);
      if (caller >= frames.size()) continue;
      shown[index] += " < " + show_function(frames[caller], form);
      has_callers[index] = true;
    }
  }
  if (width == 0) return shown;
  for (std::size_t index = 0; index < count; ++index) {
    if (display_width(shown[index]) <= width) continue;
    if (has_callers[index]) {
      shown[index] = cut_to_width(shown[index], width);
    } else {
      const auto frames = path(index);
      shown[index] = show_frame(frames[profiler::own_frame(frames)], width, form);
    }
  }
  return shown;
}

}  // namespace tarn::cli
