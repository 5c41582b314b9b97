// SPDX-License-Identifier: MIT
// profile_switch: what the option profile needs to take effect.
//
// Thread safety: any thread, without a lock of the engine.
#pragma once

namespace tarn::engine {

#pragma GCC visibility push(hidden)

// The option may have changed: the caches of all threads follow at their next allocations.
void follow_profile_option();

#pragma GCC visibility pop

}  // namespace tarn::engine
