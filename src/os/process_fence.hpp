// SPDX-License-Identifier: MIT
// process_fence: a memory fence in all threads of the process (membarrier), paid for by the calling thread.
#pragma once

namespace tarn::os {

// True: every other thread of the process has executed a full fence since the call began. False: the system cannot do
// that, or the process is in a sandbox that may forbid it. Cost: some microseconds; on old systems, milliseconds.
bool process_fence();

}  // namespace tarn::os
