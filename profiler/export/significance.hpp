// SPDX-License-Identifier: MIT
// significance: how far apart two means must be that chance does not explain it. Pure; any thread.
#pragma once

#include <cstddef>

namespace tarn::profiler {

// The bound that the absolute value of Student's t with so many degrees of freedom (at least 1) keeps within with this
// probability (0 < probability < 1).
double student_bound(std::size_t degrees, double probability);
// The same of the normal distribution, of standard deviation 1.
double normal_bound(double probability);

}  // namespace tarn::profiler
