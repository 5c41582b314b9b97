// SPDX-License-Identifier: MIT
// site_sum: two sites, or two counter rows, as one. Pure; any thread.
#pragma once

#include "profiler/model/profile.hpp"

namespace tarn::profiler {

// Adds figures, sizes, lifetimes and thread pairs; of the peaks the larger one stays. Thread pairs are taken to be of
// different threads than those that are there.
void add_site(site& into, const site& from);

// Whether a peak, which two processes do not add up to.
bool is_peak(double site_figures::*member);

// Whether it counts what has happened since the start, and stays when its process has ended.
bool is_running_total(double counter_row::*member);

}  // namespace tarn::profiler
