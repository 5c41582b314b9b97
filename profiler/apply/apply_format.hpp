// SPDX-License-Identifier: MIT
// apply_format: the text formats in which `tarn run --plan` instructs the preloaded library, and in which the library
// reports at its end. Plain text, as the library has no C++ library to parse JSON with.
//
// TARN_APPLY names a file of lines
//     pool GROUP SIZE FRAME …
//     buffers GROUP 0 FRAME …
// Frames are innermost first, each "bBUILD-ID:OFFSET", or without a build-id "nNAME:OFFSET", NAME being the
// hexadecimal bytes of the module's file name; OFFSET is hexadecimal. TARN_APPLY_REPORT names a file to which each
// process appends at its end "sites FOUND ALL", and for each group "group NUMBER BLOCKS".
#pragma once

#include <cstddef>

namespace tarn::profiler {

inline constexpr const char* apply_variable = "TARN_APPLY";
inline constexpr const char* apply_report_variable = "TARN_APPLY_REPORT";
inline constexpr std::size_t most_apply_groups = 32;
inline constexpr std::size_t most_apply_sites = 1024;
inline constexpr std::size_t most_apply_frames = 8;

}  // namespace tarn::profiler
