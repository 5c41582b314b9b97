// SPDX-License-Identifier: MIT
// report_file: the report as one HTML file: the page, which is built beforehand from page/ and held in this library, with
// a profile's data in it. Reads no file, except source files where lines of them are wanted. Any thread.
//
// Safe by construction: the data stands in an element that no browser executes, with every "<" escaped; the page puts
// it into text nodes only; and its Content-Security-Policy allows no script but its own, by hash, and no network.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/model/profile.hpp"
#include "profiler/report/report_data.hpp"

namespace tarn::profiler {

struct report_file {
  std::string html;
  std::size_t named_sites = 0;  // of all; the others stand in it as one sum
  std::size_t all_sites = 0;
};

struct report_size {
  std::size_t most_bytes = std::size_t{16}
                           << 20;     // of the data; fewer sites are named where it would be larger
  std::size_t most_source_bytes = 0;  // of lines from the source files of this system
  std::size_t most_processes = 40;    // shown by themselves; they share as much again of both
};

report_file render_report(const profile& p, const std::vector<advice>& actions, report_size size = {});

// All processes of a merged profile as one program, and by a switch in the page the costliest ones by themselves.
// `parts`: as load_parts gives it.
report_file render_report_of_processes(const profile& parts, report_size size = {});

// A file that begins like a report: one that may be written over.
bool begins_like_report(std::string_view text);

}  // namespace tarn::profiler
