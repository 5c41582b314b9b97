// SPDX-License-Identifier: MIT
// process_fence: what membarrier does to the other threads of the process, paid for by the calling thread.
#pragma once

namespace tarn::os {

// True: every other thread of the process has executed a full fence since the call began. False: the system cannot do
// that, or the process is in a sandbox that may forbid it. Cost: some microseconds; on old systems, milliseconds.
bool process_fence();

// One of membarrier's expedited commands; registers the process by `registration` if the system wants that first.
// False: as process_fence().
bool expedited_membarrier(int command, int registration);

}  // namespace tarn::os
