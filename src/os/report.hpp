// SPDX-License-Identifier: MIT
// Lines to standard error, and the end of the process.
#pragma once

#include "base/text.hpp"

namespace tarn::os {

// Nothing is written if there was no standard error when the process started.
void write_line(const text_writer& line);

// Writes "tarn: <what>: <pointer>" and aborts: the heap can no longer be trusted.
[[noreturn]] void fatal(const char* what, const void* pointer);

// Appends text to a file that is made if needed. False when that fails.
bool append_to_file(const char* path, const text_writer& text);

}  // namespace tarn::os
