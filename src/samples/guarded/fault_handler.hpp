// SPDX-License-Identifier: MIT
// fault_handler: writes a report when an access to a guarded block raises SIGSEGV. The signal then has the effect that
// it would have without tarn.
//
// The handler is installed once, when the first block is guarded, and only if SIGSEGV then has the default action. So
// handlers of the program, of a JVM, of Go or of Rust, and SIG_IGN, are never replaced. A handler that is installed
// later replaces this one; if it calls the previous handler, as Go's does, a report is written. At the first SIGSEGV of
// any kind this handler restores the default action and sends the signal again with the same information, so the kernel
// acts as configured: the same registers and the same core dump. Reasons: docs/design/0019.
#pragma once

#include "base/text.hpp"
#include "samples/guarded/guarded_blocks.hpp"

namespace tarn::fault_handler {

// From now on, faults on these blocks are reported. Only the first call has an effect. Changes nothing if SIGSEGV has
// another action than the default, if the system refuses, or in a sandbox, which might end the process. Cost of the
// first call: two system calls.
void install(const guarded_blocks& blocks);

// What is known of an address that is inaccessible for another reason, as a line; false: nothing. Defined by the layer
// that makes such memory (src/fronts/scopes): the linker binds the call. In a signal handler.
bool describe_other(std::uintptr_t address, text_writer& out);

}  // namespace tarn::fault_handler
