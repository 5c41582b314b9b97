// SPDX-License-Identifier: MIT
// malloc_functions: names of functions that a malloc exports. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace tarn::profiler {

// A list of names, each with a blank before and behind it. glibc's functions of this list are one object file, linked in one
// piece.
inline constexpr std::string_view malloc_functions =
    " malloc free calloc realloc memalign aligned_alloc posix_memalign valloc pvalloc malloc_usable_size"
    " mallopt mallinfo mallinfo2 malloc_info malloc_stats malloc_trim ";

inline bool is_listed(std::string_view names, std::string_view name) {
  return names.find(" " + std::string(name) + " ") != std::string_view::npos;
}

}  // namespace tarn::profiler
