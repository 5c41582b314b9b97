// SPDX-License-Identifier: MIT
// site_label: chooses the frame that represents a site where there is room for one only: the innermost frame of the
// program's own code, outside of operator new, the standard library's containers, and wrappers of malloc. On a path with
// Python functions: also outside of the interpreter and Python's own library.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Whether the frame only passes blocks on, so that a change would belong further out: in the libraries of C, C++ and Rust
// and in Boost, in allocators of other libraries, in wrappers of malloc, or in an interpreter that runs a script.
bool is_plumbing(const source_frame& frame);

// Whether the code has no name: "?? (libx.so.6+0x12)".
bool is_nameless(const source_frame& frame);

// Index of the program's own frame in `frames`, which are innermost first; code without a name counts like code with one. If
// all belong to libraries: that of the innermost code without a name, or else 0. Requires at least one frame.
std::size_t own_frame(const std::vector<source_frame>& frames);

// The own frame, as it is shown and grouped: code without a name stands for its whole file, "?? (libx.so.6)", as nothing tells
// its functions apart. "[no call path]" if there is no frame.
source_frame label_of(const std::vector<source_frame>& frames);
source_frame site_label(const profile& p, const site& one);

// The innermost frames of a path: those that own_frame() and label_of() look at, and at least one caller, if there is one. Copying
// whole paths takes most of the time where there are hundreds of thousands.
std::vector<source_frame> near_frames(const profile& p, std::uint32_t stack);

// The file that distinguishes a frame's function from others of the same name: the source file, or, if that is not
// known, the module. Whole paths; "": neither is known. Requires a frame from frames_of.
std::string file_of(const profile& p, const source_frame& frame);

// Why a label has no name, and what brings the names; "": it has one. Reads the files of this system.
std::string name_hint(const profile& p, const source_frame& label);

}  // namespace tarn::profiler
