// SPDX-License-Identifier: MIT
// site_label: the one frame that stands for a site where there is room for one only: the innermost of the program's own,
// behind operator new and the standard library's containers.
#pragma once

#include <cstddef>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Its index in `frames`, which are innermost first; 0 where all are the library's. Requires that there are some.
std::size_t own_frame(const std::vector<source_frame>& frames);

// Of a site; named "[no call path]" where it has none.
source_frame site_label(const profile& p, const site& one);

}  // namespace tarn::profiler
