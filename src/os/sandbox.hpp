// SPDX-License-Identifier: MIT
// Seccomp filters: whether a system call that the program does not make itself may end the process.
//
// A filter that a launcher has installed before the program was executed is found at load. Nobody can ask what
// it allows. The program shows it: once it has a second thread or has made a child, the calls for threads are allowed, and
// those of the engine with them. A filter that is installed later is noted by the gates, and is for ever.
// Thread safety: any thread and any signal handler; errno is left alone.
#pragma once

namespace tarn::os {

#pragma GCC visibility push(hidden)

// No system call beyond those that malloc needs anyway, and no thread. Cost: two loads once it is known, which it is when
// the constructors have run; before: three system calls, open, read and close, which the dynamic linker has just made.
bool in_sandbox();

// The same, but only for a filter that was installed after the program's start: files cannot be opened any more.
bool has_entered_sandbox();

// By the gates: a filter has been installed.
void note_sandbox();

// The program has a second thread, has made a child, or its operator demands a thread.
void note_threads_allowed();

#pragma GCC visibility pop

}  // namespace tarn::os
