// SPDX-License-Identifier: MIT
// Lines to standard error, and the end of the process.
#pragma once

#include "base/text.hpp"

namespace tarn::os {

// Nothing is written if there was no standard error when the process started.
void write_line(const text_writer& line);

// From now on write_line() reaches standard error also where the program has closed it. Takes a descriptor, from 500
// on and closed by exec, so it is for those who ask; nothing happens where none is to be had, or there is no standard
// error. Not while other threads write lines.
void keep_standard_error();
// Closes it again. For a forked child too: who waits for the end of standard error waits for this descriptor.
void forget_standard_error();

// Writes "tarn: <what>: <pointer>" and aborts: the heap can no longer be trusted.
[[noreturn]] void fatal(const char* what, const void* pointer);

// Sends SIGABRT to the calling thread; the process does not go on, whatever the program does with the signal.
[[noreturn]] void end_process();

// Appends text to a file that is made if needed. False when that fails.
bool append_to_file(const char* path, const text_writer& text);

}  // namespace tarn::os
