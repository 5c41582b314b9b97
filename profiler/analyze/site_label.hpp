// SPDX-License-Identifier: MIT
// site_label: chooses the frame that represents a site where there is room for one only: the innermost frame of the
// program's own code, outside of operator new, the standard library's containers, wrappers of malloc, and library
// code without symbols. On a path with Python functions: also outside of the interpreter and Python's own library.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Whether the frame only passes blocks on, so that a change would belong further out: in the libraries of C, C++ and Rust
// and in Boost, in allocators of other libraries, in wrappers of malloc, or in an interpreter that runs a script.
bool is_plumbing(const source_frame& frame);

// Index of the program's own frame in `frames`, which are innermost first. If all belong to libraries: that of the
// innermost library code without a name, or else 0. Requires at least one frame.
std::size_t own_frame(const std::vector<source_frame>& frames);

// The own frame of a site; a frame named "[no call path]" if it has none.
source_frame site_label(const profile& p, const site& one);

// The file that distinguishes a frame's function from others of the same name: the source file, or, if that is not
// known, the module. Whole paths; "": neither is known. Requires a frame from frames_of.
std::string file_of(const profile& p, const source_frame& frame);

// Which files have code without names, and what brings the names: one sentence, if a twentieth of the cost or more is at places to which code without names leads; else "".
std::string missing_names(const profile& p);

}  // namespace tarn::profiler
