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
#include "profiler/model/pprof_profile.hpp"

namespace tarn::cli {

namespace {

constexpr std::size_t most_callers = 3;
constexpr std::string_view caller_mark = " < ";
constexpr std::size_t least_caller = 10;  // with the mark: less says nothing

bool is_damage_told = false;

std::string show_function(const profiler::source_frame& frame, name_form form) {
  const bool is_plain = frame.function.starts_with('[') || frame.function.starts_with("??") ||
                        frame.kind == profiler::frame_kind::script ||
                        frame.kind == profiler::frame_kind::file;
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

void warn_of_damage(const std::string& path, const std::string& damage) {
  if (damage.empty()) return;
  print_note(fmt::format("{} is damaged: {}", path, damage));
  is_damage_told = true;
}

void add_damage(const std::string& path, profiler::profile& p, const std::string& more) {
  if (p.damage.find(more) != std::string::npos) return;
  warn_of_damage(path, more);
  p.damage += (p.damage.empty() ? "" : "; ") + more;
}

bool damage_was_told() { return is_damage_told; }

profiler::profile load_parts_for_command(const std::string& path, profiler::profile_detail detail) {
  note_input(path);
  try {
    profiler::profile p = profiler::load_parts(path, detail);
    warn_of_damage(path, p.damage);
    if (profiler::flag_in(p.meta, "unfinished")) {
      print_note(
          fmt::format("{} ends {} after the start of the program: its recording goes on, or was killed", path,
                      profiler::say_time(profiler::number_in(p.meta, "duration_ns"))));
    }
    const bool is_pprof = profiler::is_pprof(path);
    const double sample_bytes = profiler::number_in(p.meta, "sample_bytes");
    if (is_pprof && sample_bytes > 0 && sample_bytes <= 1) {
      print_note(fmt::format(
          "{} says that every byte was a sample. If it comes from Pyroscope, and went there by otlp=, that is not so, and its "
          "intervals are too narrow: push by pyroscope=",
          path));
    }
    const bool is_whole = is_pprof ? !profiler::lacks_native_symbols(p) : profiler::has_native_symbols(p);
    if (!is_whole && p.stacks.size() > 1) {
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
  const std::string function = show_function(frame, form);
  if (frame.file.empty()) return cut_in_middle(function, width);
  const std::string line = frame.line == 0 ? "" : fmt::format(":{}", frame.line);
  std::string place = frame.file.substr(frame.file.rfind('/') + 1) + line;
  if (width == 0) return function + "  " + place;
  const std::size_t least = std::min<std::size_t>(display_width(function), 10);
  if (width < least + line.size() + 8) return cut_in_middle(function, width);
  // The line's number stays whole.
  if (const std::size_t room = width - least - 2; display_width(place) > room)
    place = cut_in_middle(place.substr(0, place.size() - line.size()), room - line.size()) + line;
  return cut_in_middle(function, width - display_width(place) - 2) + "  " + place;
}

std::vector<std::string> show_paths(std::size_t count, const path_source& path, std::size_t width,
                                    name_form form) {
  std::vector<std::string> shown;
  for (std::size_t index = 0; index < count; ++index) {
    const auto frames = path(index);
    shown.push_back(show_frame(frames[profiler::own_frame(frames)], 0, form));
  }
  for (std::size_t callers = 1; callers <= most_callers; ++callers) {
    const std::vector<bool> is_alike = find_alike(shown);
    for (std::size_t index = 0; index < count; ++index) {
      if (!is_alike[index]) continue;
      const auto frames = path(index);
      const std::size_t caller = caller_of(frames, profiler::own_frame(frames), callers);
      if (caller >= frames.size()) continue;
      shown[index] += std::string(caller_mark) + show_function(frames[caller], form);
    }
  }
  for (std::size_t index = 0; index < count && width > 0; ++index) {
    if (display_width(shown[index]) <= width) continue;
    const auto frames = path(index);
    shown[index] =
        with_callers(show_frame(frames[profiler::own_frame(frames)], width, form), shown[index], width);
  }
  return shown;
}

std::string hint_line(const profiler::profile& p, const profiler::source_frame& frame, std::size_t indent) {
  const std::string hint = profiler::name_hint(p, frame);
  return hint.empty() ? "" : std::string(indent, ' ') + hint + "\n";
}

std::string with_callers(std::string frame, std::string_view whole, std::size_t width) {
  const std::size_t first = whole.find(caller_mark);
  if (first == std::string_view::npos) return frame;
  for (whole.remove_prefix(first); !whole.empty();) {
    const std::string caller(whole.substr(0, whole.find(caller_mark, 1)));
    whole.remove_prefix(caller.size());
    const std::size_t used = display_width(frame);
    if (width == 0 || used + display_width(caller) <= width) {
      frame += caller;
      continue;
    }
    if (width >= used + least_caller) frame += cut_in_middle(caller, width - used);
    break;
  }
  return frame;
}

}  // namespace tarn::cli
