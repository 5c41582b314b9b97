// SPDX-License-Identifier: MIT
// clock_price: what a sample of the clock takes of the program's processor time on this machine, and how often samples
// may come so that all of them take about 0.5 % at most. A timer's interrupt takes 1 us on many machines, and 16 us on a
// virtual one whose host sets the timer.
//
// Any thread.
#pragma once

#include <cstdint>

namespace tarn::profiler {

// In ns; 0: the kernel refuses samples. Takes about 40 ms of processor time.
double clock_sample_price();

// From one sample to the next, in ns of a thread's processor time.
std::uint64_t clock_period(double price_ns) noexcept;

}  // namespace tarn::profiler
