// SPDX-License-Identifier: MIT
// Decay: gives idle memory back to the system, also when the program has gone to sleep.
//
// A background thread runs a period every half of the decay time and ends when there is nothing left to give
// back; wake() starts it again. Where it is not allowed or cannot be started, the program's own threads run
// the period, on slow paths, when it is due.
#pragma once

namespace tarn::decay {

// Free memory has gathered. Cheap when the thread is running. Called without locks.
void wake();

// Has the background thread run the extensions' errands at once, before its next period. False: there is no such thread
// and will be none, so the caller does them itself. Requires: extension::has_work() says that there are some. Called
// without locks.
bool run_errands_soon();

// One period, by the calling thread.
bool run_period();

// By the gates, at load: whatever the program calls to change its rights passes through them, so the option `auto` means a
// thread. Without gates, as in a static program, it means none.
void note_rights_are_followed();

}  // namespace tarn::decay
