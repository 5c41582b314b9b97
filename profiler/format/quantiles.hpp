// SPDX-License-Identifier: MIT
// quantiles: the bounds that decide whether two means differ by more than chance explains, and how many recordings decide.
// Pure; any thread.
#pragma once

#include <cstddef>

namespace tarn::profiler {

// The bound that |t| of Student's t distribution with `degrees` degrees of freedom (at least 1) does not exceed
// with this probability (0 < probability < 1).
double student_bound(std::size_t degrees, double probability);
// The same for the absolute value of the standard normal distribution (mean 0, standard deviation 1).
double normal_bound(double probability);

// Confidence of each total's interval, and of the sites' intervals jointly.
inline constexpr double difference_confidence = 0.95;
// The change of a total, and the part of all cases in which it is to be found, for which `recordings_needed` are enough.
inline constexpr double small_change = 0.05;
inline constexpr double small_change_found = 0.9;
inline constexpr std::size_t most_recordings = 1000;

// The recordings a side with which a change of `amount` is found (its interval excludes 0) in small_change_found of all
// cases, if `error` is the standard error of one recording's figure. 2 at least; 0: more than most_recordings.
std::size_t recordings_to_find(double amount, double error, double confidence = difference_confidence);

}  // namespace tarn::profiler
