// SPDX-License-Identifier: MIT
// message: text for the user: through malloc_message if the program has set it, else to standard error.
#pragma once

#include "base/text.hpp"

namespace tarn::jemalloc {

// Requires: room for a null byte behind the text, which is cut otherwise. Call without locks: the program's function
// may allocate.
void write_message(text_writer& line);

// Null-terminated text for a function of the form of malloc_message.
using text_function = void (*)(void* context, const char* text);
void write_to_standard_error(void* context, const char* text);

}  // namespace tarn::jemalloc
