// SPDX-License-Identifier: MIT
// load_memory: what resident memory consisted of, from the tables "memory" and "memory_parts" of a profile's file.
// Plain functions. Throw profile_error where a column is missing.
#pragma once

#include <cstddef>
#include <vector>

#include "profiler/format/table_file.hpp"
#include "profiler/model/memory_split.hpp"

namespace tarn::profiler {

std::vector<memory_row> read_memory_rows(const table& rows);
std::vector<memory_part> read_memory_parts(const table& rows);

// Lets parts refer to the rows that sites have when those that do not stay are left out. Returns how many parts referred to
// none that stays; they keep their bytes.
std::size_t place_memory_parts(std::vector<memory_part>& parts, const std::vector<bool>& stays);

}  // namespace tarn::profiler
