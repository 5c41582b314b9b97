// SPDX-License-Identifier: MIT
// profile_view: helpers shared by the commands that show profiles: loading a profile, shortening names.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "profiler/export/metrics.hpp"
#include "profiler/model/profile.hpp"

namespace tarn::cli {

// Reports on stderr that the file is damaged and was read as far as possible, unless `damage` is empty. The command
// then ends with exit_code::damaged_profile in place of success (main).
void warn_of_damage(const std::string& path, const std::string& damage);
// Of what was read from the file after it was loaded; what is known already is not said again.
void add_damage(const std::string& path, profiler::profile& p, const std::string& more);
bool damage_was_told();

// Loads the profile with its symbols: those of the file, or, if the profiler had no time to look them up, looked up
// now. The sites of each process of a merged profile stay separate (load_parts). Reports on stderr damage, and until when
// an unfinished recording reaches. Throws cli_error (refused).
profiler::profile load_parts_for_command(const std::string& path,
                                         profiler::profile_detail detail = profiler::profile_detail::all);

std::vector<std::string> metric_words();

// Shortened: without parameters, long template arguments as "<…>".
enum class name_form { shortened, whole };

// "function  file.cpp:12", the file without its folders; at most `width` columns, 0 for all.
std::string show_frame(const profiler::source_frame& frame, std::size_t width,
                       name_form form = name_form::shortened);
// Why a frame has no name and how to give it one, as a line of its own; empty: it has one.
std::string hint_line(const profiler::profile& p, const profiler::source_frame& frame, std::size_t indent);
// The same as show_frame for each of several paths (frames innermost first, none empty). Paths that look alike are shown with as
// many callers as tell them apart, at most three: "allocate  memory.cpp:12 < parse < load". `path` returns the
// frames of one path; it is called again for each use, as the frames of many paths take much memory.
using path_source = std::function<std::vector<profiler::source_frame>(std::size_t index)>;
std::vector<std::string> show_paths(std::size_t count, const path_source& path, std::size_t width,
                                    name_form form = name_form::shortened);
// `frame`, as shown, and of `whole` (its text with all callers) as many callers as fit into `width`, 0: all.
std::string with_callers(std::string frame, std::string_view whole, std::size_t width);

}  // namespace tarn::cli
