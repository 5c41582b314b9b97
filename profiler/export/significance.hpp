// SPDX-License-Identifier: MIT
// significance: quantiles that decide whether two means differ by more than chance explains. Pure; any thread.
#pragma once

#include <cstddef>

namespace tarn::profiler {

// The bound that |t| of Student's t distribution with `degrees` degrees of freedom (at least 1) does not exceed
// with this probability (0 < probability < 1).
double student_bound(std::size_t degrees, double probability);
// The same for the absolute value of the standard normal distribution (mean 0, standard deviation 1).
double normal_bound(double probability);

}  // namespace tarn::profiler
