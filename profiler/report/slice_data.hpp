// SPDX-License-Identifier: MIT
// slice_data: what each row of a report allocated in each slice of the run, as the page reads it. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "profiler/export/event_rows.hpp"
#include "profiler/model/profile.hpp"
#include "profiler/report/path_tree.hpp"
#include "profiler/report/site_rows.hpp"
#include "profiler/report/string_table.hpp"

namespace tarn::profiler {

// Columns of cells by slice and row; null without slices. `rows`, `paths` and `strings` belong to the same
// profile.
nlohmann::json slice_data(const profile& p, const std::vector<site_row>& rows, const event_slices& slices,
                          path_tree& paths, string_table& strings);

}  // namespace tarn::profiler
