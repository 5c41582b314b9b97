// SPDX-License-Identifier: MIT
// report: writes lines to standard error, and ends the process.
#pragma once

#include "base/text.hpp"

namespace tarn::os {

// For what the program has asked for, and last words: writes to descriptor 2. Writes nothing if there was no standard error
// when the process started, or if it is a pipe that is full and stays so for 100 ms. No call here raises SIGPIPE or SIGXFSZ
// (held_signals.hpp).
void write_line(const text_writer& line);

// For what nobody has asked for just now. The same, but only while descriptor 2 is the file that it was when the process
// started, as a program that has closed it may have a file of its own there; otherwise to the duplicate, if there is one.
// Writes nothing in a sandbox that the program has entered, which may forbid to ask.
void write_notice(const text_writer& line);

// Duplicates standard error to a descriptor of 500 or more (close-on-exec), so that write_line() works after the
// program has closed it. It uses up a descriptor: call it only if an option needs it. Does nothing if no descriptor is
// free or there is no standard error. Not while other threads write lines.
void keep_standard_error();
// Closes the duplicate. Also for a forked child: a reader that waits for end-of-file waits for this descriptor too.
void forget_standard_error();

// Writes "tarn: <what>: <pointer>" and ends the process: the heap can no longer be trusted.
[[noreturn]] void fatal(const char* what, const void* pointer);
// The same with `what` in parts.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fatal_at(const void* pointer, Parts... parts) {
  text_buffer<1400> what;
  (what.put(parts), ...);
  what.put('\0');
  fatal(what.data(), pointer);
}

// Sends SIGABRT to the calling thread, and SIGKILL if the process survives that.
[[noreturn]] void end_process();

// Writes all bytes. 0, or -errno. If the descriptor does not block, it waits 100 ms at most for room.
long write_all(long descriptor, const char* text, std::size_t size);

}  // namespace tarn::os
