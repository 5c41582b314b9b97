// SPDX-License-Identifier: MIT
// site_label: the one frame that stands for a site where there is room for one only: the innermost of the program's own,
// behind operator new, the standard library's containers, wrappers of malloc, and code of libraries that has no name. On a path
// with Python functions: behind the interpreter and Python's own library, too.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Whether a block is only handed on here, so that a change belongs further out: in std, in allocators of other libraries,
// in wrappers of malloc, in an interpreter that runs a script.
bool is_plumbing(const source_frame& frame);

// Its index in `frames`, which are innermost first; 0 where all are the library's. Requires that there are some.
std::size_t own_frame(const std::vector<source_frame>& frames);

// Of a site; named "[no call path]" where it has none.
source_frame site_label(const profile& p, const site& one);

// The file that a frame's function is told apart by from others of its name: the source file, or, where that is not known,
// the module. Whole paths; "": neither is known. Requires a frame of frames_of.
std::string file_of(const profile& p, const source_frame& frame);

}  // namespace tarn::profiler
