// SPDX-License-Identifier: MIT
// jit_code: what a recording learns about code that a process makes at run time: where it lies, and the file with its names
// (perf_map.hpp). Used by the collector's thread only.
#pragma once

#include <cstdint>

#include "profiler/analyze/perf_map.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/model/range_map.hpp"
#include "profiler/proc/process_maps.hpp"

namespace tarn::profiler {

// Whether a mapping may hold code that was made at run time.
bool is_generated(const mapping& one);

class jit_code {
 public:
  // Notes what there is now. To be called while the process is there, at its end, too: such memory, and some of these files,
  // come late. `start_ticks`: as in process_figures.
  void look_at(std::uint32_t process, std::uint64_t start_ticks);
  // After the process's end: as perf_map::name_code.
  void name_in(profile& p) const { names_.name_code(p, places_); }
  // Once p has its symbols and fitted costs: if a twentieth of the cost or more comes from nameless functions of a virtual machine,
  // p.meta["refused"] gets a sentence that says how to have them; and one for each interpreter that is not read.
  static void note_missing(profile& p);

 private:
  range_map<char> places_;
  std::size_t place_count_ = 0;
  perf_map names_;
};

}  // namespace tarn::profiler
