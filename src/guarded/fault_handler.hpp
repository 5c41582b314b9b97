// SPDX-License-Identifier: MIT
// fault_handler: SIGSEGV on a guarded block becomes a report; what happens to the signal is as if tarn were not there.
//
// The handler is installed when the first block is guarded, if the action is the default then, and never again. So a
// handler of the program's, of a JVM, of Go or of Rust, and SIG_IGN, stay undisturbed, and a program that installs its
// own handler only over the default finds the default as it starts. A handler that comes later takes the place of this
// one; it may call the one before it, as Go's does, and then there is a report. At the first SIGSEGV of any kind the
// default action is put back, and the signal is sent again with the same facts: the kernel does what the system has
// decided, with the same registers and the same core dump. Why so: docs/design/0019.
#pragma once

#include "guarded/guarded_blocks.hpp"

namespace tarn::fault_handler {

// Faults on these blocks are reported from now on. Once; leaves everything as it is where SIGSEGV has another action than
// the default, where the system refuses, and in a sandbox, which might end the process. Two system calls, once.
void install(const guarded_blocks& blocks);

}  // namespace tarn::fault_handler
