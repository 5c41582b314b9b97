// SPDX-License-Identifier: MIT
// profile_view: what the commands that show profiles share: loading one, figures in a metric's unit, names that fit.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// The profile, with its symbols: those of the file, or, where the profiler had no time to find them, found now. Tells what
// is damaged on stderr. Throws cli_error (refused).
profiler::profile load_for_command(const std::string& path,
                                   profiler::profile_detail detail = profiler::profile_detail::all);
// The same, but each process of a merged profile has sites of its own (load_parts).
profiler::profile load_parts_for_command(const std::string& path,
                                         profiler::profile_detail detail = profiler::profile_detail::all);

// Throws cli_error (usage), with the name that was probably meant.
const profiler::metric& metric_named(const std::string& option, const std::string& name);

// "1.23 s", "4.00 MiB", "12.3k"; as few digits as a table needs.
std::string show_value(profiler::metric_unit unit, double value);
std::string show_percent(double part, double whole);
// "±12%" of the value; nothing where that is less than half a percent.
std::string show_margin(double margin, double value);

// Shortened: without parameters, long template arguments as "<…>".
enum class name_form { shortened, whole };

// "function  file.cpp:12", the file without its folders; at most `width` columns, 0 for all.
std::string show_frame(const profiler::source_frame& frame, std::size_t width,
                       name_form form = name_form::shortened);
// The same for each of several paths (frames innermost first, none empty); where two come out alike, with as many callers
// as tell them apart, at most three: "allocate  memory.cpp:12 < parse < load".
// `path` gives the frames of one; it is asked anew for each use, as the frames of many paths are much memory.
using path_source = std::function<std::vector<profiler::source_frame>(std::size_t index)>;
std::vector<std::string> show_paths(std::size_t count, const path_source& path, std::size_t width,
                                    name_form form = name_form::shortened);
// Names are cut in their middle: what distinguishes them often stands at the end.
std::string cut_to_width(const std::string& text, std::size_t width);
std::string cut_in_middle(const std::string& text, std::size_t width);

// The callers that tell a path from others with the same own frame, as show_paths would show three of them.
std::string place_key(const profiler::profile& p, const std::vector<profiler::source_frame>& path);

// Of the terminal that `descriptor` is; 0 where it is none.
std::size_t terminal_width(int descriptor);

}  // namespace tarn::cli
