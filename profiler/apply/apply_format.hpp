// SPDX-License-Identifier: MIT
// apply_format: how `tarn apply` tells the preloaded library what to do, and what that tells at its end. Text, as the
// library has no C++ library to read JSON with.
//
// TARN_APPLY names a file of lines
//     pool GROUP SIZE FRAME …
//     buffers GROUP 0 FRAME …
// with frames innermost first, each "bBUILD-ID:OFFSET", or "nNAME:OFFSET" with the hexadecimal bytes of the module's file
// name where it has no build-id; OFFSET is hexadecimal. TARN_APPLY_REPORT names a file to which each process adds, at its
// end, "sites FOUND ALL" and for each group "group NUMBER BLOCKS".
#pragma once

#include <cstddef>

namespace tarn::profiler {

inline constexpr const char* apply_variable = "TARN_APPLY";
inline constexpr const char* apply_report_variable = "TARN_APPLY_REPORT";
inline constexpr std::size_t most_apply_groups = 32;
inline constexpr std::size_t most_apply_sites = 1024;
inline constexpr std::size_t most_apply_frames = 8;

}  // namespace tarn::profiler
