// SPDX-License-Identifier: MIT
// site_sum: two sites, or two counter rows, as one. Pure; any thread.
#pragma once

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Adds figures, sizes, lifetimes and thread pairs; of peaks the larger one stays. The thread pairs of `from` are
// appended, as they are assumed to be of other threads than those in `into`.
void add_site(site& into, const site& from);
// The figures alone.
void add_figures(site_figures& into, const site_figures& from);

// Whether the figure is a peak, which must not be added up.
bool is_peak(double site_figures::*member);

// Whether the counter is a total since the start, which remains after the end of its process.
bool is_running_total(double counter_row::*member);

// Adds the count to that of the same size, or the size to the list.
void add_size(std::vector<size_count>& into, const size_count& from);

}  // namespace tarn::profiler
