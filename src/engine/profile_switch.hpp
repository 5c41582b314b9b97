// SPDX-License-Identifier: MIT
// profile_switch: what the option profile needs to take effect.
//
// Thread safety: any thread, without a lock of the engine.
#pragma once

#include <cstddef>

#include "base/units.hpp"

namespace tarn::heap_profile {

#pragma GCC visibility push(hidden)

// Bytes that are allocated between two samples, on average, if the program asks for no other rate.
inline constexpr std::size_t default_rate = 512 * kib;

// The option may have changed: makes the caches of all threads follow at their next allocations.
void reach_all_threads();

#pragma GCC visibility pop

}  // namespace tarn::heap_profile
