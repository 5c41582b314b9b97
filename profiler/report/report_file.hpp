// SPDX-License-Identifier: MIT
// report_file: the report as one HTML file: the page, which is built beforehand from page/ and held in this library, with
// a profile's data in it. Pure; any thread.
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

// With fewer named sites where the data would be larger than `most_bytes`.
report_file render_report(const profile& p, const std::vector<advice>& actions,
                          std::size_t most_bytes = std::size_t{16} << 20, report_limits limits = {});

// All processes of a merged profile as one program, and by a switch in the page the costliest ones by themselves.
// `parts`: as load_parts gives it.
report_file render_report_of_processes(const profile& parts, std::size_t most_bytes = std::size_t{32} << 20,
                                       std::size_t most_processes = 40);

// A file that begins like a report: one that may be written over.
bool begins_like_report(std::string_view text);

}  // namespace tarn::profiler
