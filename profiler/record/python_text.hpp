// SPDX-License-Identifier: MIT
// python_text: reads CPython's objects without the interpreter: text as UTF-8, and the source line of an
// instruction. Any thread; allocates nothing. Whatever the memory holds, reading ends, and stays within the given
// room.
#pragma once

#include <cstddef>
#include <cstdint>

#include "profiler/record/guarded_reader.hpp"
#include "profiler/record/python_layout.hpp"

namespace tarn::profiler {

// Writes the text object as UTF-8 and returns the number of bytes; text beyond `room` is cut off between
// characters.
std::size_t python_text(const python_layout& of, guarded_reader& from, std::uintptr_t object, char* out,
                        std::size_t room);

// The line of an instruction of the code object; the code's first line if the table has none.
std::uint32_t python_line(const python_layout& of, guarded_reader& from, std::uintptr_t code,
                          std::uintptr_t instruction);

}  // namespace tarn::profiler
