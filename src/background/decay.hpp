// SPDX-License-Identifier: MIT
// decay: gives idle memory back to the system, even when the program has fallen asleep.
//
// A background thread runs one period per half of the decay time (10 ms to 60 s) and ends when nothing is left to give
// back; wake() starts it again. If the thread is not allowed or cannot be started, the program's own threads run the
// period, in slow paths, when it is due.
#pragma once

namespace tarn::decay {

// Much memory is free: starts the thread or runs a due period. Cheap if the thread is running. Call without locks.
// False: the caller must call again, in slow paths, because no thread will run the next period.
bool wake();

// Makes the background thread run the fronts' errands now, before its next period. False: there is no such thread
// and none can start, so the caller must run them. Requires: front::has_work() is true while there are errands.
// Call without locks.
bool run_errands_soon();

// Runs one period in the calling thread. Returns whether work is left.
bool run_period();

// Memory is above the soft limit (pressure.hpp): makes the background thread give back now what the next periods would,
// or, without one, the next call of wake() by a thread of the program. Callable inside allocations, without locks.
void relieve_soon();

// Called by the gates at load: all calls by which the program changes its rights pass through them. The option value
// `auto` then allows a thread; without gates, as in a static program, it does not.
void note_rights_are_followed();

// Defined by observe/socket: writes the engine's figures to the black box when they are due. Only the background thread.
void write_box_figures();

}  // namespace tarn::decay
