// SPDX-License-Identifier: MIT
// fault_handler: SIGSEGV on a guarded block becomes a report; what happens to the signal is as if tarn were not there.
//
// The handler is installed when the library is loaded, before the program can install one or close a sandbox, and
// never again. So a handler of the program's, of a JVM or of Go takes its place and stays undisturbed; it may call the
// one before it, as Go does, and then there is a report. At the first SIGSEGV of any kind tarn's handler gives the
// signal back to what was there before it, and returns: the access faults again, or the signal is sent again, and the
// kernel does what the program or the system has decided, with the same registers and the same core dump.
// Why so: docs/design/0019.
#pragma once

#include "guarded/guarded_blocks.hpp"

namespace tarn::fault_handler {

// Faults on these blocks are reported from now on. Once; leaves everything as it is where the system refuses.
void install(const guarded_blocks& blocks);

}  // namespace tarn::fault_handler
