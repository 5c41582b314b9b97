// SPDX-License-Identifier: MIT
// clock_price: how much of the program's processor time one sample of the clock costs on this machine, and how
// often samples may come so that all of them together cost about 0.5 % at most. A timer interrupt costs 1 us on
// many machines, and 16 us on a virtual machine whose host has to set the timer.
//
// Any thread.
#pragma once

#include <cstdint>

namespace tarn::profiler {

// In ns; 0: the kernel refuses samples. Takes about 40 ms of processor time.
double clock_sample_price();

// From one sample to the next, in ns of a thread's processor time: while a program runs, and in its first second, when
// samples are few and may cost 1 %.
struct clock_periods {
  std::uint64_t first = 0;
  std::uint64_t later = 0;
};
clock_periods clock_periods_for(double price_ns) noexcept;

}  // namespace tarn::profiler
