// SPDX-License-Identifier: MIT
// process_fence: orders the stores and loads of all threads of the process at the cost of the one that calls it.
#pragma once

namespace tarn::os {

// When it returns true, every other thread of the process has gone through a full fence since the call began. False: the
// system cannot do that, or the process is in a sandbox that may forbid it. Cost: some microseconds, where the system is old milliseconds.
bool process_fence();

}  // namespace tarn::os
