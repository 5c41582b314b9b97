// SPDX-License-Identifier: MIT
// own_file: files that the engine writes in the program's process, within the program's limit on a file's size.
#pragma once

#include <cstddef>

#include "base/text.hpp"

namespace tarn::os {

// Whether a file of the process may have so many bytes. Writing to a longer one would end it by SIGXFSZ.
bool may_write(std::size_t bytes);

// Appends text to a file, which is created if necessary. False: that failed.
bool append_to_file(const char* path, const text_writer& text);

}  // namespace tarn::os
