// SPDX-License-Identifier: MIT
// load_memory: reads the split of resident memory from the tables "memory" and "memory_parts" of a profile's file.
// Pure functions. Throw profile_error if a column is missing.
#pragma once

#include <cstddef>
#include <vector>

#include "profiler/format/table_file.hpp"
#include "profiler/model/memory_split.hpp"

namespace tarn::profiler {

std::vector<memory_row> read_memory_rows(table& rows);
std::vector<memory_part> read_memory_parts(table& rows);

// Renumbers the sites of the parts after sites with stays[site] == false were removed. Returns the number of parts
// whose site was removed; they keep their bytes.
std::size_t place_memory_parts(std::vector<memory_part>& parts, const std::vector<bool>& stays);

}  // namespace tarn::profiler
